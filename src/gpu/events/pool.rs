//! Pairs of events for launches.
//!
//! A launching thread takes a pair from the list of free pairs, and leaves it to the worker with the launch's id. The
//! worker scans all pairs for ids, and puts used pairs back. No thread waits for another: the list is a stack of
//! indices, whose head changes by compare-and-swap and carries a change counter.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use crate::gpu::driver::Event;

/// The largest number of pairs per context: enough for half a second at 8000 launches a second.
pub(super) const MOST_PAIRS: u32 = 4096;

/// No launch: the pair has not been left to the worker.
const NOT_LEFT: u64 = 0;

#[derive(Debug)]
pub(super) struct Pool {
    pairs: Box<[Pair]>,
    made: AtomicU32,
    /// The index of the first free pair, plus one; the upper half counts changes.
    head: AtomicU64,
    free: AtomicU32,
}

#[derive(Debug, Default)]
struct Pair {
    before: AtomicU64,
    after: AtomicU64,
    /// The index of the next free pair, plus one.
    next: AtomicU32,
    stream: AtomicU64,
    /// The launch's id once both events are in the stream, else [`NOT_LEFT`].
    launch: AtomicU64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TakenPair {
    index: u32,
    /// The event recorded in the stream before the launch.
    pub(super) before: Event,
    pub(super) after: Event,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct LeftPair {
    pub(super) pair: TakenPair,
    pub(super) launch: u64,
    pub(super) stream: u64,
}

impl Pool {
    pub(super) fn new() -> Self {
        Self {
            pairs: (0..MOST_PAIRS).map(|_| Pair::default()).collect(),
            made: AtomicU32::new(0),
            head: AtomicU64::new(0),
            free: AtomicU32::new(0),
        }
    }

    /// Adds a pair; called only by the worker. False if there are already [`MOST_PAIRS`].
    pub(super) fn add(&self, before: Event, after: Event) -> bool {
        let index = self.made.load(Ordering::Relaxed);
        let Some(pair) = self.pair(index) else {
            return false;
        };
        pair.before.store(before.0, Ordering::Relaxed);
        pair.after.store(after.0, Ordering::Relaxed);
        self.made.store(index + 1, Ordering::Release);
        self.put_back(TakenPair { index, before, after });
        true
    }

    /// Takes a free pair, if there is one. Callable from any thread.
    #[inline]
    pub(super) fn take(&self) -> Option<TakenPair> {
        let mut head = self.head.load(Ordering::Acquire);
        loop {
            let index = low(head).checked_sub(1)?;
            let pair = self.pair(index)?;
            // If another thread takes the pair meanwhile, this value is stale, but then the head has changed.
            let next = pair.next.load(Ordering::Relaxed);
            match self.change(head, next) {
                Ok(()) => {
                    self.free.fetch_sub(1, Ordering::Relaxed);
                    return Some(self.taken(index, pair));
                }
                Err(now) => head = now,
            }
        }
    }

    pub(super) fn put_back(&self, taken: TakenPair) {
        let Some(pair) = self.pair(taken.index) else {
            return;
        };
        pair.launch.store(NOT_LEFT, Ordering::Relaxed);
        self.free.fetch_add(1, Ordering::Relaxed);
        let mut head = self.head.load(Ordering::Relaxed);
        loop {
            pair.next.store(low(head), Ordering::Relaxed);
            match self.change(head, taken.index + 1) {
                Ok(()) => return,
                Err(now) => head = now,
            }
        }
    }

    /// Leaves a pair to the worker. Both events are in the stream.
    #[inline]
    pub(super) fn leave(&self, taken: TakenPair, launch: u64, stream: u64) {
        if let Some(pair) = self.pair(taken.index) {
            pair.stream.store(stream, Ordering::Relaxed);
            pair.launch.store(launch, Ordering::Release);
        }
    }

    pub(super) fn left(&self) -> impl Iterator<Item = LeftPair> {
        let made = self.made.load(Ordering::Relaxed);
        (0..made).filter_map(|index| {
            let pair = self.pair(index)?;
            let launch = pair.launch.load(Ordering::Acquire);
            (launch != NOT_LEFT).then(|| LeftPair {
                pair: self.taken(index, pair),
                launch,
                stream: pair.stream.load(Ordering::Relaxed),
            })
        })
    }

    pub(super) fn is_full(&self) -> bool {
        self.made.load(Ordering::Relaxed) == MOST_PAIRS
    }

    pub(super) fn size(&self) -> (u32, u32) {
        let made = self.made.load(Ordering::Relaxed);
        (made, self.free.load(Ordering::Relaxed))
    }

    pub(super) fn free_percent(&self) -> u32 {
        let (made, free) = self.size();
        free * 100 / made.max(1)
    }

    /// Removes all pairs and returns their events. Call only when no thread launches in the context any more.
    pub(super) fn empty(&self) -> Vec<Event> {
        let mut events = Vec::new();
        while let Some(taken) = self.take() {
            events.extend([taken.before, taken.after]);
        }
        self.made.store(0, Ordering::Relaxed);
        self.free.store(0, Ordering::Relaxed);
        events
    }

    fn taken(&self, index: u32, pair: &Pair) -> TakenPair {
        TakenPair {
            index,
            before: Event(pair.before.load(Ordering::Relaxed)),
            after: Event(pair.after.load(Ordering::Relaxed)),
        }
    }

    #[inline]
    fn pair(&self, index: u32) -> Option<&Pair> {
        self.pairs.get(usize::try_from(index).ok()?)
    }

    /// Makes another pair the head if the head is still `head`; else returns the current head.
    #[inline]
    fn change(&self, head: u64, next: u32) -> Result<(), u64> {
        let changes = (head >> 32).wrapping_add(1);
        let new = changes << 32 | u64::from(next);
        // The next thread that takes the pair sees everything stored in it before.
        self.head.compare_exchange_weak(head, new, Ordering::AcqRel, Ordering::Acquire).map(|_| ())
    }
}

#[expect(clippy::cast_possible_truncation, reason = "the low half is meant")]
const fn low(word: u64) -> u32 {
    word as u32
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::sync::atomic::AtomicBool;

    use super::*;

    fn pool(pairs: u64) -> Pool {
        let pool = Pool::new();
        for pair in 0..pairs {
            assert!(pool.add(Event(2 * pair + 2), Event(2 * pair + 3)));
        }
        pool
    }

    #[test]
    fn a_pair_is_given_to_one_at_a_time() {
        const LAUNCHES: u64 = 20_000;
        const THREADS: u64 = 4;
        let pool = pool(64);
        let owners: Vec<AtomicU64> = (0..200).map(|_| AtomicU64::new(0)).collect();
        let owner = |taken: &TakenPair| &owners[usize::try_from(taken.before.0).unwrap()];
        let is_over = AtomicBool::new(false);
        let mut launches = BTreeSet::new();
        std::thread::scope(|scope| {
            let threads: Vec<_> = (1..=THREADS)
                .map(|thread| {
                    let (pool, owner) = (&pool, &owner);
                    scope.spawn(move || {
                        let mut given = 0;
                        while given < LAUNCHES {
                            let Some(taken) = pool.take() else {
                                std::thread::yield_now();
                                continue;
                            };
                            assert_eq!(taken.after.0, taken.before.0 + 1, "a pair");
                            assert_eq!(owner(&taken).swap(thread, Ordering::Relaxed), 0);
                            given += 1;
                            let launch = thread << 32 | given;
                            owner(&taken).store(0, Ordering::Relaxed);
                            match given % 3 {
                                0 => pool.put_back(taken),
                                _ => pool.leave(taken, launch, thread),
                            }
                        }
                    })
                })
                .collect();
            let worker = scope.spawn(|| {
                let mut seen = BTreeSet::new();
                loop {
                    let last = is_over.load(Ordering::Acquire);
                    for left in pool.left() {
                        assert_eq!(left.stream, left.launch >> 32, "all of one launch");
                        assert!(seen.insert(left.launch), "twice");
                        pool.put_back(left.pair);
                    }
                    if last {
                        return seen;
                    }
                    std::thread::yield_now();
                }
            });
            for thread in threads {
                thread.join().unwrap();
            }
            is_over.store(true, Ordering::Release);
            launches = worker.join().unwrap();
        });
        let left = THREADS * (LAUNCHES - LAUNCHES / 3);
        assert_eq!(u64::try_from(launches.len()).unwrap(), left);
        assert_eq!(pool.size(), (64, 64));
        assert_eq!(pool.empty().len(), 128);
    }

    #[test]
    fn a_head_is_never_the_same_again() {
        let pool = pool(3);
        // One thread reads the head and the pair below; meanwhile another takes both pairs and puts back the first.
        let head = pool.head.load(Ordering::Relaxed);
        let first = pool.take().unwrap();
        let second = pool.take().unwrap();
        pool.put_back(first);
        // If the second pair became the head, it would be handed out twice.
        assert!(pool.change(head, second.index + 1).is_err());
        assert_eq!(low(pool.head.load(Ordering::Relaxed)), low(head));
    }
}
