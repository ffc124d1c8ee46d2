//! Checks whether ranks do the same things in the same order.

use std::collections::BTreeMap;

/// The actions of a communicator's ranks, given one rank after another. Ranks are compared with the longest sequence so
/// far, which takes four bytes per action, however many ranks there are.
#[derive(Clone, Debug)]
pub struct Sequences<T> {
    things: Vec<T>,
    numbers: BTreeMap<T, u32>,
    longest: Vec<u32>,
    /// From which position on which rank's actions are stored.
    whose: Vec<(usize, u32)>,
    counts: BTreeMap<u32, usize>,
}

/// What another rank did at the same position.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Counterpart<'a, T> {
    pub place: usize,
    pub rank: u32,
    pub thing: &'a T,
}

impl<T> Default for Sequences<T> {
    fn default() -> Self {
        Self {
            things: Vec::new(),
            numbers: BTreeMap::new(),
            longest: Vec::new(),
            whose: Vec::new(),
            counts: BTreeMap::new(),
        }
    }
}

impl<T: Ord + Clone> Sequences<T> {
    /// Adds the next action of a rank; returns what an earlier rank did at the same position, if any.
    pub fn add(&mut self, rank: u32, thing: T) -> Option<Counterpart<'_, T>> {
        let count = self.counts.entry(rank).or_default();
        let place = *count;
        *count += 1;
        let Some(number) = self.longest.get(place) else {
            let number = self.number(thing);
            self.longest.push(number);
            if self.whose.last().is_none_or(|(_, whose)| *whose != rank) {
                self.whose.push((place, rank));
            }
            return None;
        };
        let (_, other) = self.whose.get(self.whose.partition_point(|(from, _)| *from <= place).checked_sub(1)?)?;
        Some(Counterpart { place, rank: *other, thing: self.things.get(usize::try_from(*number).ok()?)? })
    }

    fn number(&mut self, thing: T) -> u32 {
        let next = u32::try_from(self.things.len()).unwrap_or(u32::MAX);
        let number = *self.numbers.entry(thing.clone()).or_insert(next);
        if number == next {
            self.things.push(thing);
        }
        number
    }

    pub fn count(&self, rank: u32) -> usize {
        self.counts.get(&rank).copied().unwrap_or(0)
    }

    pub fn longest(&self) -> Option<(u32, usize)> {
        let (_, rank) = self.whose.last()?;
        Some((*rank, self.longest.len()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_are_compared_with_the_longest_before_them() {
        let mut sequences = Sequences::default();
        let differences = |sequences: &mut Sequences<char>, rank, things: &str| {
            let mut found = Vec::new();
            for thing in things.chars() {
                if let Some(other) = sequences.add(rank, thing)
                    && *other.thing != thing
                {
                    found.push((other.place, other.rank, *other.thing));
                }
            }
            found
        };
        assert_eq!(differences(&mut sequences, 4, "ab"), []);
        assert_eq!(differences(&mut sequences, 1, "abba"), []);
        assert_eq!(differences(&mut sequences, 2, "axby"), [(1, 4, 'b'), (3, 1, 'a')]);
        assert_eq!(sequences.longest(), Some((1, 4)));
        assert_eq!((sequences.count(4), sequences.count(7)), (2, 0));
    }
}
