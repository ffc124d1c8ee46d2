//! What goes on which location, in the order of time: events mostly come in that order, so each location is nearly
//! sorted.

use rustc_hash::FxHashMap;

use crate::timeline::location::LocationKey;
use tables::index::{index, index_u32};

#[derive(Debug)]
pub(super) struct ByLocation<T> {
    numbers: FxHashMap<LocationKey, u32>,
    locations: Vec<(LocationKey, Vec<T>)>,
}

impl<T: Ord> ByLocation<T> {
    pub(super) fn new() -> Self {
        Self { numbers: FxHashMap::default(), locations: Vec::new() }
    }

    pub(super) fn add(&mut self, key: LocationKey, one: T) {
        let next = index_u32(self.locations.len());
        let number = *self.numbers.entry(key).or_insert(next);
        if number == next {
            self.locations.push((key, Vec::new()));
        }
        if let Some((_, all)) = self.locations.get_mut(index(number)) {
            all.push(one);
        }
    }

    /// The locations in order, each with what it has in order.
    pub(super) fn in_order(self) -> Vec<(LocationKey, Vec<T>)> {
        let mut locations = self.locations;
        locations.sort_unstable_by_key(|(key, _)| *key);
        for (_, all) in &mut locations {
            // Stable for its speed where runs are in order.
            all.sort();
        }
        locations
    }
}
