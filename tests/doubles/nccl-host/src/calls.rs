//! NCCL's operations: what each passes, and how many network proxy operations it causes.

use crate::cuda::{DeviceSlice, Stream};
use crate::nccl::{Communicator, Element, Reduction, int};
use anyhow::Context as _;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Call {
    AllReduce(Reduction),
    Broadcast(usize),
    Reduce(Reduction, usize),
    AllGather,
    ReduceScatter(Reduction),
    Send(usize),
    Recv(usize),
    /// So many elements to each rank.
    AllToAll(usize),
    Gather(usize),
    Scatter(usize),
}

impl Call {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Call::AllReduce(_) => "ncclAllReduce",
            Call::Broadcast(_) => "ncclBroadcast",
            Call::Reduce(..) => "ncclReduce",
            Call::AllGather => "ncclAllGather",
            Call::ReduceScatter(_) => "ncclReduceScatter",
            Call::Send(_) => "ncclSend",
            Call::Recv(_) => "ncclRecv",
            Call::AllToAll(_) => "ncclAlltoAll",
            Call::Gather(_) => "ncclGather",
            Call::Scatter(_) => "ncclScatter",
        }
    }

    pub(crate) fn root(self) -> Option<usize> {
        match self {
            Call::Broadcast(root) | Call::Reduce(_, root) | Call::Gather(root) | Call::Scatter(root) => Some(root),
            _ => None,
        }
    }

    pub(crate) fn peer(self) -> Option<usize> {
        match self {
            Call::Send(peer) | Call::Recv(peer) => Some(peer),
            _ => None,
        }
    }

    pub(crate) fn count(self, send: usize, recv: usize) -> usize {
        match self {
            Call::ReduceScatter(_) | Call::Scatter(_) | Call::Recv(_) => recv,
            Call::AllToAll(each) => each,
            _ => send,
        }
    }

    /// How many elements it reads and writes.
    pub(crate) fn extent(self, count: usize, ranks: usize) -> (usize, usize) {
        match self {
            Call::Send(_) => (count, 0),
            Call::Recv(_) => (0, count),
            Call::AllGather | Call::Gather(_) => (count, count * ranks),
            Call::ReduceScatter(_) | Call::Scatter(_) => (count * ranks, count),
            Call::AllToAll(_) => (count * ranks, count * ranks),
            _ => (count, count),
        }
    }

    /// Proxy operations on rank `me` of `n`, under the settings of [`crate::exact`]: one channel, one ring in the order
    /// of the ranks, each neighbour reached over the network; every send and every receive is one.
    pub(crate) fn proxy_ops(self, me: usize, n: usize) -> u64 {
        let others = n.saturating_sub(1);
        if others == 0 {
            return 0;
        }
        let (next, previous) = ((me + 1) % n, (me + n - 1) % n);
        let ops = match self {
            Call::AllReduce(_) | Call::AllGather | Call::ReduceScatter(_) => 2,
            // A chain from the root: it receives nothing, the rank before it sends nothing on.
            Call::Broadcast(root) => usize::from(me != root) + usize::from(next != root),
            // A chain to the root: the rank after it receives nothing, the root sends nothing on.
            Call::Reduce(_, root) => usize::from(previous != root) + usize::from(me != root),
            // Data for oneself is copied by the kernel.
            Call::Send(peer) | Call::Recv(peer) => usize::from(peer != me),
            Call::AllToAll(_) => 2 * others,
            Call::Gather(root) | Call::Scatter(root) if me == root => others,
            Call::Gather(_) | Call::Scatter(_) => 1,
        };
        ops as u64
    }
}

impl Communicator {
    pub(crate) fn call<T: Element>(
        &self,
        call: Call,
        send: &DeviceSlice<'_, T>,
        recv: &DeviceSlice<'_, T>,
        stream: &Stream,
    ) -> anyhow::Result<()> {
        let (name, n) = (call.name(), call.count(send.len(), recv.len()));
        let (reads, writes) = call.extent(n, self.ranks);
        anyhow::ensure!(
            send.len() >= reads && recv.len() >= writes,
            "{name}: buffers of {} and {} elements are too small for {reads} and {writes}",
            send.len(),
            recv.len()
        );
        let (entry, comm, s, r) = (&self.nccl.entry, self.raw, send.address(), recv.address());
        let (kind, stream) = (T::CODE, stream.raw());
        let newer = || format!("this NCCL has no {name}");
        macro_rules! made {
            ($function:expr, $($argument:expr),*) => {{
                let function = $function;
                // SAFETY: the handle is live (a communicator is consumed when it ends); NCCL reads and writes as many
                // elements as were checked above, in memory that is kept until the stream was waited for.
                unsafe { function($($argument,)* comm, stream) }
            }};
        }
        let code = match call {
            Call::AllReduce(op) => made!(entry.all_reduce, s, r, n, kind, op as i32),
            Call::Broadcast(root) => made!(entry.broadcast, s, r, n, kind, int(root)?),
            Call::Reduce(op, root) => made!(entry.reduce, s, r, n, kind, op as i32, int(root)?),
            Call::AllGather => made!(entry.all_gather, s, r, n, kind),
            Call::ReduceScatter(op) => made!(entry.reduce_scatter, s, r, n, kind, op as i32),
            Call::Send(peer) => made!(entry.send, s, n, kind, int(peer)?),
            Call::Recv(peer) => made!(entry.recv, r, n, kind, int(peer)?),
            Call::AllToAll(_) => made!(entry.all_to_all.with_context(newer)?, s, r, n, kind),
            Call::Gather(root) => {
                made!(entry.gather.with_context(newer)?, s, r, n, kind, int(root)?)
            }
            Call::Scatter(root) => made!(entry.scatter.with_context(newer)?, s, r, n, kind, int(root)?),
        };
        self.settle(name, code)
    }
}
