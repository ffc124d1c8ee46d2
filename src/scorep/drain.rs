//! Operations that have ended become regions on the row of the process, in time order and without overlap.
//!
//! Only one thread at a time is at it, and only one that Score-P knows: a full buffer of Score-P's is written out on the
//! row of the thread that filled it.

use super::Depth;
use super::guard::{Functions, Measured};
use super::operations::{Ended, Operations, Patience};
use super::regions::Attribute;
use super::report::{Count, Counts};
use super::setup::{Made, Ready};
use super::timer::Conversion;
use journal::clock;

/// How many operations a callback forwards at most.
const AT_ONCE: usize = 16;
/// How many communicators' ids are remembered.
const COMMUNICATORS: usize = 1024;

/// How long after its last part an operation counts as ended.
const AFTER_PARTS_NS: u64 = 1_000_000;
/// How long parts may take to appear.
const WITHOUT_PARTS_NS: u64 = 50_000_000;
/// How long an operation that shows no sign holds up those behind it.
const GIVEN_UP_NS: u64 = 2_000_000_000;

#[derive(Debug)]
pub(super) struct Drain {
    /// Score-P's time of the last LEAVE, and the communicator it was of.
    last: (u64, u64),
    /// Contexts and what NCCL calls their communicators.
    communicators: Vec<(u64, u64)>,
    /// Our ticks and nanoseconds when this began: the rate.
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

    pub(super) fn communicator(&mut self, context: u64, id: u64) {
        if id == 0 {
            return;
        }
        // Those of before are the least likely to be asked for.
        if self.communicators.len() == COMMUNICATORS {
            self.communicators.remove(0);
        }
        self.communicators.push((context, id));
    }

    pub(super) fn run(
        &mut self,
        measured: &Measured<'_>,
        ready: &Ready,
        operations: &Operations,
        counts: &Counts,
        depth: Depth,
    ) {
        if self.is_closed || operations.waiting() == 0 {
            return;
        }
        let patience = (depth == Depth::Settled).then(|| self.patience());
        let most = if depth == Depth::Settled {
            AT_ONCE
        } else {
            usize::MAX
        };
        let mut conversion = None;
        for _ in 0..most {
            let Some(ended) = operations.take(patience.as_ref()) else {
                return;
            };
            let (Some(functions), Some(made)) = (measured.internal(), &ready.internal) else {
                counts.add(Count::OperationsNotPlaced);
                continue;
            };
            let Some(timer) = &made.timer else {
                counts.add(Count::OperationsNotPlaced);
                continue;
            };
            let conversion = conversion.get_or_insert_with(|| timer.until_now());
            self.draw(&functions, made, &ended, conversion, counts);
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

    fn draw(
        &mut self,
        functions: &Functions<'_>,
        made: &Made,
        ended: &Ended,
        conversion: &Conversion,
        counts: &Counts,
    ) {
        let start = conversion.theirs(ended.begin_ticks);
        let end = conversion.theirs(ended.end_ticks).max(start);
        let (last_end, last_context) = self.last;
        // The kernels of a communicator run one after the other; those of two may run at once, which one row cannot show.
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
        let location = made.location.get();
        let number = |attribute, value| {
            functions.location_add_number(location, made.attribute(attribute), value);
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
        if let Some(name) = facts.algorithm.and_then(|place| made.algorithm(place)) {
            functions.location_add_string(location, made.attribute(Attribute::Algorithm), name);
        }
        let timing = made.timing(ended.timing);
        functions.location_add_string(location, made.attribute(Attribute::Timing), timing);
        let region = made.operation(facts.function);
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
