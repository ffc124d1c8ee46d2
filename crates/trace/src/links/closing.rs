//! Ends that NCCL did not report and something else tells: a proxy step whose slot was used again, or
//! whose proxy operation stopped; a state of a proxy thread that went on to another.

use nccl_events::event;
use std::collections::BTreeMap;

use crate::tables::assembly::Assembly;
use nccl_events::Body;
use nccl_events::Kind;

/// How many steps of a proxy operation are under way at most: NCCL keeps one handle for each.
pub const STEP_SLOTS: i32 = 8;

/// The slot of a step: 0 … 7.
#[must_use]
pub fn slot(step: i32) -> u8 {
    u8::try_from(step.rem_euclid(STEP_SLOTS)).unwrap_or(0)
}

/// The ends that something else tells, by place of the operation.
#[must_use]
pub(crate) fn ends(assembly: &Assembly) -> BTreeMap<u32, u64> {
    let mut ends = BTreeMap::new();
    let has_open = |kind| assembly.counts.kinds.get(kind).unfinished > 0;
    if has_open(Kind::ProxyStep) {
        step_ends(assembly, &mut ends);
    }
    if has_open(Kind::ProxyCtrl) {
        control_ends(assembly, &mut ends);
    }
    ends
}

/// Steps that have no stop of their own. NCCL 2.24–2.26 forgets the stop of some receive steps.
fn step_ends(assembly: &Assembly, ends: &mut BTreeMap<u32, u64>) {
    let mut order: Vec<(u64, u8, u64, u32)> = Vec::new();
    for (at, operation) in assembly.of_kind(Kind::ProxyStep) {
        if let Body::ProxyStep(event::ProxyStep { step }) = assembly.fields_of(operation) {
            order.push((operation.parent, slot(step), operation.start, at));
        }
    }
    order.sort_unstable();
    for of_slot in order.chunk_by(|a, b| (a.0, a.1) == (b.0, b.1)) {
        let restarts = of_slot.iter().skip(1).map(|&(_, _, start, _)| Some(start));
        for (&(parent, _, start, at), restart) in of_slot.iter().zip(restarts.chain([None])) {
            let Some(step) = assembly.operation(at) else {
                continue;
            };
            let parent = assembly.find(parent);
            let parent = parent.and_then(|at| assembly.operation(at));
            // Without an operation around it the slot is not one: NCCL passes no parent, or a lost one.
            let (None, Some(parent)) = (step.end(), parent) else {
                continue;
            };
            let stop = parent.end().map(|stop| stop.max(start));
            let end = [restart, stop].into_iter().flatten().min();
            if let Some(end) = end {
                ends.insert(at, end);
            }
        }
    }
}

/// A proxy thread does one thing after the other; when it takes operations and that fails, NCCL never tells the
/// end.
fn control_ends(assembly: &Assembly, ends: &mut BTreeMap<u32, u64>) {
    let mut order: Vec<(u32, u64, u32)> = Vec::new();
    for (at, operation) in assembly.of_kind(Kind::ProxyCtrl) {
        let thread = assembly.first_place_of_thread(operation.thread);
        order.push((thread, operation.start, at));
    }
    order.sort_unstable();
    for pair in order.windows(2) {
        let &[(thread, _, at), (next_thread, next, _)] = pair else {
            continue;
        };
        let control = assembly.operation(at);
        if thread == next_thread && control.is_some_and(|control| control.end().is_none()) {
            ends.insert(at, next);
        }
    }
}
