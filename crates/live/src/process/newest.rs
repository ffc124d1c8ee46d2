//! Things by id, of which only the newest are kept.

use std::collections::VecDeque;

use rustc_hash::FxHashMap;

/// Things by id, the newest ones.
#[derive(Debug)]
pub(super) struct Newest<T> {
    all: FxHashMap<u64, T>,
    order: VecDeque<u64>,
    most: usize,
}

impl<T> Newest<T> {
    pub(super) fn new(most: usize) -> Self {
        Self { all: FxHashMap::default(), order: VecDeque::new(), most }
    }

    pub(super) fn get(&self, id: u64) -> Option<&T> {
        self.all.get(&id)
    }

    pub(super) fn get_mut(&mut self, id: u64) -> Option<&mut T> {
        self.all.get_mut(&id)
    }

    pub(super) fn get_or(&mut self, id: u64, new: impl FnOnce() -> T) -> &mut T {
        if !self.all.contains_key(&id) {
            self.order.push_back(id);
            if self.order.len() > self.most
                && let Some(oldest) = self.order.pop_front()
            {
                self.all.remove(&oldest);
            }
        }
        self.all.entry(id).or_insert_with(new)
    }
}
