//! The beginning of a rank's operations if only the end of a recording is kept.
//!
//! Each thread loses its first records at another time, a mebibyte at once: an operation may be kept without its call.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use nccl_events::Kind;
use nccl_events::ids::EventId;
use nccl_events::sort::Gather;
use tables::{Head, Tables};

use crate::operation::Call;

/// Largest distance between a call and its operation, in events of their thread: about a large group.
const NEAR_EVENTS: u64 = 1 << 14;

/// An operation's call whose record is not kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RemovedCall {
    /// Removed recently, with its number on its thread: the operation belongs to this call.
    Near(u64),
    /// Removed long ago: the call was captured into a CUDA graph, and the operation is from a launch of the graph.
    Captured,
}

/// The removed call of an operation; `None` if the call is kept, or was not recorded.
pub(super) fn removed_call(tables: &Tables, operation: &Head) -> Option<RemovedCall> {
    let later = tables.removed.starts_after(operation.parent, tables.process_tag)?;
    let call = EventId::from_raw(operation.parent);
    matches!(call.kind(), Kind::CollApi | Kind::P2pApi).then(|| match later < NEAR_EVENTS {
        true => RemovedCall::Near(call.sequence()),
        false => RemovedCall::Captured,
    })
}

/// Removes calls before a gap in NCCL's numbers: calls may come from several threads, some of which keep more than
/// others. `others` are operations of the same rank that share the numbering.
pub(crate) fn leave_out_before_holes(calls: &mut Vec<Call>, others: &[Call]) {
    let of = |call: &Call| Some((Arc::clone(&call.what.func), call.sequence.filter(|_| !call.by_copy_engine)?));
    let all: BTreeSet<(Arc<str>, u64)> = calls.iter().chain(others).filter_map(of).gather();
    let mut highest: BTreeMap<Arc<str>, u64> = BTreeMap::new();
    let mut from = 0;
    for (at, call) in calls.iter().enumerate() {
        let Some((func, number)) = of(call) else {
            continue;
        };
        let before = *highest.entry(Arc::clone(&func)).or_insert(number);
        if number <= before {
            continue;
        }
        let between = (Arc::clone(&func), before + 1)..(Arc::clone(&func), number);
        if (all.range(between).count() as u64) < number - before - 1 {
            from = at;
        }
        highest.insert(func, number);
    }
    calls.drain(..from);
}
