//! What goes on which lane, in the order of time: operations mostly come in that order, so each lane is nearly sorted.

use rustc_hash::FxHashMap;

use crate::tables::place::{index, place};
use crate::tables::room;
use crate::timeline::lanes::LaneKey;

/// What is gathered for each lane.
#[derive(Debug)]
pub(super) struct ByLane<T> {
    numbers: FxHashMap<LaneKey, u32>,
    lanes: Vec<(LaneKey, Vec<T>)>,
}

impl<T: Ord> ByLane<T> {
    /// Nothing yet.
    pub(super) fn new() -> Self {
        Self {
            numbers: FxHashMap::default(),
            lanes: Vec::new(),
        }
    }

    /// Adds something to a lane.
    pub(super) fn add(&mut self, key: LaneKey, one: T) {
        let next = place(self.lanes.len());
        let number = *self.numbers.entry(key).or_insert(next);
        if number == next {
            self.lanes.push((key, Vec::new()));
        }
        if let Some((_, all)) = self.lanes.get_mut(index(number)) {
            room::push(all, one);
        }
    }

    /// The lanes in order, each with what it has in order.
    pub(super) fn in_order(self) -> Vec<(LaneKey, Vec<T>)> {
        let mut lanes = self.lanes;
        lanes.sort_unstable_by_key(|(key, _)| *key);
        for (_, all) in &mut lanes {
            // Stable for its speed where runs are in order.
            all.sort();
        }
        lanes
    }
}
