//! The ranks that others waited for, and the part of that waiting that is due to their lateness.

use crate::derived::lateness::outside::{IMPROBABLE, Outside};
use crate::derived::maths::sample::{median, real, whole};
use crate::derived::messages::{Awaited, Blame, Waited};
use nccl_events::ids::index as large;

/// Unless chance is ruled out, a late rank spends this many mean pauses longer outside operations than others.
const CUT: u64 = 4;
/// Waits shorter than the longest divided by this are rounding errors of the division into shares.
const SMALL_PART: u64 = 64;

#[derive(Clone, Copy, Debug)]
pub(in crate::derived) struct Late {
    pub(in crate::derived) waited: Waited,
    /// How long others waited because this rank came later than ranks usually do.
    pub(in crate::derived) lost_ns: u64,
    /// How much longer than the waiting ranks this rank was outside operations.
    pub(in crate::derived) more_ns: u64,
    pub(in crate::derived) times: u64,
    pub(in crate::derived) ranks: u64,
    pub(in crate::derived) p_value: f64,
}

impl Late {
    /// Whether chance does not explain that others waited.
    pub(in crate::derived) fn is_certain(&self) -> bool {
        self.p_value < IMPROBABLE && self.lost_ns > 0
    }
}

/// For each rank of the job, the waiting it caused. Where data flows from rank to rank, ranks wait for the data without
/// being late: a rank is late if it spends more time outside operations than the ranks that wait for it.
pub(in crate::derived) fn late(outside: &Outside, blame: &Blame) -> Vec<Late> {
    let p_values = outside.p_values_of(blame);
    blame.ranks.iter().enumerate().map(|(rank, awaited)| of_rank(outside, rank, awaited, p_values[rank])).collect()
}

fn of_rank(outside: &Outside, rank: usize, awaited: &Awaited, p_value: f64) -> Late {
    let ranks = waited(awaited);
    let mut others: Vec<f64> = ranks.iter().filter_map(|other| outside.ns[large(*other)]).map(real).collect();
    let own_ns = outside.ns[rank].filter(|_| !others.is_empty());
    let more_ns = own_ns.map_or(0, |own_ns| whole((real(own_ns) - median(&mut others)).max(0.0)));
    // A recording starts and ends earlier for some ranks than for others. That alone makes no rank late in block after
    // block, however long the pauses in which all ranks create communicators.
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

/// The ranks that waited, except those whose share is only a rounding error.
fn waited(awaited: &Awaited) -> Vec<u32> {
    let longest_ns = awaited.by.values().copied().max().unwrap_or(0);
    awaited.by.iter().filter(|(_, ns)| **ns > longest_ns / SMALL_PART).map(|(rank, _)| *rank).collect()
}
