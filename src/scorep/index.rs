//! From the id of an event to the place of its operation: a table of fixed size, shared by all threads without a lock.

use std::sync::atomic::{AtomicU64, Ordering};

/// How many places are looked at for an id.
const REACH: usize = 16;
/// Nothing is here.
const FREE: u64 = 0;
/// Somebody is just putting something here. No id of an event has this value: there is a tag in its upper bits.
const TAKEN: u64 = 1;

#[derive(Debug)]
struct Entry {
    id: AtomicU64,
    place: AtomicU64,
}

impl Entry {
    /// Changes who it is for, unless another thread was first.
    fn turn(&self, from: u64, to: u64) -> bool {
        self.id
            .compare_exchange(from, to, Ordering::AcqRel, Ordering::Relaxed)
            .is_ok()
    }
}

#[derive(Debug)]
pub(super) struct Index {
    entries: Box<[Entry]>,
}

impl Index {
    /// One with so many entries, a power of two.
    pub(super) fn new(entries: usize) -> Self {
        let entry = |_| Entry {
            id: AtomicU64::new(FREE),
            place: AtomicU64::new(0),
        };
        Self {
            entries: (0..entries.next_power_of_two()).map(entry).collect(),
        }
    }

    /// Puts an id in. Not when all entries for it are taken by what has a place from `oldest` on: what is older was never
    /// taken out, and never will.
    pub(super) fn put(&self, id: u64, place: u64, oldest: u64) -> bool {
        let free = |entry: &&Entry| entry.turn(FREE, TAKEN);
        let old = |entry: &&Entry| {
            let id = entry.id.load(Ordering::Acquire);
            id > TAKEN && entry.place.load(Ordering::Relaxed) < oldest && entry.turn(id, TAKEN)
        };
        let entry = self.places_for(id).find(free);
        let Some(entry) = entry.or_else(|| self.places_for(id).find(old)) else {
            return false;
        };
        entry.place.store(place, Ordering::Relaxed);
        entry.id.store(id, Ordering::Release);
        true
    }

    pub(super) fn get(&self, id: u64) -> Option<u64> {
        let entry = self.find(id)?;
        let place = entry.place.load(Ordering::Relaxed);
        // Taken out meanwhile, and used again: what was read may be another's.
        (entry.id.load(Ordering::Acquire) == id).then_some(place)
    }

    /// Takes an id out.
    pub(super) fn take(&self, id: u64) -> Option<u64> {
        let entry = self.find(id)?;
        let place = entry.place.load(Ordering::Relaxed);
        entry.turn(id, FREE).then_some(place)
    }

    fn find(&self, id: u64) -> Option<&Entry> {
        if id <= TAKEN {
            return None;
        }
        self.places_for(id)
            .find(|entry| entry.id.load(Ordering::Acquire) == id)
    }

    fn places_for(&self, id: u64) -> impl Iterator<Item = &Entry> {
        let mask = self.entries.len() - 1;
        // Ids differ in their lower bits, of which the last five are the kind.
        let hash = id.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
        let first = usize::try_from(hash).unwrap_or(0);
        (0..REACH).filter_map(move |step| self.entries.get((first + step) & mask))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_put_in_is_found_until_it_is_taken_out() {
        let index = Index::new(64);
        for id in 100..120 {
            assert!(index.put(id, id * 2, 0), "{id}");
        }
        assert_eq!(index.get(107), Some(214));
        assert_eq!(index.take(107), Some(214));
        assert_eq!((index.get(107), index.take(107)), (None, None));
        assert_eq!(index.get(108), Some(216));
        assert_eq!((index.get(0), index.get(1)), (None, None));
    }

    #[test]
    fn a_full_index_says_so() {
        let index = Index::new(REACH);
        let put = (100..200).filter(|&id| index.put(id, id, 0)).count();
        assert_eq!(put, REACH);
        assert!(index.put(200, 7, 101), "the place of 100, which is too old");
        assert_eq!((index.get(100), index.get(200)), (None, Some(7)));
        assert!(!index.put(201, 8, 7), "nothing is too old");
    }

    #[test]
    fn threads_do_not_disturb_each_other() {
        let index = Index::new(1024);
        std::thread::scope(|scope| {
            for thread in 1..=4_u64 {
                let index = &index;
                scope.spawn(move || {
                    for round in 0..20_000_u64 {
                        let id = (thread << 48) | round;
                        assert!(index.put(id, id + 1, 0));
                        assert_eq!(index.get(id), Some(id + 1));
                        assert_eq!(index.take(id), Some(id + 1));
                    }
                });
            }
        });
    }
}
