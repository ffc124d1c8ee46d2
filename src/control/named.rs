//! Steps that the program names: the NVTX ranges with one name (`NCCL_OTF2_STEPS=NAME`), counted by each thread from 1.
//!
//! A call is judged by the ranges of its own thread. A thread that has begun none of them, such as PyTorch's for
//! backward passes, is judged by the thread that began or ended one last.

use std::hash::Hasher;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64};

use nccl_events::Span;
use rustc_hash::FxHasher;

/// The hash of the name; 0 if steps are not named.
static NAME: AtomicU64 = AtomicU64::new(0);
/// Counts the names, so that what threads counted for an earlier name is void.
static EPOCH: AtomicU32 = AtomicU32::new(0);
/// Of the thread that began or ended a step last: how many it has begun (high half), and whether one is open.
static LATEST: AtomicU64 = AtomicU64::new(0);
/// Whether a call was inside a named step.
static IS_USED: AtomicBool = AtomicBool::new(false);
/// Whether this library receives the program's ranges.
static IS_HEARD: AtomicBool = AtomicBool::new(false);

/// The steps of a thread. A range with the name inside of a step belongs to the step.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct StepsOfThread {
    epoch: u32,
    begun: u32,
    /// How many ranges with the name are open.
    open: u32,
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

/// If steps are named and no call was inside of one: how many the thread that began or ended one last has begun.
pub(crate) fn begun_in_vain() -> Option<u32> {
    (is_named() && !IS_USED.load(Relaxed)).then(|| latest().0)
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
            self.begun = self.begun.saturating_add(u32::from(self.open == 0));
            self.open += 1;
            self.publish();
        }
    }

    /// A range ends on the thread.
    #[cold]
    pub(crate) fn end(&mut self, name: &[u8]) {
        if hash(name) == NAME.load(Relaxed) && self.epoch == EPOCH.load(Relaxed) && self.open > 0 {
            self.open -= 1;
            self.publish();
        }
    }

    fn publish(self) {
        LATEST.store(u64::from(self.begun) << 32 | u64::from(self.open > 0), Relaxed);
    }

    /// Whether the thread is inside a step of one of the ranges.
    pub(super) fn is_inside(self, mut ranges: impl Iterator<Item = Span>) -> bool {
        let (begun, is_open) = match self.epoch == EPOCH.load(Relaxed) && self.begun > 0 {
            true => (self.begun, self.open > 0),
            false => latest(),
        };
        let is_inside = is_open && ranges.any(|range| (range.first..=range.last).contains(&begun));
        if is_inside && !IS_USED.load(Relaxed) {
            IS_USED.store(true, Relaxed);
        }
        is_inside
    }
}

#[expect(clippy::cast_possible_truncation, reason = "the halves of a word")]
fn latest() -> (u32, bool) {
    let latest = LATEST.load(Relaxed);
    ((latest >> 32) as u32, latest as u32 != 0)
}
