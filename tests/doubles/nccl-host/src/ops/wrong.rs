//! What goes wrong in real jobs, on purpose. `all` leaves these out.

use super::collectives;
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
