//! What goes wrong in real jobs, on purpose. `all` leaves these out.

use super::{collectives, communicators};
use crate::calls::Call::{AllReduce, Broadcast};
use crate::nccl::Reduction::Sum;
use crate::nccl::{CommOptions, Communicator, UniqueId};
use crate::pattern::{UNTOUCHED, as_f32, value_of_rank};
use crate::rank::Rank;
use anyhow::Context as _;
use std::time::Duration;

const LATE: Duration = Duration::from_millis(200);

/// So few elements that NCCL takes its protocol for small messages.
const FEW: usize = 8;

fn last(rank: &Rank<'_>) -> usize {
    rank.ranks() - 1
}

pub(super) fn late(rank: &Rank<'_>) -> anyhow::Result<()> {
    if rank.me() == last(rank) {
        std::thread::sleep(LATE);
    }
    collectives::one(rank)
}

pub(super) fn pause(rank: &Rank<'_>) -> anyhow::Result<()> {
    if rank.me() == last(rank) {
        std::thread::sleep(rank.shared.pause);
    }
    Ok(())
}

/// An all-reduce where the last rank has but a few elements, for which NCCL takes another protocol: it does not end.
pub(super) fn mismatch(rank: &Rank<'_>) -> anyhow::Result<()> {
    let count = if rank.me() == last(rank) { FEW } else { rank.count() };
    let x = rank.fill(count, |i| as_f32(value_of_rank(rank.me(), i)))?;
    rank.call(AllReduce(Sum), &x.all(), &x.all())?;
    rank.stream.synchronize()
}

/// An all-reduce in each of two communicators, one by one; the last rank has the other order. It does not end.
pub(super) fn crossed(rank: &Rank<'_>) -> anyhow::Result<()> {
    let comm = communicators::make(rank, "crossed", communicators::Members::All)?;
    let x = rank.fill(rank.count(), |_| 1.0_f32)?;
    let order = if rank.me() == last(rank) { [&comm, rank.world] } else { [rank.world, &comm] };
    for comm in order {
        rank.call_on(comm, AllReduce(Sum), &x.all(), &x.all())?;
        rank.stream.synchronize()?;
    }
    comm.destroy()
}

/// The last rank sleeps; the one before it waits for it in a second communicator; the others wait for that one in
/// the first. It does not end.
pub(super) fn chain(rank: &Rank<'_>) -> anyhow::Result<()> {
    let (me, n) = (rank.me(), rank.ranks());
    let pair = usize::from(me + 2 >= n);
    let (position, size) = if pair == 1 { ((me + 2).saturating_sub(n), n.min(2)) } else { (me, n - 2) };
    let name = format!("chain.{}.{pair}", rank.round());
    let key = i32::try_from(me)?;
    let comm = rank.world.split(pair, key, name, position, size)?;
    rank.log_communicator(&comm)?;
    let x = rank.fill(rank.count(), |_| 1.0_f32)?;
    if me == last(rank) {
        std::thread::sleep(Duration::from_secs(3600));
    }
    if pair == 1 {
        rank.call_on(&comm, AllReduce(Sum), &x.all(), &x.all())?;
        rank.stream.synchronize()?;
    }
    rank.call(AllReduce(Sum), &x.all(), &x.all())?;
    rank.stream.synchronize()?;
    comm.destroy()
}

/// A second communicator of all ranks, made like the first one; the last rank does not join it. It does not end.
pub(super) fn init(rank: &Rank<'_>) -> anyhow::Result<()> {
    let (me, n, nccl) = (rank.me(), rank.ranks(), rank.world.nccl);
    let id = nccl.unique_id()?;
    let x = rank.fill(id.bytes().len(), |i| i32::from(id.bytes()[i]))?;
    let y = rank.fill(id.bytes().len(), |_| UNTOUCHED)?;
    rank.call(Broadcast(0), &x.all(), &y.all())?;
    let id: Vec<u8> = y.read()?.into_iter().map(u8::try_from).collect::<Result<_, _>>()?;
    let id = UniqueId::from_bytes(&id).context("an id")?;
    if me == last(rank) {
        std::thread::sleep(Duration::from_secs(3600));
    }
    Communicator::init_rank(nccl, id, me, n, CommOptions::default())?.destroy()
}
