//! Counts the starts that were not wanted, by kind.
//!
//! While recording is off many threads count at once. Each has a line of counters of its own, as long as there are
//! enough, so that they do not wait for each other's cache lines.

use std::cell::Cell;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use nccl_events::Kind;

const LINES: usize = 32;

#[repr(align(64))]
struct Line([AtomicU64; Kind::COUNT]);

static COUNTERS: [Line; LINES] = [const { Line([const { AtomicU64::new(0) }; Kind::COUNT]) }; LINES];
/// The line of the next thread that needs one.
static NEXT: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    /// The thread's line; out of range until it has one.
    static LINE: Cell<usize> = const { Cell::new(usize::MAX) };
}

/// Counts one.
pub(super) fn count(kind: Kind) {
    let line = LINE.with(|line| {
        if line.get() == usize::MAX {
            line.set(NEXT.fetch_add(1, Ordering::Relaxed) % LINES);
        }
        line.get()
    });
    let counter = COUNTERS.get(line).and_then(|line| line.0.get(kind as usize));
    if let Some(counter) = counter {
        counter.fetch_add(1, Ordering::Relaxed);
    }
}

/// Takes the counts since the last call; `None` if all are zero.
pub(crate) fn take() -> Option<[u64; Kind::COUNT]> {
    let mut counts = [0; Kind::COUNT];
    for Line(line) in &COUNTERS {
        for (count, counter) in counts.iter_mut().zip(line) {
            // Most often a plain load is enough.
            if counter.load(Ordering::Relaxed) > 0 {
                *count += counter.swap(0, Ordering::Relaxed);
            }
        }
    }
    (counts != [0; Kind::COUNT]).then_some(counts)
}
