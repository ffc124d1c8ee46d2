//! Counters of launching threads, reported in the same way by all backends.

use std::sync::atomic::{AtomicI32, AtomicU64, Ordering};

use super::backend::Output;
use nccl_events::gpu::GpuCount;

#[derive(Debug, Default)]
pub(super) struct LaunchCounts {
    launches: AtomicU64,
    captured: AtomicU64,
    no_event_left: AtomicU64,
    on_callback_thread: AtomicU64,
    refused: AtomicU64,
    /// The code of the first failed call; later errors follow from it.
    first_error: AtomicI32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NotTimed {
    Captured,
    NoEventLeft,
    /// The launch was on one of CUDA's own threads.
    OnCallbackThread,
    Refused(i32),
}

pub(super) struct Reported {
    pub(super) launches: u64,
    pub(super) not_timed: u64,
    pub(super) error: Option<i32>,
}

impl LaunchCounts {
    #[inline]
    pub(super) fn launch(&self) {
        self.launches.fetch_add(1, Ordering::Relaxed);
    }

    #[cold]
    pub(super) fn not_timed(&self, why: NotTimed) {
        let counter = match why {
            NotTimed::Captured => &self.captured,
            NotTimed::NoEventLeft => &self.no_event_left,
            NotTimed::OnCallbackThread => &self.on_callback_thread,
            NotTimed::Refused(code) => {
                let relaxed = Ordering::Relaxed;
                let _is_first = self.first_error.compare_exchange(0, code, relaxed, relaxed);
                &self.refused
            }
        };
        counter.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn report(&self, out: &mut dyn Output) -> Reported {
        let mut report = |counter: &AtomicU64, count| {
            let more = counter.swap(0, Ordering::Relaxed);
            if more > 0 {
                out.count(count, more);
            }
            more
        };
        let refused = report(&self.refused, GpuCount::Refused);
        let not_timed = refused
            + report(&self.captured, GpuCount::Captured)
            + report(&self.no_event_left, GpuCount::NoEventLeft)
            + report(&self.on_callback_thread, GpuCount::OnCallbackThread);
        Reported {
            not_timed,
            // Read last: a launch is counted before it is counted as not timed.
            launches: report(&self.launches, GpuCount::Launches),
            error: (refused > 0).then(|| self.first_error.load(Ordering::Relaxed)),
        }
    }
}
