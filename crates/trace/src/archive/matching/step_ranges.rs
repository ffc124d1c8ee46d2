//! Ranks that recorded only ranges of steps: which can be compared, and how their collectives are numbered.

use std::collections::{BTreeMap, BTreeSet};

use crate::part::calls::StepRanges;
use nccl_events::sort::Gather;

/// The number, from 1, of the collective at `position`, from 0, within the ranges.
pub(super) fn number(ranges: &StepRanges, position: u64) -> u64 {
    let mut before = 0;
    for span in ranges.spans() {
        if position < before + span.len() {
            return u64::from(span.first) + position - before;
        }
        before += span.len();
    }
    position + 1
}

/// The ranks whose ranges differ from those of most ranks, and the ranges of most ranks. A rank that did not get as far
/// knows fewer ranges and still agrees, unless the program names the steps.
pub(super) fn sort_out<'a>(
    ranks: impl Iterator<Item = (u32, Option<&'a StepRanges>)>,
) -> (BTreeSet<u32>, Option<&'a StepRanges>) {
    let mut with: BTreeMap<Option<&StepRanges>, BTreeSet<u32>> = BTreeMap::new();
    for (rank, ranges) in ranks {
        with.entry(ranges).or_default().insert(rank);
    }
    let agrees = |one: Option<&StepRanges>, other: Option<&StepRanges>| match (one, other) {
        (None, None) => true,
        (Some(one), Some(other)) if one.is_named || other.is_named => one == other,
        (Some(one), Some(other)) => one.spans.starts_with(&other.spans),
        _ => false,
    };
    let followers = |longest: Option<&StepRanges>| -> usize {
        with.iter().filter(|(one, _)| agrees(longest, **one)).map(|(_, ranks)| ranks.len()).sum()
    };
    let most = with.keys().max_by_key(|&&one| followers(one)).copied().flatten();
    (with.iter().filter(|(one, _)| !agrees(most, **one)).flat_map(|(_, ranks)| ranks.iter().copied()).gather(), most)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ranges(pairs: &[(u32, u32)]) -> StepRanges {
        StepRanges { spans: pairs.to_vec(), is_named: false }
    }

    #[test]
    fn ranks_of_other_ranges_are_found() {
        let all = ranges(&[(1, 3), (7, 9)]);
        let (first, other) = (ranges(&[(1, 3)]), ranges(&[(2, 3)]));
        let sorted = |ranks: &[Option<&StepRanges>]| {
            let (others, most) = sort_out((0..).zip(ranks.iter().copied()));
            (others.into_iter().collect::<Vec<u32>>(), most.cloned())
        };
        assert_eq!(sorted(&[Some(&all), Some(&first), Some(&first)]), (vec![], Some(all.clone())));
        assert_eq!(sorted(&[Some(&all), Some(&other), Some(&all)]), (vec![1], Some(all.clone())));
        assert_eq!(sorted(&[None, Some(&all), None]), (vec![1], None));
        assert_eq!(sorted(&[None, None]), (vec![], None));
        // Between its steps a rank may have called more than others.
        let [named, fewer] = [&all, &first].map(|it| StepRanges { is_named: true, ..it.clone() });
        assert_eq!(sorted(&[Some(&named), Some(&fewer), Some(&named)]), (vec![1], Some(named.clone())));
    }
}
