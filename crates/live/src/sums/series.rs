//! Sums by key, for a limited number of keys.

use std::hash::{BuildHasher, Hash};

use rustc_hash::{FxBuildHasher, FxHashMap, FxHashSet};

/// Limit on the folded series that are counted individually.
const MOST_FOLDED: usize = 1 << 16;

/// Limit on the number of series in all tables together.
#[derive(Debug)]
pub(crate) struct Budget {
    left: usize,
    folded: FxHashSet<u64>,
}

impl Budget {
    pub(crate) fn new(most: usize) -> Self {
        Self { left: most, folded: FxHashSet::default() }
    }

    pub(crate) fn folded(&self) -> u64 {
        self.folded.len() as u64
    }
}

/// Sums by key, in the order in which keys first came.
#[derive(Debug)]
pub(crate) struct Series<K, V> {
    places: FxHashMap<K, usize>,
    pub(crate) all: Vec<(K, V)>,
}

impl<K, V> Default for Series<K, V> {
    fn default() -> Self {
        Self { places: FxHashMap::default(), all: Vec::new() }
    }
}

impl<K: Copy + Eq + Hash, V> Series<K, V> {
    /// The index of a key's sum, or of the sum that the key is folded into.
    pub(crate) fn place(&mut self, key: K, other: K, budget: &mut Budget, new: impl FnOnce() -> V) -> usize {
        if let Some(&place) = self.places.get(&key) {
            return place;
        }
        let mut kept = key;
        if budget.left == 0 {
            if budget.folded.len() < MOST_FOLDED {
                budget.folded.insert(FxBuildHasher.hash_one(key));
            }
            kept = other;
            if let Some(&place) = self.places.get(&other) {
                return place;
            }
        }
        budget.left = budget.left.saturating_sub(1);
        let place = self.all.len();
        self.places.insert(kept, place);
        self.all.push((kept, new()));
        place
    }

    pub(crate) fn at(&mut self, place: usize) -> Option<&mut V> {
        self.all.get_mut(place).map(|(_, sum)| sum)
    }
}
