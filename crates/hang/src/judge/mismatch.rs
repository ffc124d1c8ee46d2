//! Ranks with different calls at the same position of a communicator's order.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use crate::job::Rank;
use crate::operation::{Call, Signature};
use crate::sequence::Sequence;

#[derive(Clone, Debug)]
pub(crate) struct Mismatch {
    /// From 0.
    pub(crate) position: u64,
    /// Whether positions count from the communicator's first collective, not from the first kept one.
    pub(crate) from_beginning: bool,
    pub(crate) groups: Vec<(Signature, Vec<u32>)>,
    /// A rank that seems to have left out a collective (true) or to have called one too many (false).
    pub(crate) shifted: Option<(u32, bool)>,
}

impl Mismatch {
    /// The ranks outside the largest group; of two equal groups, the one without the lowest rank.
    pub(crate) fn deviants(&self) -> Vec<u32> {
        self.groups.iter().skip(1).flat_map(|(_, ranks)| ranks.iter().copied()).collect()
    }
}

/// Finds ranks with different calls at a position. Below the API, counts are not the program's, so if some calls are
/// only known from there, counts and data types are ignored.
pub(crate) fn find(
    ranks: &[(u32, &Rank)],
    sequence: Sequence,
    from_beginning: bool,
    position: u64,
) -> Option<Mismatch> {
    let calls = ranks.iter().filter_map(|(number, rank)| Some((*number, sequence.of(rank).at(position)?)));
    let calls: Vec<(u32, &Call)> = calls.collect();
    let all_alike = calls.windows(2).all(|pair| matches!(pair, [(_, a), (_, b)] if a.from_api == b.from_api));
    let mut by_what: BTreeMap<Signature, Vec<u32>> = BTreeMap::new();
    for (number, call) in calls {
        let mut what = call.what.clone();
        if !all_alike {
            what.count = 0;
            what.datatype = "".into();
        }
        by_what.entry(what).or_default().push(number);
    }
    if by_what.len() < 2 {
        return None;
    }
    let mut groups: Vec<(Signature, Vec<u32>)> = by_what.into_iter().collect();
    nccl_events::sort::sort_by_key(&mut groups, |(_, members)| (Reverse(members.len()), members.first().copied()));
    Some(Mismatch { position, from_beginning, shifted: shifted(ranks, sequence, position, &groups), groups })
}

/// Whether one rank is a collective ahead of the others, or behind them.
fn shifted(
    ranks: &[(u32, &Rank)],
    sequence: Sequence,
    position: u64,
    groups: &[(Signature, Vec<u32>)],
) -> Option<(u32, bool)> {
    let [(most, many), (other, one)] = groups else {
        return None;
    };
    let &[deviant] = one.as_slice() else {
        return None;
    };
    let next = |member: u32| {
        let (_, rank) = ranks.iter().find(|(number, _)| *number == member)?;
        Some(&sequence.of(rank).at(position + 1)?.what)
    };
    if many.iter().any(|&member| next(member) == Some(other)) {
        return Some((deviant, true));
    }
    (next(deviant) == Some(most)).then_some((deviant, false))
}
