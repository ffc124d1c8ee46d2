//! Forwards finished operations as regions on the process's location, in time order and without overlap.
//!
//! Only one thread at a time forwards, and only a thread that Score-P knows: Score-P writes out a full buffer on the
//! location of the thread that filled it.

use crate::scorep::guard::{Conversion, Functions, ScorePAccess};
use crate::scorep::operations::{EndedOperation, Operations, Timeouts};
use crate::scorep::presence::{Count, Counts};
use crate::scorep::regions::Attribute;
use crate::scorep::setup::{Definitions, Setup};
use crate::scorep::substrate::Location;
use journal::clock;

/// The most operations that a callback forwards at once, and the most that are sorted together.
const AT_ONCE: usize = 32;
const COMMUNICATORS: usize = 1024;

/// How long after its last part an operation counts as finished: another part may follow.
const AFTER_PARTS_NS: u64 = 1_000_000;
/// How long after its start an operation without parts counts as finished.
const WITHOUT_PARTS_NS: u64 = 50_000_000;
/// How long an operation without any event delays the operations behind it.
const GIVEN_UP_NS: u64 = 2_000_000_000;

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Depth {
    /// A few operations that have certainly finished: a callback must not take long.
    Settled,
    Everything,
}

struct Target {
    location: *mut Location,
    region: u32,
}

#[derive(Debug)]
pub(super) struct Drain {
    /// Score-P's time of the last LEAVE, and the context of its operation.
    last: (u64, u64),
    communicators: Vec<(u64, u64)>,
    /// Ticks and nanoseconds at the beginning, from which the tick rate is computed.
    began: (u64, u64),
    /// Operations being forwarded, at most twice [`AT_ONCE`]; between runs, the last group, which may still grow.
    batch: Vec<EndedOperation>,
    is_closed: bool,
}

/// Sorts overlapping operations of one communicator by their ends: a send and a receive of one group begin together,
/// and the location can show one after the other. Returns the index at which the last such group begins.
fn order(batch: &mut [EndedOperation]) -> usize {
    let mut rest = batch;
    let (mut begin, mut next) = (0, 0);
    while let Some(first) = rest.first() {
        let (context, mut end_ticks) = (first.facts.context, first.end_ticks);
        let overlapping = rest.iter().take_while(|ended| {
            let overlaps = ended.facts.context == context && (ended.begin_ticks < end_ticks);
            end_ticks = end_ticks.max(ended.end_ticks);
            overlaps
        });
        let length = overlapping.count().max(1);
        let (together, behind) = rest.split_at_mut(length);
        together.sort_unstable_by_key(|ended| ended.end_ticks);
        (begin, next) = (next, next + length);
        rest = behind;
    }
    begin
}

impl Drain {
    pub(super) fn new() -> Self {
        Self {
            last: (0, 0),
            communicators: Vec::with_capacity(COMMUNICATORS),
            began: (clock::ticks(), clock::monotonic_ns()),
            batch: Vec::with_capacity(2 * AT_ONCE),
            is_closed: false,
        }
    }

    pub(super) fn close(&mut self) {
        self.is_closed = true;
    }

    pub(super) fn communicator(&mut self, context: u64, id: u64) {
        if id == 0 {
            return;
        }
        // The oldest communicator is the least likely to be needed.
        if self.communicators.len() == COMMUNICATORS {
            self.communicators.remove(0);
        }
        self.communicators.push((context, id));
    }

    pub(super) fn run(
        &mut self,
        measured: &ScorePAccess<'_>,
        setup: &Setup,
        operations: &Operations,
        counts: &Counts,
        depth: Depth,
    ) {
        if self.is_closed || operations.waiting() + self.held() == 0 {
            return;
        }
        let patience = (depth == Depth::Settled).then(|| self.timeouts());
        loop {
            let mut batch = std::mem::take(&mut self.batch);
            let held = batch.len();
            batch.extend(std::iter::from_fn(|| operations.take(patience.as_ref())).take(AT_ONCE));
            let is_cut = batch.len() == held + AT_ONCE;
            let last_group = order(&mut batch);
            // Later operations may belong to the last group, and end before some of its operations.
            let ready = if is_cut { last_group.max(batch.len() - AT_ONCE / 2) } else { batch.len() };
            self.forward_all(measured, setup, batch.get(..ready).unwrap_or_default(), counts);
            batch.drain(..ready);
            self.batch = batch;
            if !is_cut || depth == Depth::Settled {
                return;
            }
        }
    }

    /// The number of operations that are waiting for the rest of their group.
    pub(super) fn held(&self) -> u64 {
        self.batch.len() as u64
    }

    fn forward_all(&mut self, measured: &ScorePAccess<'_>, setup: &Setup, batch: &[EndedOperation], counts: &Counts) {
        let mut conversion = None;
        for ended in batch {
            let (Some(functions), Some(definitions)) = (measured.internal(), &setup.internal) else {
                counts.add(Count::OperationsNotPlaced);
                continue;
            };
            let (Some(timer), Some(location)) = (&definitions.timer, definitions.location) else {
                counts.add(Count::OperationsNotPlaced);
                continue;
            };
            let Some(region) = definitions.operation(ended.facts.function) else {
                counts.add(Count::OperationsFiltered);
                continue;
            };
            let conversion = conversion.get_or_insert_with(|| timer.until_now());
            let target = Target { location: location.get(), region };
            self.forward(&functions, definitions, ended, conversion, target, counts);
        }
    }

    fn timeouts(&self) -> Timeouts {
        let (ticks, ns) = self.began;
        let now_ticks = clock::ticks();
        let passed_ns = clock::monotonic_ns().saturating_sub(ns).max(1);
        let passed = u128::from(now_ticks.saturating_sub(ticks));
        let in_ticks = |ns: u64| {
            let in_ticks = passed * u128::from(ns) / u128::from(passed_ns);
            u64::try_from(in_ticks).unwrap_or(u64::MAX)
        };
        Timeouts {
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
        ended: &EndedOperation,
        conversion: &Conversion,
        Target { location, region }: Target,
        counts: &Counts,
    ) {
        let start = conversion.scorep_time(ended.begin_ticks);
        let end = conversion.scorep_time(ended.end_ticks).max(start);
        let (last_end, last_context) = self.last;
        // A communicator's kernels run one after the other; those of two can overlap, which one location cannot show.
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
        let number = |attribute, value: u64| {
            functions.location_add(location, definitions.attribute(attribute), value);
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
            functions.location_add(location, definitions.attribute(Attribute::Algorithm), name);
        }
        if let Some(timing) = definitions.timing(ended.timing) {
            functions.location_add(location, definitions.attribute(Attribute::Timing), timing);
        }
        functions.location_enter(location, begin, region);
        functions.location_exit(location, end, region);
        self.last = (end, facts.context);
        counts.add(Count::Operations);
    }

    fn comm_id(&self, context: u64) -> Option<u64> {
        self.communicators.iter().rev().find(|(known, _)| *known == context).map(|(_, id)| *id)
    }
}
