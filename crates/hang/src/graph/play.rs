//! Plays the queues: takes parts that are first in all their queues, and ends those whose operations all members have
//! begun, until nothing moves. What is left is where the job is stuck.
//!
//! ```text
//! rank 0   stream  [A 2] [B 2]       A 2 is first;  B 2 is behind it
//! rank 1   stream  [B 2] [A 2]       B 2 is first;  A 2 is behind it: neither meets its other part
//! ```

use std::cell::OnceCell;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

use crate::compare::difference;
use crate::graph::parts::{Described, Key, Operation, Part, PartId, PartStage, Parts, Queue};
use crate::job::{Comm, Job, Member, Rank, Sequence};
use crate::lifetimes::DiedBeforePeers;
use nccl_events::ids::index;

/// What counts as over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rule {
    /// What has ended by the recording; and what all members have begun, if the recording does not show ends.
    AsRecorded,
    /// Only what all members have begun: no send ends before its receive begins.
    AsGuaranteed,
    /// The same, with one queue for each GPU.
    OneQueueEach,
}

/// The calls of a communicator's members that belong to one operation.
#[derive(Debug)]
pub(crate) struct Meeting {
    pub(crate) key: Key,
    /// By rank: the part, and the operation in it.
    pub(crate) parts: BTreeMap<u32, (PartId, Operation)>,
    /// How many ranks it needs, and how many of them have begun.
    needed: usize,
    begun: usize,
    /// Whether members called different things.
    differs: OnceCell<bool>,
    /// Whether all members called it and none was killed in it.
    is_all_there: OnceCell<bool>,
}

/// An index in [`Played::meetings`].
pub(crate) type MeetingId = u32;

pub(crate) struct Played<'a> {
    pub(crate) job: &'a Job,
    died: &'a DiedBeforePeers<'a>,
    pub(crate) parts: &'a Parts,
    rule: Rule,
    pub(crate) meetings: Vec<Meeting>,
    /// By part.
    pub(crate) meetings_of: Vec<Vec<MeetingId>>,
    queues: Vec<(Queue, Vec<PartId>)>,
    queues_of: Vec<Vec<usize>>,
    heads: Vec<usize>,
    is_over: Vec<bool>,
    /// In how many of its queues a part is first.
    first_in: Vec<u32>,
    by_key: BTreeMap<Key, MeetingId>,
}

impl<'a> Played<'a> {
    pub(crate) fn new(job: &'a Job, died: &'a DiedBeforePeers<'a>, parts: &'a Parts, rule: Rule) -> Self {
        let count = parts.all.len();
        let mut played = Self {
            job,
            died,
            parts,
            rule,
            meetings: Vec::new(),
            meetings_of: vec![Vec::new(); count],
            queues: Vec::new(),
            queues_of: vec![Vec::new(); count],
            heads: Vec::new(),
            is_over: vec![false; count],
            first_in: vec![0; count],
            by_key: BTreeMap::new(),
        };
        played.fill_queues();
        played.fill_meetings();
        played.run();
        played
    }

    fn takes_part(&self, part: &Part) -> bool {
        match self.rule {
            Rule::AsRecorded => true,
            // The streams of graphs are not recorded.
            Rule::AsGuaranteed | Rule::OneQueueEach => !part.is_replay && part.has_stream(),
        }
    }

    fn fill_queues(&mut self) {
        let parts = self.parts;
        let mut order: Vec<(u64, PartId)> = (0..).zip(&parts.all).map(|(id, part)| (part.order_ns, id)).collect();
        order.sort_unstable();
        let mut numbers: BTreeMap<Queue, usize> = BTreeMap::new();
        for (_, id) in order {
            let Some(part) = parts.get(id) else { continue };
            if !self.takes_part(part) {
                if let Some(is_over) = self.is_over.get_mut(index(id)) {
                    *is_over = true;
                }
                continue;
            }
            let gpu = (self.rule == Rule::OneQueueEach).then_some(Queue::Gpu(part.actor));
            for queue in part.queues.iter().copied().chain(gpu) {
                let number = *numbers.entry(queue).or_insert_with(|| {
                    self.queues.push((queue, Vec::new()));
                    self.heads.push(0);
                    self.queues.len() - 1
                });
                if let Some((_, parts)) = self.queues.get_mut(number) {
                    parts.push(id);
                }
                if let Some(of) = self.queues_of.get_mut(index(id)) {
                    of.push(number);
                }
            }
        }
    }

    fn fill_meetings(&mut self) {
        let (job, parts) = (self.job, self.parts);
        for (id, part) in (0..).zip(&parts.all) {
            if self.is_over(id) {
                continue;
            }
            for operation in &part.operations {
                let Some(key) = parts.key(job, part, *operation) else {
                    continue;
                };
                let meetings = &mut self.meetings;
                let meeting = *self.by_key.entry(key).or_insert_with(|| {
                    let (differs, is_all_there) = (OnceCell::new(), OnceCell::new());
                    meetings.push(Meeting { key, parts: BTreeMap::new(), needed: 0, begun: 0, differs, is_all_there });
                    u32::try_from(meetings.len() - 1).unwrap_or(u32::MAX)
                });
                if let Some(meeting) = self.meetings.get_mut(index(meeting)) {
                    meeting.parts.insert(part.member.1, (id, *operation));
                }
                if let Some(of) = self.meetings_of.get_mut(index(id)) {
                    of.push(meeting);
                }
            }
        }
        let befores = Befores::new(job);
        for meeting in &mut self.meetings {
            if self.rule != Rule::AsRecorded {
                meeting.needed = meeting.parts.len();
                continue;
            }
            (meeting.needed, meeting.begun) = match meeting.key {
                Key::Collective(comm, sequence, position) => befores.at(comm, sequence, position),
                Key::Message { comm, sender, receiver, number } => {
                    let ends = [(sender, receiver, true), (receiver, sender, false)];
                    let counted = ends.into_iter().filter_map(|(rank, peer, is_send)| {
                        let found = job.member((comm, rank)).filter(|rank| is_matched(job, rank, meeting.key))?;
                        let has_called = found.message_counts.get(&(peer, is_send)).is_some_and(|sum| *sum > number);
                        Some(has_called && !meeting.parts.contains_key(&rank))
                    });
                    counted
                        .fold((0, 0), |(needed, begun), is_forgotten| (needed + 1, begun + usize::from(is_forgotten)))
                }
            };
        }
    }

    pub(crate) fn is_over(&self, part: PartId) -> bool {
        self.is_over.get(index(part)).copied().unwrap_or(true)
    }

    /// Whether a part is first in all its queues.
    pub(crate) fn is_first(&self, part: PartId) -> bool {
        let queues = self.queues_of.get(index(part)).map_or(0, Vec::len);
        self.first_in.get(index(part)).is_some_and(|first_in| index(*first_in) == queues)
    }

    /// Whether a rank's part of an operation has begun, as far as its queues say.
    pub(crate) fn has_begun(&self, part: PartId) -> bool {
        self.is_over(part)
            || self.is_first(part) && self.parts.get(part).is_some_and(|part| part.stage != PartStage::GroupOpen)
    }

    /// The parts that a part is behind, each with the queue.
    pub(crate) fn before(&self, part: PartId) -> Vec<(PartId, Queue)> {
        let queues = self.queues_of.get(index(part)).into_iter().flatten();
        let first = queues.filter_map(|number| {
            let (queue, parts) = self.queues.get(*number)?;
            Some((*parts.get(*self.heads.get(*number)?)?, *queue))
        });
        first.filter(|(first, _)| *first != part).collect()
    }

    pub(crate) fn meeting(&self, id: MeetingId) -> Option<&Meeting> {
        self.meetings.get(index(id))
    }

    pub(crate) fn meetings_of(&self, part: PartId) -> &[MeetingId] {
        self.meetings_of.get(index(part)).map_or(&[], Vec::as_slice)
    }

    pub(crate) fn meeting_with(&self, key: Key) -> Option<&Meeting> {
        self.meeting(*self.by_key.get(&key)?)
    }

    /// The parts that are left.
    pub(crate) fn waiting(&self) -> impl Iterator<Item = PartId> {
        (0..).zip(&self.is_over).filter(|(_, is_over)| !**is_over).map(|(id, _)| id)
    }

    fn run(&mut self) {
        if self.rule == Rule::AsRecorded {
            self.end_what_has_ended();
        }
        let ended: Vec<PartId> = (0..).zip(&self.is_over).filter(|(_, is_over)| **is_over).map(|(id, _)| id).collect();
        let mut to_look_at: VecDeque<MeetingId> = VecDeque::new();
        for part in ended {
            self.count_begun(part, &mut to_look_at);
        }
        let mut candidates: Vec<PartId> = Vec::new();
        for number in 0..self.queues.len() {
            self.advance(number, &mut candidates, &mut to_look_at);
        }
        loop {
            while let Some(part) = candidates.pop() {
                self.try_to_end(part, &mut candidates, &mut to_look_at);
            }
            let Some(meeting) = to_look_at.pop_front() else { return };
            if let Some(meeting) = self.meetings.get(index(meeting)).filter(|one| one.begun >= one.needed) {
                candidates.extend(meeting.parts.values().map(|(part, _)| *part));
            }
        }
    }

    /// What has ended, and all that ran before it, is over.
    fn end_what_has_ended(&mut self) {
        let has_ended =
            |(id, part): &(PartId, &Part)| part.stage == PartStage::Ended && self.is_end_credible(*id, part);
        let mut ended: Vec<PartId> = (0..).zip(&self.parts.all).filter(has_ended).map(|(id, _)| id).collect();
        let mut over_until = vec![0; self.queues.len()];
        let mut places: Vec<BTreeMap<usize, usize>> = vec![BTreeMap::new(); self.parts.all.len()];
        for (number, (_, parts)) in self.queues.iter().enumerate() {
            for (place, part) in parts.iter().enumerate() {
                if let Some(places) = places.get_mut(index(*part)) {
                    places.insert(number, place);
                }
            }
        }
        while let Some(part) = ended.pop() {
            if let Some(is_over) = self.is_over.get_mut(index(part)) {
                *is_over = true;
            }
            for (number, place) in places.get(index(part)).into_iter().flatten() {
                let (Some((queue, parts)), Some(until)) = (self.queues.get(*number), over_until.get_mut(*number))
                else {
                    continue;
                };
                if !queue.is_certain() {
                    continue;
                }
                ended.extend(parts.iter().take(*place).skip(*until).filter(|one| !self.is_over(**one)));
                *until = (*until).max(*place);
            }
        }
    }

    /// Transfers also end when a peer dies: not where a rank that must take part has never called.
    fn is_end_credible(&self, id: PartId, part: &Part) -> bool {
        if !part.by_transfers {
            return true;
        }
        self.meetings_of(id).iter().all(|meeting| {
            let Some(meeting) = self.meeting(*meeting) else { return true };
            let Key::Collective(_, sequence @ Sequence::Calls, position) = meeting.key else { return true };
            let needs_all = meeting.parts.get(&part.member.1).is_some_and(|(_, operation)| {
                let described = self.job.described(part.member, *operation);
                matches!(described, Some(Described::Collective(call)) if call.what.needs_all())
            });
            let is_last = self.job.member(part.member).is_none_or(|rank| sequence.tail(rank).count() == position + 1);
            !needs_all || !is_last || self.is_all_there(meeting, sequence, position)
        })
    }

    /// Whether all members have called a collective, and none was killed in it.
    fn is_all_there(&self, meeting: &Meeting, sequence: Sequence, position: u64) -> bool {
        *meeting.is_all_there.get_or_init(|| {
            let Some(comm) = self.job.comms.get(meeting.key.comm()) else { return true };
            comm.ranks.iter().all(|(number, rank)| {
                let has_ended = |part: PartId| self.parts.get(part).is_some_and(|part| part.stage == PartStage::Ended);
                let was_killed = self.died.before_peers((meeting.key.comm(), *number))
                    && meeting.parts.get(number).is_some_and(|(part, _)| !has_ended(*part));
                !is_matched(self.job, rank, meeting.key) || sequence.tail(rank).count() > position && !was_killed
            })
        })
    }

    fn count_begun(&mut self, part: PartId, to_look_at: &mut VecDeque<MeetingId>) {
        for meeting in self.meetings_of.get(index(part)).into_iter().flatten() {
            if let Some(found) = self.meetings.get_mut(index(*meeting)) {
                let is_needed = self.parts.get(part).and_then(|part| self.job.member(part.member));
                if is_needed.is_some_and(|rank| is_matched(self.job, rank, found.key)) {
                    found.begun += 1;
                }
                if found.begun >= found.needed {
                    to_look_at.push_back(*meeting);
                }
            }
        }
    }

    /// Moves a queue's head behind what is over.
    fn advance(&mut self, number: usize, candidates: &mut Vec<PartId>, to_look_at: &mut VecDeque<MeetingId>) {
        let (Some((_, parts)), Some(head)) = (self.queues.get(number), self.heads.get_mut(number)) else {
            return;
        };
        while parts.get(*head).is_some_and(|part| self.is_over.get(index(*part)).copied().unwrap_or(true)) {
            *head += 1;
        }
        let Some(first) = parts.get(*head).copied() else { return };
        if let Some(first_in) = self.first_in.get_mut(index(first)) {
            *first_in += 1;
        }
        if self.is_first(first) && self.has_begun(first) {
            self.count_begun(first, to_look_at);
            candidates.push(first);
        }
    }

    fn try_to_end(&mut self, id: PartId, candidates: &mut Vec<PartId>, to_look_at: &mut VecDeque<MeetingId>) {
        if self.is_over(id) || !self.is_first(id) || !self.may_end(id) {
            return;
        }
        if let Some(is_over) = self.is_over.get_mut(index(id)) {
            *is_over = true;
        }
        for number in self.queues_of.get(index(id)).cloned().unwrap_or_default() {
            self.advance(number, candidates, to_look_at);
        }
    }

    fn may_end(&self, id: PartId) -> bool {
        let Some(part) = self.parts.get(id) else { return true };
        let is_complete = |meeting: &MeetingId| self.meeting(*meeting).is_none_or(|one| one.begun >= one.needed);
        let meetings = self.meetings_of(id);
        if self.rule != Rule::AsRecorded {
            return meetings.iter().all(is_complete);
        }
        // An operation whose position or peer is not known has no meeting.
        let is_known = meetings.len() == part.operations.len();
        // A small send may be complete without its receive.
        let is_sent = !part.shows_end && part.operations.iter().all(|operation| self.is_send(part, *operation));
        if !is_known {
            return part.is_enqueued() && !part.shows_end;
        }
        if !part.is_enqueued() || !is_sent && !meetings.iter().all(is_complete) {
            return false;
        }
        if part.shows_end && !self.was_lost(part, meetings) {
            return false;
        }
        meetings.iter().all(|meeting| self.meeting(*meeting).is_none_or(|one| !self.differs(one)))
    }

    fn is_send(&self, part: &Part, operation: Operation) -> bool {
        matches!(self.job.described(part.member, operation), Some(Described::Message(message)) if message.is_send)
    }

    /// Whether the records of a part's end may be missing: its process was gone, or lost records, and the operation
    /// ended on another rank.
    fn was_lost(&self, part: &Part, meetings: &[MeetingId]) -> bool {
        let is_incomplete = self.died.before_peers(part.member)
            || self.job.member(part.member).is_some_and(|rank| !self.job.is_whole(rank));
        let ended = |(id, _): &(PartId, Operation)| {
            self.is_over(*id) && self.parts.get(*id).is_some_and(|part| part.stage == PartStage::Ended)
        };
        is_incomplete
            && meetings.iter().any(|meeting| self.meeting(*meeting).is_some_and(|one| one.parts.values().any(ended)))
    }

    /// Whether members called different things.
    pub(crate) fn differs(&self, meeting: &Meeting) -> bool {
        *meeting.differs.get_or_init(|| difference(&self.described(meeting)).is_some())
    }

    /// What members called, of those whose records are complete.
    pub(crate) fn described(&self, meeting: &Meeting) -> Vec<(u32, Described<'a>)> {
        let whole = meeting.parts.iter().filter_map(|(number, (_, operation))| {
            let member: Member = (meeting.key.comm(), *number);
            self.job.member(member).filter(|rank| self.job.is_whole(rank))?;
            Some((*number, self.job.described(member, *operation)?))
        });
        whole.collect()
    }

    /// The ranks that an operation needs and that have not begun it: those with a part that waits, then those without
    /// one. Also the ranks of which that is not known.
    pub(crate) fn others(&self, meeting: &Meeting) -> Others {
        let mut others = Others::default();
        let job = self.job;
        let mut look = |comm: &Comm, number: u32, has_called: &dyn Fn(&Rank) -> bool| {
            let Some(rank) = comm.ranks.get(&number) else {
                others.missing.push(number);
                return;
            };
            match meeting.parts.get(&number) {
                Some((part, _)) if self.has_begun(*part) => others.begun.push(number),
                Some((part, _)) => others.waiting.push((number, *part)),
                None if has_called(rank) => {}
                None if is_matched(job, rank, meeting.key) => others.absent.push(number),
                None => others.unsure.push(number),
            }
        };
        let Some(comm) = job.comms.get(meeting.key.comm()) else {
            return others;
        };
        match meeting.key {
            Key::Collective(_, sequence, position) => {
                let missing = if sequence == Sequence::Calls { comm.missing() } else { Vec::new() };
                let numbers: BTreeSet<u32> = sequence.ranks(comm).map(|(number, _)| number).chain(missing).collect();
                for number in numbers {
                    look(comm, number, &|rank| {
                        let tail = sequence.tail(rank);
                        tail.has_positions() && tail.before > position
                    });
                }
            }
            Key::Message { sender, receiver, number, .. } => {
                for (rank, peer, is_send) in [(sender, receiver, true), (receiver, sender, false)] {
                    look(comm, rank, &|found| {
                        found.message_counts.get(&(peer, is_send)).is_some_and(|sum| *sum > number)
                    });
                }
            }
        }
        others
    }
}

/// How the ranks of an operation take part in it.
#[derive(Debug, Default)]
pub(crate) struct Others {
    pub(crate) begun: Vec<u32>,
    pub(crate) waiting: Vec<(u32, PartId)>,
    /// They have not called it.
    pub(crate) absent: Vec<u32>,
    /// Whether they called it is not recorded.
    pub(crate) unsure: Vec<u32>,
    /// They have no records.
    pub(crate) missing: Vec<u32>,
}

/// Whether each call of a rank that an operation may be is among its records, at a known position.
pub(crate) fn is_matched(job: &Job, rank: &Rank, key: Key) -> bool {
    let has_place = match key {
        Key::Collective(_, sequence, _) => sequence.tail(rank).has_positions(),
        Key::Message { .. } => job.process_of(rank).is_some_and(|process| process.kept_since_ns.is_none()),
    };
    has_place && job.is_whole(rank)
}

/// How many members an operation needs, and how many of these called it so long ago that it is no longer kept.
struct Befores(BTreeMap<(usize, Sequence), Vec<u64>>);

impl Befores {
    fn new(job: &Job) -> Self {
        let mut found: BTreeMap<(usize, Sequence), Vec<u64>> = BTreeMap::new();
        for (at, comm) in job.comms.iter().enumerate() {
            for sequence in Sequence::ALL {
                let key = Key::Collective(at, sequence, 0);
                let ranks = sequence.ranks(comm).filter(|(_, rank)| is_matched(job, rank, key));
                let mut befores: Vec<u64> = ranks.map(|(_, rank)| sequence.tail(rank).before).collect();
                befores.sort_unstable();
                found.insert((at, sequence), befores);
            }
        }
        Self(found)
    }

    fn at(&self, comm: usize, sequence: Sequence, position: u64) -> (usize, usize) {
        let befores = self.0.get(&(comm, sequence)).map_or(&[][..], Vec::as_slice);
        let kept = befores.partition_point(|before| *before <= position);
        (befores.len(), befores.len() - kept)
    }
}
