//! What a job does between two operations: other work, which leaves little of the plugin in the caches.

use std::hint::black_box;
use std::time::{Duration, Instant};

/// Larger than the caches of a core.
const BYTES: usize = 64 << 20;
const LINE_WORDS: usize = 64 / size_of::<u64>();

pub(super) struct Work {
    words: Vec<u64>,
    at: usize,
    length: Duration,
}

impl Work {
    pub(super) fn new(length: Duration) -> Self {
        let words = if length.is_zero() { Vec::new() } else { vec![1; BYTES / size_of::<u64>()] };
        Self { words, at: 0, length }
    }

    /// Works for as long as was asked: changes one word of each cache line, one line after the other.
    pub(super) fn run(&mut self) {
        let begin = Instant::now();
        while begin.elapsed() < self.length {
            for word in self.words[self.at..].iter_mut().step_by(LINE_WORDS).take(64) {
                *word = black_box(*word + 1);
            }
            self.at = (self.at + 64 * LINE_WORDS) % self.words.len();
        }
    }
}

/// What the system did to the calling thread until now.
#[derive(Clone, Copy, Default)]
pub(super) struct Disturbances {
    pub(super) page_faults: i64,
    pub(super) preemptions: i64,
}

impl Disturbances {
    pub(super) fn now() -> Self {
        let mut usage = std::mem::MaybeUninit::<libc::rusage>::zeroed();
        // SAFETY: the pointer is to a `rusage` that lives until after the call.
        let done = unsafe { libc::getrusage(libc::RUSAGE_THREAD, usage.as_mut_ptr()) };
        if done != 0 {
            return Self::default();
        }
        // SAFETY: zeroed, and filled by the call; every bit pattern is valid for its integers.
        let usage = unsafe { usage.assume_init() };
        Self { page_faults: usage.ru_minflt, preemptions: usage.ru_nivcsw }
    }

    pub(super) fn since(self, before: Self) -> Self {
        Self { page_faults: self.page_faults - before.page_faults, preemptions: self.preemptions - before.preemptions }
    }
}
