//! Ranks of which only windows of steps were recorded: which may be compared, and what their collectives' numbers are.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use serde::{Deserialize, Serialize};

use nccl_events::control::Span;

/// The windows that a rank came to, or is to come to next: first and last collective, in order.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Windows(Vec<(u32, u32)>);

impl Windows {
    /// Of these.
    pub(super) fn of(spans: &[Span]) -> Self {
        Self(spans.iter().map(|span| (span.first, span.last)).collect())
    }

    fn spans(&self) -> impl Iterator<Item = Span> {
        let pairs = self.0.iter();
        pairs.map(|&(first, last)| Span { first, last })
    }

    /// The number of a collective, from 1, that is at a place, from 0, among those of the windows.
    pub(super) fn number(&self, place: u64) -> u64 {
        let mut before = 0;
        for span in self.spans() {
            if place < before + span.len() {
                return u64::from(span.first) + place - before;
            }
            before += span.len();
        }
        place + 1
    }
}

impl fmt::Display for Windows {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let spans: Vec<String> = self.spans().map(|span| span.to_string()).collect();
        formatter.write_str(&spans.join(","))
    }
}

/// The ranks that recorded other windows than most, and what most recorded. A rank that did not come as far knows of fewer
/// windows: it recorded the same.
pub(super) fn sort_out<'a>(
    ranks: impl Iterator<Item = (u32, Option<&'a Windows>)>,
) -> (BTreeSet<u32>, Option<&'a Windows>) {
    let mut with: BTreeMap<Option<&Windows>, BTreeSet<u32>> = BTreeMap::new();
    for (rank, windows) in ranks {
        with.entry(windows).or_default().insert(rank);
    }
    let agrees = |one: Option<&Windows>, other: Option<&Windows>| match (one, other) {
        (None, None) => true,
        (Some(one), Some(other)) => one.0.starts_with(&other.0),
        _ => false,
    };
    let followers = |longest: Option<&Windows>| -> usize {
        let all = with.iter().filter(|(one, _)| agrees(longest, **one));
        all.map(|(_, ranks)| ranks.len()).sum()
    };
    let most = with.keys().max_by_key(|&&one| followers(one));
    let most = most.copied().flatten();
    let others = with.iter().filter(|(one, _)| !agrees(most, **one));
    let others = others.flat_map(|(_, ranks)| ranks.iter().copied());
    (others.collect(), most)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn windows(pairs: &[(u32, u32)]) -> Windows {
        Windows(pairs.to_vec())
    }

    #[test]
    fn places_have_the_numbers_of_their_windows() {
        let windows = windows(&[(1, 3), (100, 110)]);
        let numbers: Vec<u64> = [0, 2, 3, 13].map(|place| windows.number(place)).into();
        assert_eq!(numbers, [1, 3, 100, 110]);
        assert_eq!(windows.to_string(), "1-3,100-110");
    }

    #[test]
    fn ranks_of_other_windows_are_found() {
        let (all, first, other) = (
            windows(&[(1, 3), (7, 9)]),
            windows(&[(1, 3)]),
            windows(&[(2, 3)]),
        );
        let sorted = |ranks: &[Option<&Windows>]| {
            let (others, most) = sort_out((0..).zip(ranks.iter().copied()));
            (others.into_iter().collect::<Vec<u32>>(), most.cloned())
        };
        assert_eq!(
            sorted(&[Some(&all), Some(&first), Some(&first)]),
            (vec![], Some(all.clone()))
        );
        assert_eq!(
            sorted(&[Some(&all), Some(&other), Some(&all)]),
            (vec![1], Some(all.clone()))
        );
        assert_eq!(sorted(&[None, Some(&all), None]), (vec![1], None));
        assert_eq!(sorted(&[None, None]), (vec![], None));
    }
}
