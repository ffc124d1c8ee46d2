//! How many starts were not wanted, by kind.
//!
//! Threads count in rows of their own, as long as there are not more of them than rows: while recording is off many call at
//! once, and would wait for each other's cache lines.

use std::cell::Cell;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use nccl_events::Kind;

const ROWS: usize = 32;

#[repr(align(64))]
struct Row([AtomicU64; Kind::COUNT]);

static ALL: [Row; ROWS] = [const { Row([const { AtomicU64::new(0) }; Kind::COUNT]) }; ROWS];
/// The row of the next thread that needs one.
static NEXT: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    /// The thread's row; as long as it has none, what is none.
    static ROW: Cell<usize> = const { Cell::new(usize::MAX) };
}

/// Counts one.
pub(super) fn count(kind: Kind) {
    let row = ROW.with(|row| {
        if row.get() == usize::MAX {
            row.set(NEXT.fetch_add(1, Ordering::Relaxed) % ROWS);
        }
        row.get()
    });
    let counter = ALL.get(row).and_then(|row| row.0.get(kind as usize));
    if let Some(counter) = counter {
        counter.fetch_add(1, Ordering::Relaxed);
    }
}

/// How many there were since this was last asked; `None` for none.
pub(crate) fn take() -> Option<[u64; Kind::COUNT]> {
    let mut counts = [0; Kind::COUNT];
    for Row(row) in &ALL {
        for (count, counter) in counts.iter_mut().zip(row) {
            // A plain load most of the time.
            if counter.load(Ordering::Relaxed) > 0 {
                *count += counter.swap(0, Ordering::Relaxed);
            }
        }
    }
    (counts != [0; Kind::COUNT]).then_some(counts)
}
