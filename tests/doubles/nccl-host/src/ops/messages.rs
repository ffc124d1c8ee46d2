//! Sends and receives, and the collectives that NCCL makes of them.

use crate::calls::Call::{AllToAll, Gather, Recv, Scatter, Send};
use crate::pattern::{UNTOUCHED, message, value_of_rank};
use crate::rank::Rank;
use anyhow::ensure;

pub(super) fn ring(rank: &Rank<'_>) -> anyhow::Result<()> {
    let (me, n) = (rank.me(), rank.ranks());
    let (next, previous) = ((me + 1) % n, (me + n - 1) % n);
    let x = rank.fill(rank.count(), |i| value_of_rank(me, i))?;
    let y = rank.fill(rank.count(), |_| UNTOUCHED)?;
    rank.group(|| {
        rank.call(Send(next), &x.all(), &x.all())?;
        rank.call(Recv(previous), &y.all(), &y.all())
    })?;
    rank.expect("send/recv ring", &y, |i| value_of_rank(previous, i))
}

fn each(rank: &Rank<'_>) -> usize {
    rank.count() / rank.ranks() + 1
}

pub(super) fn all_to_all(rank: &Rank<'_>) -> anyhow::Result<()> {
    let (me, n, each) = (rank.me(), rank.ranks(), each(rank));
    let x = rank.fill(each * n, |i| message(me, i / each))?;
    let y = rank.fill(each * n, |_| UNTOUCHED)?;
    rank.group(|| {
        for peer in 0..n {
            let part = peer * each..(peer + 1) * each;
            let (from, to) = (x.part(part.clone())?, y.part(part)?);
            rank.call(Send(peer), &from, &from)?;
            rank.call(Recv(peer), &to, &to)?;
        }
        Ok(())
    })?;
    rank.expect("all-to-all of send/recv", &y, |i| message(i / each, me))
}

pub(super) fn calls_of_2_28(rank: &Rank<'_>) -> anyhow::Result<()> {
    ensure!(
        rank.shared.nccl.has_calls_of_2_28(),
        "NCCL {} has no ncclAlltoAll, ncclGather and ncclScatter",
        rank.shared.version
    );
    let (me, n, each, root) = (rank.me(), rank.ranks(), each(rank), 0);
    let x = rank.fill(each * n, |i| message(me, i / each))?;
    let y = rank.fill(each * n, |_| UNTOUCHED)?;
    rank.call(AllToAll(each), &x.all(), &y.all())?;
    rank.expect("ncclAlltoAll", &y, |i| message(i / each, me))?;

    let gathered = rank.fill(each * n, |_| UNTOUCHED)?;
    rank.call(Gather(root), &x.part(0..each)?, &gathered.all())?;
    rank.expect("ncclGather", &gathered, |i| if me == root { message(i / each, 0) } else { UNTOUCHED })?;

    let scattered = rank.fill(each, |_| UNTOUCHED)?;
    rank.call(Scatter(root), &x.all(), &scattered.all())?;
    rank.expect("ncclScatter", &scattered, |_| message(root, me))
}
