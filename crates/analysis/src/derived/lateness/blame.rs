//! The ranks that others waited for, and how much of that is because they are late.

use crate::derived::lateness::outside::{IMPROBABLE, Outside};
use crate::derived::maths::sample::{median, real, whole};
use crate::derived::messages::{Awaited, Blame, Waited};
use crate::tables::large;

/// Unless chance is ruled out, a late rank spends this many mean pauses more outside of operations than others.
const CUT: u64 = 4;
/// Shares of waiting below the longest divided by this are rounding of the division, not waiting.
const SMALL_PART: u64 = 64;

#[derive(Clone, Copy, Debug)]
pub(in crate::derived) struct Late {
    pub(in crate::derived) waited: Waited,
    /// How long they waited because it came later than others do.
    pub(in crate::derived) lost_ns: u64,
    /// How much longer than the waiting ranks it was outside of operations.
    pub(in crate::derived) more_ns: u64,
    pub(in crate::derived) times: u64,
    pub(in crate::derived) ranks: u64,
    pub(in crate::derived) p_value: f64,
}

/// For each rank of the job what others waited for it. Where data goes from rank to rank, ranks wait until it comes,
/// and nobody is late: late is who spends more time outside of operations than those that wait for it.
pub(in crate::derived) fn late(outside: &Outside, blame: &Blame) -> Vec<Late> {
    let p_values = outside.p_values_of(blame);
    blame.ranks.iter().enumerate().map(|(rank, awaited)| of_rank(outside, rank, awaited, p_values[rank])).collect()
}

fn of_rank(outside: &Outside, rank: usize, awaited: &Awaited, p_value: f64) -> Late {
    let ranks = waited(awaited);
    let mut others: Vec<f64> = ranks.iter().filter_map(|other| outside.ns[large(*other)]).map(real).collect();
    let own_ns = outside.ns[rank].filter(|_| !others.is_empty());
    let more_ns = own_ns.map_or(0, |own_ns| whole((real(own_ns) - median(&mut others)).max(0.0)));
    // The beginning and end of a recording cut the time of one rank sooner than that of another. That alone makes no
    // rank late in block after block, however long the pauses are in which all ranks make communicators.
    let is_more =
        p_value < IMPROBABLE || more_ns >= CUT.saturating_mul(own_ns.unwrap_or(0) / outside.pauses[rank].max(1));
    let most_ns = if is_more { more_ns.saturating_mul(ranks.len() as u64) } else { 0 };
    Late {
        waited: awaited.sum,
        lost_ns: awaited.sum.all_ns().min(most_ns),
        more_ns,
        times: awaited.operations.len() as u64,
        ranks: ranks.len() as u64,
        p_value,
    }
}

/// The ranks that waited, except those whose share is only rounding.
fn waited(awaited: &Awaited) -> Vec<u32> {
    let longest_ns = awaited.by.values().copied().max().unwrap_or(0);
    awaited.by.iter().filter(|(_, ns)| **ns > longest_ns / SMALL_PART).map(|(rank, _)| *rank).collect()
}
