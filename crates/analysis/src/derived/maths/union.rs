//! Unions of intervals of time.

/// The union of intervals as disjoint ones in order.
#[must_use]
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

/// How long disjoint intervals are together.
#[must_use]
pub fn length(intervals: &[(u64, u64)]) -> u64 {
    intervals.iter().map(|(start, stop)| stop.saturating_sub(*start)).sum()
}

/// How long disjoint intervals in order overlap with others.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_counts_once() {
        let a = union(vec![(5, 9), (0, 3), (2, 4), (9, 10)]);
        assert_eq!(a, [(0, 4), (5, 10)]);
        assert_eq!(length(&a), 9);
        assert_eq!(overlap(&a, &[(3, 6), (8, 20)]), 1 + 1 + 2);
    }
}
