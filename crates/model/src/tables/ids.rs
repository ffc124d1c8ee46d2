//! Finds rows by id without hashing. Ids count up within their slot, so slot and number give the row.
//!
//! ```text
//!   id = tag | slot | number        slots: 0 ─ [ row of 1, row of 2, … ]
//!                                          1 ─ [ … ]
//! ```
//!
//! Journals may be damaged, and ids of other processes occur. The caller compares the id of the row found. Ids that are
//! far apart, or share slot and number with another id, are in a map.

use std::collections::HashMap;

/// Numbers that a slot may skip for each used one: limits the memory that a damaged id can request.
const SKIPPED: usize = 4;
/// Numbers that a slot may skip in any case.
const SKIPPED_AT_LEAST: usize = 4096;

#[derive(Debug)]
struct Slot<T> {
    /// The number of the first row: a flight recording does not start at 1.
    first: u64,
    rows: Vec<Option<T>>,
    used: usize,
}

/// The slot, and the number within the slot.
pub(super) type Key = (u16, u64);

#[derive(Debug)]
pub(super) struct Ids<T> {
    slots: Vec<Slot<T>>,
    others: HashMap<u64, T>,
}

impl<T> Default for Ids<T> {
    fn default() -> Self {
        Self { slots: Vec::new(), others: HashMap::new() }
    }
}

impl<T> Default for Slot<T> {
    fn default() -> Self {
        Self { first: u64::MAX, rows: Vec::new(), used: 0 }
    }
}

impl<T: Copy> Slot<T> {
    fn offset(&self, number: u64) -> Option<usize> {
        usize::try_from(number.checked_sub(self.first)?).ok()
    }

    #[inline]
    fn get(&self, number: u64) -> Option<T> {
        *self.rows.get(self.offset(number)?)?
    }

    fn get_mut(&mut self, number: u64) -> Option<&mut T> {
        let offset = self.offset(number)?;
        self.rows.get_mut(offset)?.as_mut()
    }

    /// Appends the row if `number` follows the last one; returns whether it does.
    #[inline]
    fn push(&mut self, number: u64, at: T) -> bool {
        let is_next = self.used > 0 && self.offset(number) == Some(self.rows.len());
        if is_next {
            self.rows.push(Some(at));
            self.used += 1;
        }
        is_next
    }

    /// Returns whether there was room.
    fn insert(&mut self, number: u64, at: T) -> bool {
        if self.used == 0 {
            self.first = self.first.min(number);
        }
        let Some(offset) = self.offset(number) else {
            return false;
        };
        if offset >= self.rows.len() {
            if offset > SKIPPED * self.used + SKIPPED_AT_LEAST {
                return false;
            }
            self.rows.resize(offset + 1, None);
        }
        match self.rows.get_mut(offset) {
            Some(free) if free.is_none() => {
                *free = Some(at);
                self.used += 1;
                true
            }
            _ => false,
        }
    }
}

impl<T: Copy> Ids<T> {
    /// Without rows, but with room for rows of these keys in any order.
    pub(super) fn with_room(each: impl FnOnce(&mut dyn FnMut(Key))) -> Self {
        // Least and greatest number, and how many, by slot.
        let mut spans: Vec<Option<(u64, u64, usize)>> = Vec::new();
        each(&mut |(slot, number)| {
            let slot = usize::from(slot);
            if slot >= spans.len() {
                spans.resize(slot + 1, None);
            }
            if let Some(span) = spans.get_mut(slot) {
                let (least, most, count) = span.unwrap_or((number, number, 0));
                *span = Some((least.min(number), most.max(number), count + 1));
            }
        });
        let slots = spans.into_iter().map(|span| {
            let room = |(first, most, count): (u64, u64, usize)| {
                let slot = Slot { first, ..Slot::default() };
                let offset = slot.offset(most).filter(|offset| *offset <= SKIPPED * count + SKIPPED_AT_LEAST);
                Slot { rows: vec![None; offset.map_or(0, |offset| offset + 1)], ..slot }
            };
            span.map_or_else(Slot::default, room)
        });
        Self { slots: slots.collect(), others: HashMap::new() }
    }

    /// The row of an id. `is_of` tells whether a row has this id.
    #[inline]
    pub(super) fn get(&self, id: u64, key: Key, is_of: impl Fn(T) -> bool) -> Option<T> {
        match self.slots.get(usize::from(key.0)).and_then(|slot| slot.get(key.1)) {
            Some(at) if is_of(at) => Some(at),
            _ if self.others.is_empty() => None,
            _ => self.others.get(&id).copied(),
        }
    }

    /// Sets the row of an id, replacing an earlier one. `is_of` as for [`Self::get`].
    pub(super) fn put(&mut self, id: u64, key: Key, at: T, is_of: impl Fn(T) -> bool) {
        match self.slots.get_mut(usize::from(key.0)).and_then(|slot| slot.get_mut(key.1)) {
            Some(known) if is_of(*known) => *known = at,
            _ => self.insert(id, key, at),
        }
    }

    /// Sets the row of an id unless it has one; returns whether it had none. `is_of` as for [`Self::get`].
    #[inline]
    pub(super) fn insert_new(&mut self, id: u64, key: Key, at: T, is_of: impl Fn(T) -> bool) -> bool {
        let slot = self.slots.get_mut(usize::from(key.0));
        // Fast path: ids count up.
        if self.others.is_empty() && slot.is_some_and(|slot| slot.push(key.1, at)) {
            return true;
        }
        let is_new = self.get(id, key, is_of).is_none();
        if is_new {
            self.insert(id, key, at);
        }
        is_new
    }

    /// Adds the row of an id that has none yet.
    pub(super) fn insert(&mut self, id: u64, key: Key, at: T) {
        let slot = usize::from(key.0);
        if slot >= self.slots.len() {
            self.slots.resize_with(slot + 1, Slot::default);
        }
        let is_in_slot = self.slots.get_mut(slot).is_some_and(|slot| slot.insert(key.1, at));
        if !is_in_slot {
            self.others.insert(id, at);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nccl_events::ids::index;
    use proptest::prelude::*;

    /// Compares the ids with a map.
    fn check(ids: &[(u16, u64, u16)]) {
        let id = |&(slot, number, tag): &(u16, u64, u16)| u64::from(tag) << 48 | u64::from(slot) << 36 | number;
        let all: Vec<u64> = ids.iter().map(id).collect();
        let key = |id: u64| (u16::try_from(id >> 36 & 0xfff).expect("12 bits"), id & 0xf_ffff_ffff);
        let mut expected: HashMap<u64, u32> = HashMap::new();
        let mut found = Ids::<u32>::default();
        let is_of = |id: u64| {
            let all = &all;
            move |at: u32| all.get(index(at)) == Some(&id)
        };
        for (at, &id) in (0..).zip(&all) {
            assert_eq!(found.get(id, key(id), is_of(id)), expected.get(&id).copied());
            assert_eq!(found.insert_new(id, key(id), at, is_of(id)), !expected.contains_key(&id));
            expected.entry(id).or_insert(at);
        }
        for &id in &all {
            assert_eq!(found.get(id, key(id), is_of(id)), expected.get(&id).copied());
        }
    }

    proptest! {
        #[test]
        fn every_id_has_its_row(
            ids in proptest::collection::vec((0_u16..3, prop_oneof![0_u64..40, 0_u64..1 << 36], 1_u16..3), 0..80)
        ) {
            check(&ids);
        }
    }

    #[test]
    fn a_number_far_off_costs_no_memory() {
        let mut ids = Ids::<u32>::default();
        ids.insert(1, (0, 1), 0);
        ids.insert(2, (0, 1 << 35), 1);
        assert!(ids.slots.iter().all(|slot| slot.rows.len() < 10));
        assert_eq!(ids.get(2, (0, 1 << 35), |at| at == 1), Some(1));
        assert_eq!(ids.get(3, (0, 1 << 34), |_| true), None);
    }
}
