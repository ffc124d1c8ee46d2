//! Unions of time intervals.

use crate::tables::{Column as _, Narrow};

pub fn union(mut intervals: Vec<(u64, u64)>) -> Vec<(u64, u64)> {
    intervals.sort_unstable();
    let mut joined: Vec<(u64, u64)> = Vec::new();
    for (start, stop) in intervals {
        match joined.last_mut() {
            Some((_, end)) if start <= *end => *end = (*end).max(stop),
            _ => joined.push((start, stop)),
        }
    }
    joined
}

pub fn length(intervals: &[(u64, u64)]) -> u64 {
    intervals.iter().map(|(start, stop)| stop.saturating_sub(*start)).sum()
}

/// Disjoint sorted intervals, with queries for how much of a range they cover.
#[derive(Clone, Debug, Default)]
pub(in crate::derived) struct Covered {
    starts_ns: Vec<u64>,
    lengths_ns: Narrow,
    /// Total length of the intervals before each [`BLOCK`] of them.
    before_ns: Vec<u64>,
}

/// So few intervals are summed up in less time than it takes to find them.
const BLOCK: usize = 16;

impl Covered {
    pub(in crate::derived) fn of(intervals: &[(u64, u64)]) -> Self {
        let mut found = Self { starts_ns: intervals.iter().map(|(start, _)| *start).collect(), ..Self::default() };
        found.lengths_ns.reserve(intervals.len());
        let mut sum_ns = 0;
        for (at, (start, stop)) in intervals.iter().enumerate() {
            if at % BLOCK == 0 {
                found.before_ns.push(sum_ns);
            }
            sum_ns += stop - start;
            found.lengths_ns.push(stop - start);
        }
        found
    }

    pub(in crate::derived) fn at(&self, at: usize) -> (u64, u64) {
        (self.starts_ns[at], self.starts_ns[at] + self.lengths_ns.get(at))
    }

    fn until(&self, until_ns: u64) -> u64 {
        let Some(last) = self.starts_ns.partition_point(|start| *start < until_ns).checked_sub(1) else {
            return 0;
        };
        let (start, stop) = self.at(last);
        let of_block: u64 = (last / BLOCK * BLOCK..last).map(|at| self.lengths_ns.get(at)).sum();
        self.before_ns[last / BLOCK] + of_block + until_ns.min(stop) - start
    }

    /// How many intervals end before a time.
    pub(in crate::derived) fn ended(&self, before_ns: u64) -> usize {
        let begun = self.starts_ns.partition_point(|start| *start < before_ns);
        begun - usize::from(begun > 0 && self.at(begun - 1).1 >= before_ns)
    }

    pub(in crate::derived) fn span(&self) -> Option<(u64, u64)> {
        Some((*self.starts_ns.first()?, self.at(self.len() - 1).1))
    }

    pub(in crate::derived) const fn len(&self) -> usize {
        self.starts_ns.len()
    }

    pub(in crate::derived) fn within(&self, from_ns: u64, until_ns: u64) -> u64 {
        self.until(until_ns) - self.until(from_ns)
    }
}

/// Total overlap of two lists of disjoint sorted intervals.
pub(in crate::derived) fn overlap(a: &[(u64, u64)], b: &[(u64, u64)]) -> u64 {
    let (mut at, mut other, mut sum) = (0, 0, 0);
    while let (Some(first), Some(second)) = (a.get(at), b.get(other)) {
        sum += first.1.min(second.1).saturating_sub(first.0.max(second.0));
        if first.1 < second.1 {
            at += 1;
        } else {
            other += 1;
        }
    }
    sum
}

/// The parts of disjoint sorted intervals that `b` does not cover.
pub(in crate::derived) fn subtract(a: &[(u64, u64)], b: &[(u64, u64)]) -> Vec<(u64, u64)> {
    let mut left = Vec::new();
    let mut first = 0;
    for (start, stop) in a {
        first += b[first..].partition_point(|(_, end)| end <= start);
        let mut from = *start;
        for (begin, end) in b[first..].iter().take_while(|(begin, _)| begin < stop) {
            if *begin > from {
                left.push((from, *begin));
            }
            from = *end;
        }
        if from < *stop {
            left.push((from, *stop));
        }
    }
    left
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_covered_within_a_time() {
        let covered = Covered::of(&[(2, 4), (4, 5), (10, 20)]);
        let found = [(0, 30), (3, 12), (5, 10), (12, 15), (25, 30)].map(|(from, to)| covered.within(from, to));
        assert_eq!(found, [13, 4, 0, 3, 0]);
        assert_eq!([0, 4, 5, 6, 20, 21].map(|ns| covered.ended(ns)), [0, 0, 1, 2, 2, 3]);
        let many = Covered::of(&(0..100).map(|at| (10 * at, 10 * at + 1 + at % 2)).collect::<Vec<(u64, u64)>>());
        assert_eq!([many.within(5, 505), many.within(170, 171), many.within(0, 2_000)], [75, 1, 150]);
    }

    #[test]
    fn time_counts_once() {
        let a = union(vec![(5, 9), (0, 3), (2, 4), (9, 10)]);
        assert_eq!(a, [(0, 4), (5, 10)]);
        assert_eq!(length(&a), 9);
        assert_eq!(overlap(&a, &[(3, 6), (8, 20)]), 1 + 1 + 2);
        assert_eq!(subtract(&a, &[(3, 6), (8, 9)]), [(0, 3), (6, 8), (9, 10)]);
        assert_eq!(subtract(&[(0, 9), (10, 12), (20, 30)], &[(1, 2), (8, 25)]), [(0, 1), (2, 8), (25, 30)]);
    }
}
