//! The operations on a communicator.
//!
//! One safety argument for all of them: the handle is live (a [`Communicator`] is consumed when it ends), the
//! device addresses come from [`DeviceSlice`]s whose lengths were checked against what NCCL will access, and the
//! memory behind them is kept until the stream has been waited for (`cuda::Buffer`, which also says why).

use super::{Communicator, DeviceSlice, Element, Reduction, ensure_len, int};
use crate::cuda::Stream;
use anyhow::Context as _;

type Outcome = anyhow::Result<()>;

impl Communicator {
    /// Every rank gets the reduction over all ranks of as many elements as `send` has.
    pub(crate) fn all_reduce<T: Element>(
        &self,
        send: &DeviceSlice<'_, T>,
        recv: &DeviceSlice<'_, T>,
        op: Reduction,
        stream: &Stream,
    ) -> Outcome {
        const CALL: &str = "ncclAllReduce";
        ensure_len(CALL, recv, send.len())?;
        let (s, r, n) = (send.address(), recv.address(), send.len());
        // SAFETY: see the head of this module; reads and writes `send.len()` elements.
        let code = unsafe {
            (self.nccl.entry.all_reduce)(s, r, n, T::CODE, op as i32, self.raw, stream.raw())
        };
        self.settle(CALL, code)
    }

    /// Every rank gets what the root has in `send`.
    pub(crate) fn broadcast<T: Element>(
        &self,
        send: &DeviceSlice<'_, T>,
        recv: &DeviceSlice<'_, T>,
        root: usize,
        stream: &Stream,
    ) -> Outcome {
        const CALL: &str = "ncclBroadcast";
        ensure_len(CALL, recv, send.len())?;
        let (s, r, n, root) = (send.address(), recv.address(), send.len(), int(root)?);
        // SAFETY: see the head of this module; reads and writes `send.len()` elements.
        let code =
            unsafe { (self.nccl.entry.broadcast)(s, r, n, T::CODE, root, self.raw, stream.raw()) };
        self.settle(CALL, code)
    }

    /// The root gets the reduction over all ranks.
    pub(crate) fn reduce<T: Element>(
        &self,
        send: &DeviceSlice<'_, T>,
        recv: &DeviceSlice<'_, T>,
        op: Reduction,
        root: usize,
        stream: &Stream,
    ) -> Outcome {
        const CALL: &str = "ncclReduce";
        ensure_len(CALL, recv, send.len())?;
        let (s, r, n, root) = (send.address(), recv.address(), send.len(), int(root)?);
        // SAFETY: see the head of this module; reads and writes `send.len()` elements.
        let code = unsafe {
            (self.nccl.entry.reduce)(s, r, n, T::CODE, op as i32, root, self.raw, stream.raw())
        };
        self.settle(CALL, code)
    }

    /// Every rank gets the `send` of all ranks, one after the other.
    pub(crate) fn all_gather<T: Element>(
        &self,
        send: &DeviceSlice<'_, T>,
        recv: &DeviceSlice<'_, T>,
        stream: &Stream,
    ) -> Outcome {
        const CALL: &str = "ncclAllGather";
        ensure_len(CALL, recv, send.len() * self.ranks)?;
        let (s, r, n) = (send.address(), recv.address(), send.len());
        // SAFETY: see the head of this module; reads `send.len()`, writes that many for each rank.
        let code =
            unsafe { (self.nccl.entry.all_gather)(s, r, n, T::CODE, self.raw, stream.raw()) };
        self.settle(CALL, code)
    }

    /// Every rank gets its part, as long as `recv`, of the reduction over all ranks.
    pub(crate) fn reduce_scatter<T: Element>(
        &self,
        send: &DeviceSlice<'_, T>,
        recv: &DeviceSlice<'_, T>,
        op: Reduction,
        stream: &Stream,
    ) -> Outcome {
        const CALL: &str = "ncclReduceScatter";
        ensure_len(CALL, send, recv.len() * self.ranks)?;
        let (s, r, n) = (send.address(), recv.address(), recv.len());
        // SAFETY: see the head of this module; reads `recv.len()` for each rank, writes `recv.len()`.
        let code = unsafe {
            (self.nccl.entry.reduce_scatter)(s, r, n, T::CODE, op as i32, self.raw, stream.raw())
        };
        self.settle(CALL, code)
    }

    /// Sends to one rank.
    pub(crate) fn send<T: Element>(
        &self,
        data: &DeviceSlice<'_, T>,
        peer: usize,
        stream: &Stream,
    ) -> Outcome {
        let (p, n, peer) = (data.address(), data.len(), int(peer)?);
        // SAFETY: see the head of this module; reads `data.len()` elements.
        let code = unsafe { (self.nccl.entry.send)(p, n, T::CODE, peer, self.raw, stream.raw()) };
        self.settle("ncclSend", code)
    }

    /// Receives from one rank.
    pub(crate) fn recv<T: Element>(
        &self,
        data: &DeviceSlice<'_, T>,
        peer: usize,
        stream: &Stream,
    ) -> Outcome {
        let (p, n, peer) = (data.address(), data.len(), int(peer)?);
        // SAFETY: see the head of this module; writes `data.len()` elements.
        let code = unsafe { (self.nccl.entry.recv)(p, n, T::CODE, peer, self.raw, stream.raw()) };
        self.settle("ncclRecv", code)
    }

    /// Every rank sends `count` elements to each rank.
    pub(crate) fn all_to_all<T: Element>(
        &self,
        send: &DeviceSlice<'_, T>,
        recv: &DeviceSlice<'_, T>,
        count: usize,
        stream: &Stream,
    ) -> Outcome {
        const CALL: &str = "ncclAlltoAll";
        let call = self
            .nccl
            .entry
            .all_to_all
            .context("this NCCL has no ncclAlltoAll")?;
        ensure_len(CALL, send, count * self.ranks)?;
        ensure_len(CALL, recv, count * self.ranks)?;
        // SAFETY: see the head of this module; reads and writes `count` elements for each rank.
        let code = unsafe {
            call(
                send.address(),
                recv.address(),
                count,
                T::CODE,
                self.raw,
                stream.raw(),
            )
        };
        self.settle(CALL, code)
    }

    /// The root gets the `send` of all ranks, one after the other.
    pub(crate) fn gather<T: Element>(
        &self,
        send: &DeviceSlice<'_, T>,
        recv: &DeviceSlice<'_, T>,
        root: usize,
        stream: &Stream,
    ) -> Outcome {
        const CALL: &str = "ncclGather";
        let call = self
            .nccl
            .entry
            .gather
            .context("this NCCL has no ncclGather")?;
        ensure_len(CALL, recv, send.len() * self.ranks)?;
        let (s, r, n, root) = (send.address(), recv.address(), send.len(), int(root)?);
        // SAFETY: see the head of this module; reads `send.len()`, writes that many for each rank.
        let code = unsafe { call(s, r, n, T::CODE, root, self.raw, stream.raw()) };
        self.settle(CALL, code)
    }

    /// Every rank gets its part of the root's `send`.
    pub(crate) fn scatter<T: Element>(
        &self,
        send: &DeviceSlice<'_, T>,
        recv: &DeviceSlice<'_, T>,
        root: usize,
        stream: &Stream,
    ) -> Outcome {
        const CALL: &str = "ncclScatter";
        let call = self
            .nccl
            .entry
            .scatter
            .context("this NCCL has no ncclScatter")?;
        ensure_len(CALL, send, recv.len() * self.ranks)?;
        let (s, r, n, root) = (send.address(), recv.address(), recv.len(), int(root)?);
        // SAFETY: see the head of this module; reads `recv.len()` for each rank, writes `recv.len()`.
        let code = unsafe { call(s, r, n, T::CODE, root, self.raw, stream.raw()) };
        self.settle(CALL, code)
    }
}
