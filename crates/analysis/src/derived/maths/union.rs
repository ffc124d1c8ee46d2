//! Unions of time intervals.

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
    intervals: Vec<(u64, u64)>,
    /// Total length of the intervals before each one.
    before_ns: Vec<u64>,
}

impl Covered {
    pub(in crate::derived) fn of(intervals: Vec<(u64, u64)>) -> Self {
        let mut sum_ns = 0;
        let before_ns = intervals.iter().map(|(start, stop)| {
            sum_ns += stop - start;
            sum_ns - (stop - start)
        });
        let before_ns = before_ns.collect();
        Self { intervals, before_ns }
    }

    fn until(&self, until_ns: u64) -> u64 {
        let behind = self.intervals.partition_point(|(start, _)| *start < until_ns);
        let last = self.intervals[..behind].last().zip(self.before_ns[..behind].last());
        last.map_or(0, |((start, stop), before_ns)| before_ns + until_ns.min(*stop) - start)
    }

    pub(in crate::derived) fn span(&self) -> Option<(u64, u64)> {
        Some((self.intervals.first()?.0, self.intervals.last()?.1))
    }

    pub(in crate::derived) fn count(&self) -> u64 {
        self.intervals.len() as u64
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
        let covered = Covered::of(vec![(2, 4), (4, 5), (10, 20)]);
        let found = [(0, 30), (3, 12), (5, 10), (12, 15), (25, 30)].map(|(from, to)| covered.within(from, to));
        assert_eq!(found, [13, 4, 0, 3, 0]);
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
