//! The data of the operations: small whole numbers, so that sums are exact in every order and data type.

pub(crate) const UNTOUCHED: i32 = -1;

/// Elements after which a rank's data repeats.
const PERIOD: usize = 1000;

/// The largest number of ranks for which every value and sum below fits an `i32` and is exact in an `f32`.
pub(crate) const MAX_RANKS: usize = 4096;

fn small(value: usize) -> i32 {
    i32::try_from(value).unwrap_or(i32::MAX)
}

pub(crate) fn value_of_rank(rank: usize, i: usize) -> i32 {
    small(i % PERIOD + rank + 1)
}

/// Element `i` of the sum over `ranks` (each rank's number in the whole run).
pub(crate) fn sum_over(ranks: &[usize], i: usize) -> i32 {
    small(ranks.iter().map(|rank| i % PERIOD + rank + 1).sum())
}

pub(crate) fn message(from: usize, to: usize) -> i32 {
    small(from * MAX_RANKS + to)
}

/// Exact as long as the value stays below 2^24, which [`MAX_RANKS`] and [`PERIOD`] see to.
#[expect(clippy::cast_precision_loss, reason = "values stay below 2^24")]
pub(crate) fn as_f32(value: i32) -> f32 {
    value as f32
}
