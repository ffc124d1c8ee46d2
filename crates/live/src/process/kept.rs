//! Items by id, kept until they are removed or grow old.

use std::collections::VecDeque;

use rustc_hash::FxHashMap;

/// How many ids of removed items may be kept beyond twice the number of items.
const MOST_REMOVED: usize = 1 << 10;

#[derive(Debug)]
pub(super) struct Kept<T> {
    all: FxHashMap<u64, T>,
    /// Time and id of each item, including removed ones.
    order: VecDeque<(u64, u64)>,
}

impl<T> Default for Kept<T> {
    fn default() -> Self {
        Self { all: FxHashMap::default(), order: VecDeque::new() }
    }
}

impl<T> Kept<T> {
    pub(super) fn len(&self) -> usize {
        self.all.len()
    }

    pub(super) fn get(&self, id: u64) -> Option<&T> {
        self.all.get(&id)
    }

    pub(super) fn get_mut(&mut self, id: u64) -> Option<&mut T> {
        self.all.get_mut(&id)
    }

    pub(super) fn get_or(&mut self, id: u64, ticks: u64, new: impl FnOnce() -> T) -> &mut T {
        self.all.entry(id).or_insert_with(|| {
            self.order.push_back((ticks, id));
            new()
        })
    }

    pub(super) fn remove(&mut self, id: u64) -> Option<T> {
        let removed = self.all.remove(&id);
        while let Some((_, id)) = self.order.front()
            && !self.all.contains_key(id)
        {
            self.order.pop_front();
        }
        removed
    }

    /// The oldest item, if older than `before`. The caller must remove it or keep it again.
    pub(super) fn oldest(&mut self, before: u64) -> Option<u64> {
        // Removed items pile up behind one that is kept for long.
        if self.order.len() > 2 * self.all.len() + MOST_REMOVED {
            self.order.retain(|(_, id)| self.all.contains_key(id));
        }
        while let Some((_, id)) = self.order.pop_front_if(|(since, _)| *since < before) {
            if self.all.contains_key(&id) {
                return Some(id);
            }
        }
        None
    }

    pub(super) fn keep_again(&mut self, id: u64, ticks: u64) {
        self.order.push_back((ticks, id));
    }
}
