//! The same operation again and again, to see what a call costs.

use crate::calls::Call::AllReduce;
use crate::nccl::Reduction::Sum;
use crate::pattern::{sum_over, value_of_rank};
use crate::rank::Rank;
use serde_json::json;
use std::time::Instant;

/// So many calls are enqueued before they are waited for: few enough that a stream takes them without waiting.
const BATCH: u64 = 64;

/// All-reduces of the same buffers. The first batch is a warm-up and is not in the log.
pub(super) fn repeat(rank: &Rank<'_>) -> anyhow::Result<()> {
    let ranks: Vec<usize> = (0..rank.ranks()).collect();
    let x = rank.fill(rank.count(), |i| value_of_rank(rank.me(), i))?;
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
    let pace = json!({
        "bytes": rank.count() * size_of::<i32>(),
        "iterations": iterations,
        "batch": BATCH.min(iterations),
        "call_ns": quantiles(calls_ns),
        "each_ns": quantiles(each_ns),
    });
    rank.log("pace", pace)?;
    rank.expect("repeated allreduce", &sum, |i| sum_over(&ranks, i))
}

/// `values` must not be empty.
fn quantiles(mut values: Vec<u64>) -> serde_json::Value {
    values.sort_unstable();
    json!({
        "min": values.first(),
        "median": values.get(values.len() / 2),
        "mean": values.iter().sum::<u64>() / (values.len() as u64).max(1),
    })
}
