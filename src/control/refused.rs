//! Counts unwanted starts by kind.
//!
//! While recording is off, many threads count at once. The threads spread over several lines of counters, so that they
//! seldom wait for each other's cache lines.

use std::sync::atomic::{AtomicU64, Ordering};

use nccl_events::Kind;

const LINES: usize = 32;

#[repr(align(64))]
struct Line([AtomicU64; Kind::COUNT]);

static COUNTERS: [Line; LINES] = [const { Line([const { AtomicU64::new(0) }; Kind::COUNT]) }; LINES];

pub(super) fn count(kind: Kind) {
    // Threads' addresses lie pages apart. A thread-local number would need memory.
    // SAFETY: no preconditions.
    let thread = unsafe { libc::pthread_self() };
    let line = usize::try_from(thread.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 59).unwrap_or(0) % LINES;
    let counter = COUNTERS.get(line).and_then(|line| line.0.get(kind as usize));
    if let Some(counter) = counter {
        counter.fetch_add(1, Ordering::Relaxed);
    }
}

/// The counts since the last call; `None` if all are zero.
pub(crate) fn take() -> Option<[u64; Kind::COUNT]> {
    let mut counts = [0; Kind::COUNT];
    for Line(line) in &COUNTERS {
        for (count, counter) in counts.iter_mut().zip(line) {
            // Usually a plain load is enough.
            if counter.load(Ordering::Relaxed) > 0 {
                *count += counter.swap(0, Ordering::Relaxed);
            }
        }
    }
    (counts != [0; Kind::COUNT]).then_some(counts)
}
