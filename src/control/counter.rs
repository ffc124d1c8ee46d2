//! The number of collectives that a rank has called, and whether it is inside a step range.

use std::sync::atomic::Ordering::{Relaxed, Release};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64};

/// The counter of one rank of a communicator. NCCL calls a communicator's functions one after the other, on any thread.
#[repr(align(64))]
pub(super) struct Counter {
    /// The rank's context; 0 in a free counter.
    pub(super) context: AtomicU64,
    pub(super) started: AtomicU32,
    /// Named steps: the first collective since recording was switched on.
    pub(super) opened: AtomicU32,
    /// The communicator's hash in descriptors (v1 to v3); 0 until the first collective.
    pub(super) hash: AtomicU64,
    pub(super) is_counted: AtomicBool,
    /// Whether the last call was inside a range; true before the first call.
    pub(super) is_open: AtomicBool,
    /// Whether the last call was recorded. The events that NCCL derives from the call are then recorded too.
    pub(super) was_recorded: AtomicBool,
    /// Whether the ranges are unchanged since the rank's first collective.
    pub(super) is_exact: AtomicBool,
}

impl Counter {
    /// All zero, so that the plugin's file does not contain the counters. [`Self::begin`] sets what they begin with.
    pub(super) const fn new() -> Self {
        Self {
            context: AtomicU64::new(0),
            started: AtomicU32::new(0),
            opened: AtomicU32::new(0),
            hash: AtomicU64::new(0),
            is_counted: AtomicBool::new(false),
            is_open: AtomicBool::new(false),
            was_recorded: AtomicBool::new(false),
            is_exact: AtomicBool::new(false),
        }
    }

    pub(super) fn begin(&self, context: u64, is_open: bool) {
        self.started.store(0, Relaxed);
        self.opened.store(1, Relaxed);
        self.hash.store(0, Relaxed);
        self.is_counted.store(false, Relaxed);
        self.is_open.store(is_open, Relaxed);
        self.was_recorded.store(is_open, Relaxed);
        self.is_exact.store(true, Relaxed);
        self.context.store(context, Release);
    }

    pub(super) fn end(&self) {
        self.is_counted.store(false, Relaxed);
        self.context.store(0, Release);
    }
}
