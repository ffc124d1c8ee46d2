//! A gate for threads that call CUPTI: it closes when the session ends.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// The number of threads inside; the top bit is set when the gate is closed.
#[derive(Default)]
pub(super) struct Gate(AtomicU32);

impl Gate {
    const CLOSED: u32 = 1 << 31;

    #[inline]
    pub(super) fn pass(&self, action: impl FnOnce()) {
        let before = self.0.fetch_add(1, Ordering::Acquire);
        if before & Self::CLOSED == 0 {
            action();
        }
        self.0.fetch_sub(1, Ordering::Release);
    }

    /// Closes the gate, and waits until all threads have left. False if some are still inside at `deadline`.
    pub(super) fn close(&self, deadline: Instant) -> bool {
        self.0.fetch_or(Self::CLOSED, Ordering::AcqRel);
        while self.0.load(Ordering::Acquire) & !Self::CLOSED != 0 {
            if Instant::now() >= deadline {
                return false;
            }
            std::thread::sleep(Duration::from_micros(100));
        }
        true
    }
}
