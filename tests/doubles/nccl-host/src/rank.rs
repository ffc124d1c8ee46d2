//! One rank: its communicator and stream, the calls it makes and what it counts.
//!
//! Every NCCL operation goes through here: it is in the log before NCCL sees it. One thread uses a rank.

use crate::call_log::CallLog;
use crate::calls::Call;
use crate::cuda::{Buffer, DeviceSlice, Graph, Stream};
use crate::nccl::{Communicator, Element, Nccl, Version};
use crate::ranges::Ranges;
use serde_json::json;
use std::cell::Cell;
use std::ops::AddAssign;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) nccl: &'static Nccl,
    pub(crate) version: Version,
    pub(crate) log: CallLog,
    pub(crate) ranges: Ranges,
    pub(crate) exact: bool,
    pub(crate) count: usize,
    pub(crate) iterations: u64,
    pub(crate) pause: Duration,
}

#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct Tally {
    pub(crate) calls: u64,
    pub(crate) results_checked: u64,
    pub(crate) results_wrong: u64,
    pub(crate) proxy_ops: u64,
}

impl AddAssign for Tally {
    fn add_assign(&mut self, other: Self) {
        self.calls += other.calls;
        self.results_checked += other.results_checked;
        self.results_wrong += other.results_wrong;
        self.proxy_ops += other.proxy_ops;
    }
}

/// How often a captured graph is launched.
pub(crate) const GRAPH_LAUNCHES: u64 = 3;

#[derive(Debug)]
pub(crate) struct Rank<'r> {
    pub(crate) shared: &'static Shared,
    /// The communicator of all ranks, or the one whose ranks this is about ([`RankIdentity`]).
    pub(crate) world: &'r Communicator,
    pub(crate) stream: &'r Stream,
    identity: RankIdentity,
    group: Cell<Option<u64>>,
    captured: Cell<bool>,
    tally: Cell<Tally>,
}

/// What stays the same when a rank works on another communicator, or on another thread.
#[derive(Debug, Clone)]
pub(crate) struct RankIdentity {
    shared: &'static Shared,
    rank: usize,
    round: Cell<u64>,
    groups: Arc<AtomicU64>,
}

impl RankIdentity {
    /// The same rank, on a communicator that may have another number for it.
    pub(crate) fn on<'r>(self, comm: &'r Communicator, stream: &'r Stream) -> Rank<'r> {
        Rank {
            shared: self.shared,
            world: comm,
            stream,
            identity: self,
            group: Cell::new(None),
            captured: Cell::new(false),
            tally: Cell::default(),
        }
    }
}

impl<'r> Rank<'r> {
    pub(crate) fn new(shared: &'static Shared, world: &'r Communicator, stream: &'r Stream) -> Rank<'r> {
        let identity = RankIdentity { shared, rank: world.rank, round: Cell::new(0), groups: Arc::default() };
        identity.on(world, stream)
    }

    /// For work of this rank elsewhere; [`Rank::add`] adds its tally.
    pub(crate) fn identity(&self) -> RankIdentity {
        self.identity.clone()
    }

    pub(crate) fn add(&self, other: Tally) {
        self.count_up(|tally| *tally += other);
    }

    pub(crate) fn me(&self) -> usize {
        self.world.rank
    }

    pub(crate) fn ranks(&self) -> usize {
        self.world.ranks
    }

    pub(crate) fn count(&self) -> usize {
        self.shared.count
    }

    pub(crate) fn round(&self) -> u64 {
        self.identity.round.get()
    }

    pub(crate) fn set_round(&self, round: u64) {
        self.identity.round.set(round);
    }

    pub(crate) fn tally(&self) -> Tally {
        self.tally.get()
    }

    fn count_up(&self, change: impl FnOnce(&mut Tally)) {
        let mut tally = self.tally.get();
        change(&mut tally);
        self.tally.set(tally);
    }

    pub(crate) fn fill<T: Element>(&self, len: usize, value: impl Fn(usize) -> T) -> anyhow::Result<Buffer<'r, T>> {
        Buffer::fill(self.stream, len, value)
    }

    pub(crate) fn expect<T: Element>(
        &self,
        what: &str,
        got: &Buffer<'_, T>,
        want: impl Fn(usize) -> T,
    ) -> anyhow::Result<()> {
        self.stream.synchronize()?;
        let got = got.read()?;
        self.count_up(|t| t.results_checked += 1);
        let differs = |(i, value): &(usize, &T)| **value != want(*i);
        if let Some((i, value)) = got.iter().enumerate().find(differs) {
            let wrong = got.iter().enumerate().filter(differs).count();
            self.count_up(|t| t.results_wrong += 1);
            eprintln!(
                "rank {}: WRONG {what}: {wrong} of {} elements, [{i}] = {value:?}, want {:?}",
                self.identity.rank,
                got.len(),
                want(i)
            );
        }
        Ok(())
    }

    pub(crate) fn group(&self, calls: impl FnOnce() -> anyhow::Result<()>) -> anyhow::Result<()> {
        self.group.set(Some(self.identity.groups.fetch_add(1, Ordering::Relaxed)));
        self.shared.nccl.group_start()?;
        calls()?;
        self.shared.nccl.group_end(self.world)?;
        self.group.set(None);
        Ok(())
    }

    /// Captures calls into a graph that will be launched [`GRAPH_LAUNCHES`] times.
    pub(crate) fn capture(&self, calls: impl FnOnce() -> anyhow::Result<()>) -> anyhow::Result<Graph<'r>> {
        self.captured.set(true);
        let graph = self.stream.capture(calls)?;
        self.captured.set(false);
        Ok(graph)
    }

    pub(crate) fn log(&self, kind: &str, mut line: serde_json::Value) -> anyhow::Result<()> {
        line["rank"] = self.identity.rank.into();
        line["round"] = self.round().into();
        self.shared.log.write(kind, || line)
    }

    pub(crate) fn log_communicator(&self, comm: &Communicator) -> anyhow::Result<()> {
        let (rank, ranks) = (comm.rank, comm.ranks);
        self.log("communicator", json!({"comm": comm.name, "comm_rank": rank, "comm_ranks": ranks}))
    }

    fn log_call<T: Element>(&self, comm: &Communicator, call: Call, count: usize, exact: bool) -> anyhow::Result<()> {
        let captured = self.captured.get();
        let launches = if captured { GRAPH_LAUNCHES } else { 1 };
        let proxy_ops = exact.then(|| launches * call.proxy_ops(comm.rank, comm.ranks));
        self.count_up(|t| {
            t.calls += 1;
            t.proxy_ops += proxy_ops.unwrap_or(0);
        });
        let line = json!({
            "comm": comm.name,
            "comm_rank": comm.rank,
            "comm_ranks": comm.ranks,
            "op": call.name(),
            "count": count,
            "datatype": T::NAME,
            "bytes": count * size_of::<T>(),
            "root": call.root(),
            "peer": call.peer(),
            "group": self.group.get(),
            "captured": captured,
            "launches": launches,
            "proxy_ops": proxy_ops,
        });
        self.log("call", line)
    }

    pub(crate) fn call<T: Element>(
        &self,
        call: Call,
        send: &DeviceSlice<'_, T>,
        recv: &DeviceSlice<'_, T>,
    ) -> anyhow::Result<()> {
        self.call_on(self.world, call, send, recv)
    }

    pub(crate) fn call_on<T: Element>(
        &self,
        comm: &Communicator,
        call: Call,
        send: &DeviceSlice<'_, T>,
        recv: &DeviceSlice<'_, T>,
    ) -> anyhow::Result<()> {
        let count = call.count(send.len(), recv.len());
        self.log_call::<T>(comm, call, count, self.shared.exact)?;
        comm.call(call, send, recv, self.stream)
    }

    /// A call that no other rank joins: its number of proxy operations is not known.
    pub(crate) fn call_alone<T: Element>(&self, call: Call, data: &DeviceSlice<'_, T>) -> anyhow::Result<()> {
        self.log_call::<T>(self.world, call, data.len(), false)?;
        self.world.call(call, data, data, self.stream)
    }

    /// The same call again and again, counted but not logged each: that would be slower than they are.
    pub(crate) fn repeat<T: Element>(
        &self,
        times: u64,
        call: Call,
        send: &DeviceSlice<'_, T>,
        recv: &DeviceSlice<'_, T>,
    ) -> anyhow::Result<()> {
        for _ in 0..times {
            self.world.call(call, send, recv, self.stream)?;
        }
        let each = call.proxy_ops(self.world.rank, self.world.ranks);
        self.count_up(|t| {
            t.calls += times;
            t.proxy_ops += if self.shared.exact { times * each } else { 0 };
        });
        Ok(())
    }
}
