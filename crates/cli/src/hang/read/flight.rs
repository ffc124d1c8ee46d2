//! What is left of a rank's operations where only the end of a recording is kept: how it begins.
//!
//! Each thread's records are cut at another time, a mebibyte at a time, so an operation may be there and its call not.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use nccl_events::Kind;
use nccl_events::id::EventId;
use tables::{Head, Tables};

use crate::hang::operation::Call;

/// A call and what NCCL makes of it are no further apart than a large group, in events of their thread.
const NEAR_EVENTS: u64 = 1 << 14;

/// The call of an operation, of which the record is not kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RemovedCall {
    /// One of the last that went, with its number on its thread: the operation follows it.
    Near(u64),
    /// One of long ago: it was captured into a CUDA graph, and the operation is of a launch.
    Captured,
}

/// What is known of the call of an operation; nothing where it is kept, or was not recorded.
pub(super) fn removed_call(tables: &Tables, operation: &Head) -> Option<RemovedCall> {
    let id = operation.parent;
    let later = tables.removed.starts_after(id, tables.process_tag)?;
    let call = EventId::from_raw(id);
    if !matches!(call.kind(), Kind::CollApi | Kind::P2pApi) {
        return None;
    }
    Some(if later < NEAR_EVENTS { RemovedCall::Near(call.sequence()) } else { RemovedCall::Captured })
}

/// Leaves out what comes before a hole: several threads may have made the calls, and of some more is kept than of
/// others. NCCL's numbers tell. `others`: operations of the same rank that have numbers of the same functions.
pub(crate) fn leave_out_before_holes(calls: &mut Vec<Call>, others: &[Call]) {
    let of = |call: &Call| {
        let number = call.sequence.filter(|_| !call.by_copy_engine)?;
        Some((Arc::clone(&call.what.func), number))
    };
    let all: BTreeSet<(Arc<str>, u64)> = calls.iter().chain(others).filter_map(of).collect();
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
