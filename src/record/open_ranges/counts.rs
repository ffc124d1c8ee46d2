//! What is counted about ranges; running totals of the session.

use std::sync::atomic::{AtomicU64, Ordering};

use nccl_events::range::RangeCount;

static COUNTS: [AtomicU64; RangeCount::COUNT] = [const { AtomicU64::new(0) }; RangeCount::COUNT];

#[cold]
pub(crate) fn count(what: RangeCount) {
    if let Some(count) = COUNTS.get(what as usize) {
        count.fetch_add(1, Ordering::Relaxed);
    }
}

/// The totals, or `None` if they are `before`.
pub(crate) fn counts_since(before: [u64; RangeCount::COUNT]) -> Option<[u64; RangeCount::COUNT]> {
    let mut now = [0; RangeCount::COUNT];
    for (now, count) in now.iter_mut().zip(&COUNTS) {
        *now = count.load(Ordering::Relaxed);
    }
    (now != before).then_some(now)
}

/// A session begins: it counts from 0.
pub(crate) fn forget_counts() {
    for count in &COUNTS {
        count.store(0, Ordering::Relaxed);
    }
}
