//! What a rank did in a communicator, according to the communication records.

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use analysis::{Instances, Step, Trace};
use otf2::{Collective, CommRef, Event, EventKind, LocationRef, Message};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Operation {
    pub begin: u64,
    pub end: u64,
    pub collective: Collective,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct End {
    pub begin: u64,
    pub end: u64,
    pub peer: u32,
    pub bytes: u64,
}

/// What a rank did in a communicator; each list is sorted by start.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rank {
    pub collectives: Vec<Operation>,
    pub sends: Vec<End>,
    pub receives: Vec<End>,
    /// How many collectives and message ends were left out: the first unfinished one and everything after it.
    pub left_out: (u64, u64),
}

/// Reads what a rank did, except for the first unfinished operation and everything after it.
pub fn read(trace: &Trace, comm: CommRef, location: LocationRef) -> otf2::Result<Rank> {
    let mut reading = Reading::default();
    let mut ends_at = u64::MAX;
    // Operations that overlap others are on siblings.
    let siblings = trace.siblings(location).iter().copied().filter(|sibling| trace.has_events(*sibling));
    for of in [location].into_iter().chain(siblings) {
        let mut instances: Instances<'_> = Instances::of(trace);
        trace.archive.for_each_event(&[of], |_, event| {
            if let Step::Left(it) = instances.step(event)
                && it.fields.is_unfinished == Some(true)
            {
                ends_at = ends_at.min(it.start);
            }
            if of == location {
                reading.event(comm, event);
            }
            ControlFlow::Continue(())
        })?;
    }
    let mut rank = reading.rank;
    let number = |rank: &Rank| (rank.collectives.len() as u64, (rank.sends.len() + rank.receives.len()) as u64);
    let all = number(&rank);
    rank.collectives.retain(|it| it.begin < ends_at);
    rank.sends.retain(|it| it.begin < ends_at);
    rank.receives.retain(|it| it.begin < ends_at);
    let kept = number(&rank);
    rank.left_out = (all.0 - kept.0, all.1 - kept.1);
    for ends in [&mut rank.sends, &mut rank.receives] {
        ends.sort_by_key(|it| it.begin);
    }
    Ok(rank)
}

#[derive(Debug, Default)]
struct Reading {
    rank: Rank,
    begun: Option<u64>,
    requests: BTreeMap<u64, (u64, Option<Message>)>,
}

impl Reading {
    fn event(&mut self, comm: CommRef, event: &Event) {
        let time = event.time;
        match &event.kind {
            EventKind::MpiCollectiveBegin => self.begun = Some(time),
            EventKind::MpiCollectiveEnd(collective) => {
                let begin = self.begun.take().unwrap_or(time);
                self.collective(comm, begin, time, *collective);
            }
            EventKind::NonBlockingCollectiveRequest { request } | EventKind::MpiIrecvRequest { request } => {
                self.requests.insert(*request, (time, None));
            }
            EventKind::NonBlockingCollectiveComplete { collective, request } => {
                let begin = self.requests.remove(request).map_or(time, |(begin, _)| begin);
                self.collective(comm, begin, time, *collective);
            }
            EventKind::MpiIsend { message, request } => {
                self.requests.insert(*request, (time, Some(*message)));
            }
            EventKind::MpiIsendComplete { request } => {
                if let Some((begin, Some(message))) = self.requests.remove(request) {
                    self.rank.sends.extend(end(comm, begin, time, &message));
                }
            }
            EventKind::MpiIrecv { message, request } => {
                let begin = self.requests.remove(request).map_or(time, |(begin, _)| begin);
                self.rank.receives.extend(end(comm, begin, time, message));
            }
            _ => {}
        }
    }

    /// Collective requests may overlap: each collective begins where the previous one ended.
    fn collective(&mut self, comm: CommRef, begin: u64, end: u64, collective: Collective) {
        if collective.comm != comm {
            return;
        }
        let begin = begin.max(self.rank.collectives.last().map_or(0, |before| before.end));
        self.rank.collectives.push(Operation { begin, end: end.max(begin), collective });
    }
}

fn end(comm: CommRef, begin: u64, end: u64, message: &Message) -> Option<End> {
    (message.comm == comm).then_some(End { begin, end, peer: message.peer, bytes: message.bytes })
}
