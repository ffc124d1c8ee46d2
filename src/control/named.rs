//! Steps that the program names: the NVTX ranges with one name (`NCCL_OTF2_STEPS=NAME`), counted by each thread from 1.
//!
//! A call is judged by the ranges of its own thread. A thread that has begun none of them, such as PyTorch's for
//! backward passes, is judged by the thread that began or ended one last.

use std::hash::Hasher;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64};

use nccl_events::control::Span;
use rustc_hash::FxHasher;

/// The hash of the name; 0 if steps are not named.
static NAME: AtomicU64 = AtomicU64::new(0);
/// Counts the names, so that what threads counted for an earlier name is void.
static EPOCH: AtomicU32 = AtomicU32::new(0);
/// How many steps the thread that began or ended one last has begun (high half) and ended.
static LATEST: AtomicU64 = AtomicU64::new(0);
/// Whether this library receives the program's ranges.
static IS_HEARD: AtomicBool = AtomicBool::new(false);

/// How many steps a thread has begun and ended.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct StepsOfThread {
    epoch: u32,
    begun: u32,
    ended: u32,
}

/// Whether steps are named.
#[inline]
pub(crate) fn is_named() -> bool {
    NAME.load(Relaxed) != 0
}

/// The hash of a name without the number at its end: "step", "step #" and "step_#" are the same. Never 0.
fn hash(name: &[u8]) -> u64 {
    let is_separator = |byte: &u8| b"# _-:=".contains(byte);
    let length = name.iter().rposition(|byte| !is_separator(byte)).map_or(name.len(), |last| last + 1);
    let mut hasher = FxHasher::default();
    hasher.write(name.get(..length).unwrap_or(name));
    hasher.finish() | 1
}

/// The program's ranges reach this library from now on. Steps are counted from the program's first one.
pub(crate) fn hear(name: Option<&str>) {
    if !IS_HEARD.swap(true, Relaxed) {
        set(name);
    }
}

/// Whether steps are named, and the program has begun none.
pub(crate) fn none_has_begun() -> bool {
    is_named() && LATEST.load(Relaxed) == 0
}

pub(super) fn is_heard() -> bool {
    IS_HEARD.load(Relaxed)
}

/// Names the steps. Ranges that are open now do not count.
pub(super) fn set(name: Option<&str>) {
    let name = name.map_or(0, |name| hash(name.as_bytes()));
    if NAME.swap(name, Relaxed) != name {
        LATEST.store(0, Relaxed);
        EPOCH.fetch_add(1, Relaxed);
    }
}

impl StepsOfThread {
    /// A range begins on the thread; it counts if it is a step.
    #[cold]
    pub(crate) fn begin(&mut self, name: &[u8]) {
        if hash(name) == NAME.load(Relaxed) {
            let epoch = EPOCH.load(Relaxed);
            if self.epoch != epoch {
                *self = Self { epoch, ..Self::default() };
            }
            self.begun = self.begun.saturating_add(1);
            self.publish();
        }
    }

    /// A range ends on the thread.
    #[cold]
    pub(crate) fn end(&mut self, name: &[u8]) {
        if hash(name) == NAME.load(Relaxed) && self.epoch == EPOCH.load(Relaxed) && self.ended < self.begun {
            self.ended += 1;
            self.publish();
        }
    }

    fn publish(self) {
        LATEST.store(u64::from(self.begun) << 32 | u64::from(self.ended), Relaxed);
    }

    /// Whether the thread is inside a step of one of the ranges.
    #[expect(clippy::cast_possible_truncation, reason = "the halves of a word")]
    pub(super) fn is_inside(self, mut ranges: impl Iterator<Item = Span>) -> bool {
        let (begun, ended) = if self.epoch == EPOCH.load(Relaxed) && self.begun > 0 {
            (self.begun, self.ended)
        } else {
            let latest = LATEST.load(Relaxed);
            ((latest >> 32) as u32, latest as u32)
        };
        begun > ended && ranges.any(|range| range.first <= begun && ended < range.last)
    }
}
