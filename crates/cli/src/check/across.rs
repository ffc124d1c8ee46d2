//! What takes several locations to see: one pass over all of them, each checker with what is still open.

use std::collections::BTreeSet;

use otf2::{Event, EventKind, LocationRef};

use crate::archive::{Trace, is_nccl};
use crate::completeness::Completeness;

use super::causes::Causes;
use super::clock_offsets::ClockOffsets;
use super::collectives::{Collectives, Voice};
use super::drawn::Drawn;
use super::findings::Findings;
use super::gpu_work::GpuWork;
use super::members::Members;
use super::messages::Messages;
use super::parents::Parents;

/// All checkers across locations.
pub(crate) struct Across<'a> {
    trace: &'a Trace,
    account: &'a Completeness,
    members: Members,
    collectives: Collectives,
    messages: Messages,
    /// What needs the statements of this project's writer.
    nccl: Option<(Parents<'a>, Drawn, GpuWork<'a>)>,
    causes: Option<Causes<'a>>,
    clock_offsets: ClockOffsets<'a>,
    unreadable: BTreeSet<LocationRef>,
}

impl<'a> Across<'a> {
    /// Nothing seen yet.
    pub(crate) fn of(trace: &'a Trace, account: &'a Completeness) -> Self {
        let nccl = is_nccl(&trace.archive)
            .then(|| (Parents::of(trace), Drawn::of(trace), GpuWork::of(trace)));
        let causes = nccl.as_ref().and_then(|_| Causes::of(trace, account));
        Self {
            trace,
            account,
            members: Members::of_all(trace),
            collectives: Collectives::default(),
            messages: Messages::default(),
            nccl,
            causes,
            clock_offsets: ClockOffsets::of(trace),
            unreadable: BTreeSet::new(),
        }
    }

    /// The locations of the next process follow.
    pub(crate) fn next_process(&mut self) {
        if let Some((parents, _, gpu_work)) = &mut self.nccl {
            gpu_work.next_process();
            parents.next_process();
        }
    }

    /// The events of this location follow.
    pub(crate) fn next_location(&mut self, location: LocationRef, findings: &mut Findings) {
        self.clock_offsets.next_location(location, findings);
        if let Some((parents, drawn, gpu_work)) = &mut self.nccl {
            gpu_work.next_location();
            parents.next_location();
            drawn.next_location();
        }
        if let Some(causes) = &mut self.causes {
            causes.next_location();
        }
    }

    /// Nothing can be said about what a location did.
    pub(crate) fn cannot_be_read(&mut self, location: LocationRef) {
        self.unreadable.insert(location);
    }

    /// Takes in an event.
    pub(crate) fn event(&mut self, location: LocationRef, event: &Event, findings: &mut Findings) {
        self.clock_offsets.event(event.time);
        match &event.kind {
            EventKind::MpiCollectiveEnd(collective)
            | EventKind::NonBlockingCollectiveComplete { collective, .. } => {
                // A location that is no member was found when its row was checked.
                if let Some(rank) = self.members.rank(location, collective.comm) {
                    let voice = Voice {
                        trace: self.trace,
                        account: self.account,
                        comm: collective.comm,
                        rank,
                    };
                    self.collectives.add(&voice, collective, findings);
                }
            }
            EventKind::MpiIsend { message, .. } | EventKind::MpiSend(message) => {
                if let Some(rank) = self.members.rank(location, message.comm) {
                    self.messages.add(rank, message, true);
                }
            }
            EventKind::MpiIrecv { message, .. } | EventKind::MpiRecv(message) => {
                if let Some(rank) = self.members.rank(location, message.comm) {
                    self.messages.add(rank, message, false);
                }
            }
            _ => {}
        }
        if let Some((parents, drawn, gpu_work)) = &mut self.nccl {
            gpu_work.event(location, event, findings);
            parents.event(location, event, findings);
            drawn.event(event);
        }
        if let Some(causes) = &mut self.causes {
            causes.event(location, event, &self.members);
        }
    }

    /// No more events.
    pub(crate) fn end(&mut self, findings: &mut Findings) {
        let (trace, account, unreadable) = (self.trace, self.account, &self.unreadable);
        self.collectives
            .end(trace, account, &self.members, unreadable, findings);
        self.messages
            .end(trace, account, &self.members, unreadable, findings);
        // What could not be read cannot be counted.
        if unreadable.is_empty() {
            self.members
                .end(trace, account, &self.collectives, findings);
        }
        if let Some(causes) = &mut self.causes {
            causes.end(findings);
        }
        self.clock_offsets.end(findings);
        if let Some((parents, drawn, gpu_work)) = &self.nccl {
            parents.end(findings);
            if unreadable.is_empty() {
                gpu_work.end(findings);
                drawn.end(account, findings);
            }
        }
    }
}
