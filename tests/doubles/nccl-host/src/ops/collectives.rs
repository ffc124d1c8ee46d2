//! One collective at a time.

use crate::calls::Call::{AllGather, AllReduce, Broadcast, Reduce, ReduceScatter};
use crate::nccl::Reduction::{Avg, Max, Sum};
use crate::pattern::{UNTOUCHED, as_f32, sum_over, value_of_rank};
use crate::rank::Rank;
use std::ops::Range;

fn ranks(rank: &Rank<'_>) -> Vec<usize> {
    Range::collect(0..rank.ranks())
}

pub(super) fn one(rank: &Rank<'_>) -> anyhow::Result<()> {
    let (me, ranks) = (rank.me(), ranks(rank));
    let x = rank.fill(rank.count(), |i| as_f32(value_of_rank(me, i)))?;
    rank.call(AllReduce(Sum), &x.all(), &x.all())?;
    rank.expect("allreduce f32 sum in place", &x, |i| as_f32(sum_over(&ranks, i)))
}

pub(super) fn all_reduce(rank: &Rank<'_>) -> anyhow::Result<()> {
    let (me, n, ranks) = (rank.me(), rank.ranks(), ranks(rank));

    let x = rank.fill(rank.count(), |i| as_f32(value_of_rank(me, i)))?;
    let y = rank.fill(rank.count(), |_| as_f32(UNTOUCHED))?;
    rank.call(AllReduce(Sum), &x.all(), &y.all())?;
    rank.expect("allreduce f32 sum", &y, |i| as_f32(sum_over(&ranks, i)))?;

    let x = rank.fill(rank.count(), |i| value_of_rank(me, i))?;
    rank.call(AllReduce(Max), &x.all(), &x.all())?;
    rank.expect("allreduce i32 max in place", &x, |i| value_of_rank(n - 1, i))?;

    // Times the number of ranks, so that the average is a whole number.
    let factor = i32::try_from(n)?;
    let x = rank.fill(5, |i| as_f32(value_of_rank(me, i) * factor))?;
    rank.call(AllReduce(Avg), &x.all(), &x.all())?;
    rank.expect("allreduce f32 average of 5", &x, |i| as_f32(sum_over(&ranks, i)))
}

pub(super) fn broadcast(rank: &Rank<'_>) -> anyhow::Result<()> {
    let (me, root) = (rank.me(), rank.ranks() - 1);
    let x = rank.fill(rank.count(), |i| value_of_rank(me, i))?;
    let y = rank.fill(rank.count(), |_| UNTOUCHED)?;
    rank.call(Broadcast(root), &x.all(), &y.all())?;
    rank.expect("broadcast", &y, |i| value_of_rank(root, i))
}

pub(super) fn reduce(rank: &Rank<'_>) -> anyhow::Result<()> {
    let (me, root, ranks) = (rank.me(), 0, ranks(rank));
    let x = rank.fill(rank.count(), |i| value_of_rank(me, i))?;
    let y = rank.fill(rank.count(), |_| UNTOUCHED)?;
    rank.call(Reduce(Sum, root), &x.all(), &y.all())?;
    rank.expect("reduce", &y, |i| if me == root { sum_over(&ranks, i) } else { UNTOUCHED })
}

pub(super) fn all_gather(rank: &Rank<'_>) -> anyhow::Result<()> {
    let (me, count) = (rank.me(), rank.count());
    let x = rank.fill(count, |i| value_of_rank(me, i))?;
    let y = rank.fill(count * rank.ranks(), |_| UNTOUCHED)?;
    rank.call(AllGather, &x.all(), &y.all())?;
    rank.expect("allgather", &y, |i| value_of_rank(i / count, i % count))
}

pub(super) fn reduce_scatter(rank: &Rank<'_>) -> anyhow::Result<()> {
    let (me, count, ranks) = (rank.me(), rank.count(), ranks(rank));
    let x = rank.fill(count * rank.ranks(), |i| value_of_rank(me, i))?;
    let y = rank.fill(count, |_| UNTOUCHED)?;
    rank.call(ReduceScatter(Sum), &x.all(), &y.all())?;
    rank.expect("reducescatter", &y, |i| sum_over(&ranks, i + me * count))
}
