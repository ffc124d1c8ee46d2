//! Several calls together: groups and graphs.

use crate::calls::Call::{AllGather, AllReduce, Broadcast, Recv, Send};
use crate::nccl::Reduction::{Max, Sum};
use crate::pattern::{UNTOUCHED, sum_over, value_of_rank};
use crate::rank::{GRAPH_LAUNCHES, Rank};

pub(super) fn group(rank: &Rank<'_>) -> anyhow::Result<()> {
    let (me, n, count) = (rank.me(), rank.ranks(), rank.count());
    let ranks: Vec<usize> = (0..n).collect();
    let half = count / 2;
    let x = rank.fill(count, |i| value_of_rank(me, i))?;
    let sum = rank.fill(count, |_| UNTOUCHED)?;
    let max = rank.fill(half, |_| UNTOUCHED)?;
    let gathered = rank.fill(count * n, |_| UNTOUCHED)?;
    rank.group(|| {
        rank.call(AllReduce(Sum), &x.all(), &sum.all())?;
        rank.call(AllReduce(Max), &x.part(0..half)?, &max.all())?;
        rank.call(AllGather, &x.all(), &gathered.all())
    })?;
    rank.expect("group: allreduce sum", &sum, |i| sum_over(&ranks, i))?;
    rank.expect("group: allreduce max", &max, |i| value_of_rank(n - 1, i))?;
    rank.expect("group: allgather", &gathered, |i| value_of_rank(i / count, i % count))
}

/// An all-reduce in place and a ring of messages, captured once and launched several times.
pub(super) fn graph(rank: &Rank<'_>) -> anyhow::Result<()> {
    let (me, n) = (rank.me(), rank.ranks());
    let (next, previous) = ((me + 1) % n, (me + n - 1) % n);
    let x = rank.fill(rank.count(), |_| 1_i32)?;
    let y = rank.fill(rank.count(), |_| UNTOUCHED)?;
    let graph = rank.capture(|| {
        rank.call(AllReduce(Sum), &x.all(), &x.all())?;
        rank.group(|| {
            rank.call(Send(next), &x.all(), &x.all())?;
            rank.call(Recv(previous), &y.all(), &y.all())
        })
    })?;
    rank.expect("graph: nothing runs during the capture", &x, |_| 1)?;
    let mut power = 1_i32;
    for _ in 0..GRAPH_LAUNCHES {
        graph.launch()?;
        // Wraps like the device's own sums do.
        power = power.wrapping_mul(i32::try_from(n)?);
    }
    rank.expect("graph: allreduce", &x, |_| power)?;
    rank.expect("graph: send/recv ring", &y, |_| power)
}

pub(super) fn broadcasts(rank: &Rank<'_>) -> anyhow::Result<()> {
    let (me, n, count) = (rank.me(), rank.ranks(), rank.count());
    let x = rank.fill(count, |i| value_of_rank(me, i))?;
    let y = rank.fill(count * n, |_| UNTOUCHED)?;
    rank.group(|| {
        for root in 0..n {
            rank.call(Broadcast(root), &x.all(), &y.part(root * count..(root + 1) * count)?)?;
        }
        Ok(())
    })?;
    rank.expect("grouped broadcasts", &y, |i| value_of_rank(i / count, i % count))
}
