//! Checks that need several locations: one pass over all of them, in which each checker keeps its open state.

mod causality;
mod collectives;
mod gpu_work;
mod messages;
mod ranges;
mod written;

use std::collections::BTreeSet;

use analysis::{Instances, Trace, is_nccl};
use otf2::{Event, EventKind, LocationRef};

use crate::clocks::ClockOffsets;
use crate::findings::Findings;

use causality::Causality;
use collectives::Collectives;
use gpu_work::GpuWork;
use messages::Messages;
use ranges::UserRanges;
use written::Written;

pub(super) struct Across<'a> {
    trace: &'a Trace,
    instances: Instances<'a>,
    collectives: Collectives,
    messages: Messages,
    /// Checks that need the statements of this project's writer.
    nccl: Option<(Written, GpuWork<'a>, UserRanges<'a>)>,
    causality: Option<Causality<'a>>,
    clock_offsets: ClockOffsets<'a>,
    pub(super) unreadable: BTreeSet<LocationRef>,
}

impl<'a> Across<'a> {
    pub(super) fn of(trace: &'a Trace) -> Self {
        let is_nccl = is_nccl(&trace.archive);
        Self {
            trace,
            instances: Instances::of(trace),
            collectives: Collectives::default(),
            messages: Messages::default(),
            nccl: is_nccl.then(|| (Written::of(trace), GpuWork::of(trace), UserRanges::of(trace))),
            causality: is_nccl.then(|| Causality::of(trace)).flatten(),
            clock_offsets: ClockOffsets::of(trace),
            unreadable: BTreeSet::new(),
        }
    }

    pub(super) fn next_process(&mut self) {
        if let Some((_, gpu_work, _)) = &mut self.nccl {
            gpu_work.next_process();
        }
    }

    pub(super) fn next_location(&mut self, location: LocationRef, findings: &mut Findings) {
        self.clock_offsets.next_location(location, findings);
        self.instances.next_location();
        if let Some((written, _, ranges)) = &mut self.nccl {
            written.last.clear();
            ranges.next_location();
        }
        if let Some(causality) = &mut self.causality {
            causality.settle(false);
        }
    }

    pub(super) fn event(&mut self, location: LocationRef, event: &Event, findings: &mut Findings) {
        self.clock_offsets.event(event.time);
        // A location that is not a member was reported when its own events were checked.
        let rank = |comm| self.trace.rank(location, comm);
        match &event.kind {
            EventKind::MpiCollectiveEnd(collective) | EventKind::NonBlockingCollectiveComplete { collective, .. } => {
                if let Some(rank) = rank(collective.comm) {
                    self.collectives.add(self.trace, rank, collective, findings);
                }
            }
            EventKind::MpiIsend { message, .. } | EventKind::MpiSend(message) => {
                if let Some(rank) = rank(message.comm) {
                    self.messages.add(rank, message, true);
                }
            }
            EventKind::MpiIrecv { message, .. } | EventKind::MpiRecv(message) => {
                if let Some(rank) = rank(message.comm) {
                    self.messages.add(rank, message, false);
                }
            }
            _ => {}
        }
        let step = self.instances.step(event);
        if let Some((written, gpu_work, ranges)) = &mut self.nccl {
            ranges.event(location, event, findings);
            gpu_work.step(location, &step, findings);
            written.step(&step);
        }
        if let Some(causality) = &mut self.causality {
            causality.event(location, event, &step, self.instances.open().last());
        }
    }

    pub(super) fn end(&mut self, findings: &mut Findings) {
        let (trace, unreadable) = (self.trace, &self.unreadable);
        self.collectives.end(trace, unreadable, findings);
        self.messages.end(trace, unreadable, findings);
        // Unreadable locations cannot be counted.
        if unreadable.is_empty() {
            self.collectives.check_members(trace, findings);
        }
        if let Some(causality) = &mut self.causality {
            causality.end(findings);
        }
        self.clock_offsets.end(findings);
        if let Some((written, gpu_work, ranges)) = &self.nccl {
            gpu_work.end(unreadable.is_empty(), findings);
            if unreadable.is_empty() {
                written.end(&trace.statements, findings);
                ranges.end(findings);
            }
        }
    }
}
