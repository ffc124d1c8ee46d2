//! Further communicators: split off the first one, used alone and at once.

use super::{collectives, messages};
use crate::calls::Call::{AllGather, AllReduce, Recv, Send};
use crate::cuda::Buffer;
use crate::nccl::Communicator;
use crate::nccl::Reduction::Sum;
use crate::pattern::{UNTOUCHED, sum_over, value_of_rank};
use crate::rank::{Rank, Tally};
use anyhow::Context as _;

/// Who is in a communicator, and in which order.
#[derive(Clone, Copy)]
pub(super) enum Members {
    All,
    /// From four ranks on the even or the odd ones, as they are.
    Half,
    /// The same, in reverse order.
    HalfReversed,
}

impl Members {
    fn colors(self, ranks: usize) -> usize {
        match self {
            Members::Half | Members::HalfReversed if ranks >= 4 => 2,
            _ => 1,
        }
    }

    fn with(self, me: usize, ranks: usize) -> Vec<usize> {
        let colors = self.colors(ranks);
        let mut members: Vec<usize> = (0..ranks).filter(|r| r % colors == me % colors).collect();
        if matches!(self, Members::HalfReversed) {
            members.reverse();
        }
        members
    }
}

/// Splits a communicator off; its name is the same on all of its ranks.
pub(super) fn make(rank: &Rank<'_>, what: &str, members: Members) -> anyhow::Result<Communicator> {
    let (me, n) = (rank.me(), rank.ranks());
    let with = members.with(me, n);
    let position = with.iter().position(|r| *r == me).context("a member")?;
    let color = me % members.colors(n);
    let name = format!("{what}.{}.{color}", rank.round());
    let key = i32::try_from(position)?;
    let comm = rank.world.split(color, key, name, position, with.len())?;
    rank.log_communicator(&comm)?;
    Ok(comm)
}

/// An all-reduce in a communicator of the even or the odd ranks, in reverse order; below four ranks, of all ranks.
pub(super) fn split(rank: &Rank<'_>) -> anyhow::Result<()> {
    let members = Members::HalfReversed.with(rank.me(), rank.ranks());
    let comm = make(rank, "split", Members::HalfReversed)?;
    let x = rank.fill(rank.count(), |i| value_of_rank(rank.me(), i))?;
    let y = rank.fill(rank.count(), |_| UNTOUCHED)?;
    rank.call_on(&comm, AllReduce(Sum), &x.all(), &y.all())?;
    rank.expect("split: allreduce", &y, |i| sum_over(&members, i))?;
    comm.destroy()
}

/// All-reduces among the even ranks only: they call, and record, more than the others.
pub(super) fn uneven(rank: &Rank<'_>) -> anyhow::Result<()> {
    anyhow::ensure!(rank.ranks() >= 4, "uneven needs four ranks");
    let comm = make(rank, "uneven", Members::HalfReversed)?;
    let x = rank.fill(rank.count(), |i| value_of_rank(rank.me(), i))?;
    let y = rank.fill(rank.count(), |_| UNTOUCHED)?;
    if rank.me().is_multiple_of(2) {
        for _ in 0..UNEVEN {
            rank.call_on(&comm, AllReduce(Sum), &x.all(), &y.all())?;
            rank.stream.synchronize()?;
        }
    }
    comm.destroy()
}

/// So many calls that records differ by a part of what a thread keeps in a flight recording.
const UNEVEN: usize = 500;

struct Pending<'r> {
    rank: &'r Rank<'r>,
    x: Buffer<'r, i32>,
    sum: Buffer<'r, i32>,
    gathered: Buffer<'r, i32>,
    received: Buffer<'r, i32>,
}

impl<'r> Pending<'r> {
    fn new(rank: &'r Rank<'r>) -> anyhow::Result<Pending<'r>> {
        let (me, n, count) = (rank.me(), rank.ranks(), rank.count());
        Ok(Pending {
            rank,
            x: rank.fill(count, |i| value_of_rank(me, i))?,
            sum: rank.fill(count, |_| UNTOUCHED)?,
            gathered: rank.fill(count * n, |_| UNTOUCHED)?,
            received: rank.fill(count, |_| UNTOUCHED)?,
        })
    }

    fn start(&self, turn: usize) -> anyhow::Result<()> {
        let rank = self.rank;
        let (me, n) = (rank.me(), rank.ranks());
        match turn {
            0 => rank.call(AllReduce(Sum), &self.x.all(), &self.sum.all()),
            1 => rank.call(AllGather, &self.x.all(), &self.gathered.all()),
            _ => rank.group(|| {
                rank.call(Send((me + 1) % n), &self.x.all(), &self.x.all())?;
                rank.call(Recv((me + n - 1) % n), &self.received.all(), &self.received.all())
            }),
        }
    }

    fn expect(&self) -> anyhow::Result<()> {
        let rank = self.rank;
        let (me, n, count) = (rank.me(), rank.ranks(), rank.count());
        let (all, name) = ((0..n).collect::<Vec<_>>(), &rank.world.name);
        let what = |what: &str| format!("{name}: {what}");
        rank.expect(&what("allreduce"), &self.sum, |i| sum_over(&all, i))?;
        rank.expect(&what("allgather"), &self.gathered, |i| value_of_rank(i / count, i % count))?;
        rank.expect(&what("ring"), &self.received, |i| value_of_rank((me + n - 1) % n, i))
    }
}

/// The operations of three communicators alternate: each has a stream of its own, so that all are under way at once.
pub(super) fn alternating(rank: &Rank<'_>) -> anyhow::Result<()> {
    let twin = make(rank, "twin", Members::All)?;
    let half = make(rank, "half", Members::Half)?;
    let device = rank.stream.device;
    let (second, third) = (device.stream()?, device.stream()?);
    {
        let ranks = [
            rank.identity().on(rank.world, rank.stream),
            rank.identity().on(&twin, &second),
            rank.identity().on(&half, &third),
        ];
        let pending = ranks.iter().map(Pending::new).collect::<anyhow::Result<Vec<_>>>()?;
        for turn in 0..3 {
            for place in 0..pending.len() {
                pending[(turn + place) % pending.len()].start(turn)?;
            }
        }
        for operations in &pending {
            operations.expect()?;
            rank.add(operations.rank.tally());
        }
    }
    twin.destroy()?;
    half.destroy()
}

/// Each communicator is used, and destroyed, by a thread of its own; in which order, nobody says.
pub(super) fn by_threads(rank: &Rank<'_>) -> anyhow::Result<()> {
    let comms =
        [make(rank, "twin", Members::All)?, make(rank, "half", Members::Half)?, make(rank, "third", Members::All)?];
    let device = rank.stream.device;
    let all = |rank: &Rank<'_>| -> anyhow::Result<Tally> {
        collectives::all_reduce(rank)?;
        messages::ring(rank)?;
        collectives::all_gather(rank)?;
        Ok(rank.tally())
    };
    std::thread::scope(|scope| {
        let threads: Vec<_> = comms
            .into_iter()
            .map(|comm| {
                let identity = rank.identity();
                scope.spawn(move || {
                    let stream = device.stream()?;
                    let tally = all(&identity.on(&comm, &stream))?;
                    comm.destroy()?;
                    Ok(tally)
                })
            })
            .collect();
        all(rank)?;
        for thread in threads {
            let tally: anyhow::Result<Tally> =
                thread.join().map_err(|_| anyhow::anyhow!("a thread of the rank panicked"))?;
            rank.add(tally?);
        }
        Ok(())
    })
}

/// A second communicator of all ranks and one of the even or the odd ones, both used once; for the caller to end.
pub(crate) fn further_communicators(rank: &Rank<'_>) -> anyhow::Result<(Communicator, Communicator)> {
    let twin = make(rank, "twin", Members::All)?;
    let half = make(rank, "half", Members::Half)?;
    for comm in [&twin, &half] {
        let on = rank.identity().on(comm, rank.stream);
        collectives::one(&on)?;
        rank.add(on.tally());
    }
    Ok((twin, half))
}
