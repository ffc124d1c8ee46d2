//! The same operation again and again, to see what a call costs.

use crate::call_log::Quantiles;
use crate::calls::Call::AllReduce;
use crate::nccl::Reduction::Sum;
use crate::pattern::{of_rank, sum_over};
use crate::rank::Rank;
use std::time::Instant;

/// So many calls are enqueued before they are waited for: few enough that a stream takes them without waiting.
const BATCH: u64 = 64;

/// All-reduces of the same buffers; the first batch is not in what is said of them.
pub(super) fn repeat(rank: &Rank<'_>) -> anyhow::Result<()> {
    let ranks: Vec<usize> = (0..rank.ranks()).collect();
    let x = rank.fill(rank.count(), |i| of_rank(rank.me(), i))?;
    let sum = rank.fill(rank.count(), |_| -1)?;
    let iterations = rank.shared.iterations;
    rank.repeat(BATCH.min(iterations), AllReduce(Sum), &x.all(), &sum.all())?;
    rank.stream.synchronize()?;
    let mut calls_ns = Vec::new();
    let mut each_ns = Vec::new();
    let mut left = iterations;
    while left > 0 {
        let batch = BATCH.min(left);
        left -= batch;
        let began = Instant::now();
        rank.repeat(batch, AllReduce(Sum), &x.all(), &sum.all())?;
        let enqueued = began.elapsed();
        rank.stream.synchronize()?;
        let done = began.elapsed();
        calls_ns.push(u64::try_from(enqueued.as_nanos())? / batch);
        each_ns.push(u64::try_from(done.as_nanos())? / batch);
    }
    let bytes = rank.count() * size_of::<i32>();
    let pace = [quantiles(calls_ns), quantiles(each_ns)];
    rank.log_pace(bytes, [iterations, BATCH.min(iterations)], pace)?;
    rank.expect("repeated allreduce", &sum, |i| sum_over(&ranks, i))
}

/// Of at least one value.
fn quantiles(mut values: Vec<u64>) -> Quantiles {
    values.sort_unstable();
    let count = values.len() as u64;
    Quantiles {
        min: values.first().copied().unwrap_or(0),
        median: values.get(values.len() / 2).copied().unwrap_or(0),
        mean: values.iter().sum::<u64>() / count.max(1),
    }
}
