//! A set of places, a bit for each.

use crate::tables::place::index;

/// Places of one table.
#[derive(Clone, Debug, Default)]
pub(crate) struct PlaceSet {
    words: Vec<u64>,
}

/// Word and bit of a place.
fn bit(place: u32) -> (usize, u64) {
    (index(place / u64::BITS), 1 << (place % u64::BITS))
}

impl PlaceSet {
    /// Puts a place in; gives whether it was not there.
    pub(crate) fn insert(&mut self, place: u32) -> bool {
        let (word, bit) = bit(place);
        if word >= self.words.len() {
            self.words.resize(word + 1, 0);
        }
        let Some(word) = self.words.get_mut(word) else {
            return false;
        };
        let is_new = *word & bit == 0;
        *word |= bit;
        is_new
    }

    /// Whether a place is in.
    pub(crate) fn contains(&self, place: u32) -> bool {
        let (word, bit) = bit(place);
        self.words.get(word).is_some_and(|word| word & bit != 0)
    }
}

impl Extend<u32> for PlaceSet {
    fn extend<T: IntoIterator<Item = u32>>(&mut self, places: T) {
        for place in places {
            let _is_new = self.insert(place);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_put_in_is_in() {
        let mut set = PlaceSet::default();
        for place in [0, 63, 64, 1000] {
            assert!(!set.contains(place));
            assert!(set.insert(place));
            assert!(!set.insert(place));
            assert!(set.contains(place));
        }
        assert!(!set.contains(1) && !set.contains(65) && !set.contains(1 << 20));
    }
}
