//! Forwards operations that have ended, as regions on the location of the process, in time order and without overlap.
//!
//! One thread at a time does this, and only one that Score-P knows: Score-P writes out a full buffer on the location of
//! the thread that filled it.

use super::guard::{Functions, Measured};
use super::operations::{Ended, Operations, Patience};
use super::regions::Attribute;
use super::report::{Count, Counts};
use super::setup::{Definitions, Setup};
use super::timer::Conversion;
use journal::clock;

/// The largest number of operations that a callback forwards.
const AT_ONCE: usize = 16;
/// The largest number of communicator ids that are kept.
const COMMUNICATORS: usize = 1024;

/// How long after its last part an operation counts as ended: another part may come.
const AFTER_PARTS_NS: u64 = 1_000_000;
/// How long after its start an operation without parts counts as ended.
const WITHOUT_PARTS_NS: u64 = 50_000_000;
/// How long an operation without any event delays those behind it.
const GIVEN_UP_NS: u64 = 2_000_000_000;

/// How much is forwarded at once.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Depth {
    /// Operations that have surely ended, and few of them: a callback must not take long.
    Settled,
    /// All operations, ended or not.
    Everything,
}

/// The state of forwarding.
#[derive(Debug)]
pub(super) struct Drain {
    /// Score-P's time of the last LEAVE, and the context of that operation.
    last: (u64, u64),
    /// Contexts and the ids of their communicators.
    communicators: Vec<(u64, u64)>,
    /// Ticks and nanoseconds at the beginning, for the rate of the ticks.
    began: (u64, u64),
    is_closed: bool,
}

impl Drain {
    pub(super) fn new() -> Self {
        Self {
            last: (0, 0),
            communicators: Vec::with_capacity(COMMUNICATORS),
            began: (clock::ticks(), clock::monotonic_ns()),
            is_closed: false,
        }
    }

    /// Score-P's measurement is over.
    pub(super) fn close(&mut self) {
        self.is_closed = true;
    }

    /// Keeps the id of a communicator.
    pub(super) fn communicator(&mut self, context: u64, id: u64) {
        if id == 0 {
            return;
        }
        // The oldest is the least likely to be needed.
        if self.communicators.len() == COMMUNICATORS {
            self.communicators.remove(0);
        }
        self.communicators.push((context, id));
    }

    /// Forwards operations, the oldest first.
    pub(super) fn run(
        &mut self,
        measured: &Measured<'_>,
        setup: &Setup,
        operations: &Operations,
        counts: &Counts,
        depth: Depth,
    ) {
        if self.is_closed || operations.waiting() == 0 {
            return;
        }
        let patience = (depth == Depth::Settled).then(|| self.patience());
        let most = if depth == Depth::Settled { AT_ONCE } else { usize::MAX };
        let mut conversion = None;
        for _ in 0..most {
            let Some(ended) = operations.take(patience.as_ref()) else {
                return;
            };
            let (Some(functions), Some(definitions)) = (measured.internal(), &setup.internal) else {
                counts.add(Count::OperationsNotPlaced);
                continue;
            };
            let Some(timer) = &definitions.timer else {
                counts.add(Count::OperationsNotPlaced);
                continue;
            };
            let conversion = conversion.get_or_insert_with(|| timer.until_now());
            self.forward(&functions, definitions, &ended, conversion, counts);
        }
    }

    fn patience(&self) -> Patience {
        let (ticks, ns) = self.began;
        let now_ticks = clock::ticks();
        let passed_ns = clock::monotonic_ns().saturating_sub(ns).max(1);
        let passed = u128::from(now_ticks.saturating_sub(ticks));
        let in_ticks = |ns: u64| {
            let in_ticks = passed * u128::from(ns) / u128::from(passed_ns);
            u64::try_from(in_ticks).unwrap_or(u64::MAX)
        };
        Patience {
            now_ticks,
            after_parts_ticks: in_ticks(AFTER_PARTS_NS),
            without_parts_ticks: in_ticks(WITHOUT_PARTS_NS),
            given_up_ticks: in_ticks(GIVEN_UP_NS),
        }
    }

    fn forward(
        &mut self,
        functions: &Functions<'_>,
        definitions: &Definitions,
        ended: &Ended,
        conversion: &Conversion,
        counts: &Counts,
    ) {
        let start = conversion.scorep_time(ended.begin_ticks);
        let end = conversion.scorep_time(ended.end_ticks).max(start);
        let (last_end, last_context) = self.last;
        // A communicator's kernels run one after the other. Those of two can run at once, which one location cannot
        // show.
        let overlaps = start < last_end;
        if overlaps && (last_context != ended.facts.context || end <= last_end) {
            counts.add(Count::OperationsOverlapping);
            return;
        }
        let begin = start.max(last_end);
        if overlaps {
            counts.add(Count::OperationsMoved);
        }
        if ended.is_unfinished {
            counts.add(Count::OperationsUnfinished);
        }
        let location = definitions.location.get();
        let number = |attribute, value| {
            functions.location_add_number(location, definitions.attribute(attribute), value);
        };
        let facts = &ended.facts;
        if facts.bytes > 0 {
            number(Attribute::Bytes, facts.bytes);
        }
        if let Some(sequence) = facts.sequence {
            number(Attribute::Sequence, sequence);
        }
        if let Some(id) = self.comm_id(facts.context) {
            number(Attribute::CommId, id);
        }
        if let Some(peer) = facts.peer {
            number(Attribute::Peer, peer.into());
        }
        if overlaps {
            number(Attribute::StartMoved, begin - start);
        }
        if ended.is_unfinished {
            number(Attribute::Unfinished, 1);
        }
        if let Some(name) = facts.algorithm.and_then(|index| definitions.algorithm(index)) {
            functions.location_add_string(location, definitions.attribute(Attribute::Algorithm), name);
        }
        let timing = definitions.timing(ended.timing);
        functions.location_add_string(location, definitions.attribute(Attribute::Timing), timing);
        let region = definitions.operation(facts.function);
        functions.location_enter(location, begin, region);
        functions.location_exit(location, end, region);
        self.last = (end, facts.context);
        counts.add(Count::Operations);
    }

    fn comm_id(&self, context: u64) -> Option<u64> {
        let known = self.communicators.iter().rev();
        let mut known = known.filter(|(known, _)| *known == context);
        known.next().map(|(_, id)| *id)
    }
}
