//! A fixed-size, lock-free hash table, shared by all threads, from an event's id to the number of its operation.

use std::sync::atomic::{AtomicU64, Ordering};

const REACH: usize = 16;
const FREE: u64 = 0;
/// A thread is filling the entry. No event id equals this value, because ids have a tag in their upper bits.
const TAKEN: u64 = 1;

#[derive(Debug)]
struct Entry {
    id: AtomicU64,
    operation: AtomicU64,
}

impl Entry {
    /// Replaces the id, unless another thread was first.
    fn replace(&self, from: u64, to: u64) -> bool {
        self.id.compare_exchange(from, to, Ordering::AcqRel, Ordering::Relaxed).is_ok()
    }
}

#[derive(Debug)]
pub(super) struct Index {
    entries: Box<[Entry]>,
}

impl Index {
    /// Creates a table with this number of entries, rounded up to a power of two.
    pub(super) fn new(entries: usize) -> Self {
        let entry = |_| Entry { id: AtomicU64::new(FREE), operation: AtomicU64::new(0) };
        Self { entries: (0..entries.next_power_of_two()).map(entry).collect() }
    }

    /// Inserts an id, replacing an id of an operation before `oldest` if necessary. False if no entry is available.
    pub(super) fn put(&self, id: u64, operation: u64, oldest: u64) -> bool {
        let free = |entry: &&Entry| entry.replace(FREE, TAKEN);
        let old = |entry: &&Entry| {
            let id = entry.id.load(Ordering::Acquire);
            id > TAKEN && entry.operation.load(Ordering::Relaxed) < oldest && entry.replace(id, TAKEN)
        };
        let entry = self.entries_for(id).find(free);
        let Some(entry) = entry.or_else(|| self.entries_for(id).find(old)) else {
            return false;
        };
        // A thread that reads the new number sees that the id has changed.
        entry.operation.store(operation, Ordering::Release);
        entry.id.store(id, Ordering::Release);
        true
    }

    pub(super) fn get(&self, id: u64) -> Option<u64> {
        let entry = self.find(id)?;
        let operation = entry.operation.load(Ordering::Acquire);
        // If the entry was reused meanwhile, the number belongs to another id.
        (entry.id.load(Ordering::Acquire) == id).then_some(operation)
    }

    pub(super) fn take(&self, id: u64) -> Option<u64> {
        let entry = self.find(id)?;
        let operation = entry.operation.load(Ordering::Acquire);
        entry.replace(id, FREE).then_some(operation)
    }

    fn find(&self, id: u64) -> Option<&Entry> {
        if id <= TAKEN {
            return None;
        }
        self.entries_for(id).find(|entry| entry.id.load(Ordering::Acquire) == id)
    }

    fn entries_for(&self, id: u64) -> impl Iterator<Item = &Entry> {
        let mask = self.entries.len() - 1;
        // Ids differ in their lower bits; the lowest five are the kind.
        let hash = id.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
        let first = usize::try_from(hash).unwrap_or(0);
        (0..REACH).filter_map(move |step| self.entries.get((first + step) & mask))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_index_reuses_only_old_entries() {
        let index = Index::new(REACH);
        let put = (100..200).filter(|&id| index.put(id, id, 0)).count();
        assert_eq!(put, REACH);
        assert!(index.put(200, 7, 101), "the entry of 100, which is too old");
        assert_eq!((index.get(100), index.get(200)), (None, Some(7)));
        assert!(!index.put(201, 8, 7), "nothing is too old");
    }
}
