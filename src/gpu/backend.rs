//! The interface of the timing backends (CUPTI, CUDA events): when they are called, and where their records go.

use std::time::{Duration, Instant};

use super::driver::DeviceContext;
use nccl_events::Name;
use nccl_events::gpu::{Backend as BackendKind, GpuCount, GpuRecord};
use nccl_events::ids::EventId;

#[derive(Clone, Copy, Debug)]
pub(crate) struct Launch {
    /// NCCL's event: a KernelLaunch, or a CeColl, which copy engines execute.
    pub(crate) id: EventId,
    /// The stream's handle; 0 for the default stream, or if NCCL does not report the stream.
    pub(crate) stream: u64,
}

pub(crate) trait Backend: Send + Sync {
    /// On the worker thread. The thread that makes a communicator waits for this call, for a bounded time.
    fn communicator_begins(&self, _communicator: u64, _device: DeviceContext, _out: &mut dyn Output) {}

    /// On the worker thread. The thread that destroys a communicator waits, until shortly after `deadline`. After a
    /// device's last communicator has ended, the backend must not touch anything that it made there.
    fn communicator_ends(&self, _communicator: u64, _out: &mut dyn Output, _deadline: Instant) {}

    /// On the launching thread, just before the launch. Must not lock, log, panic, or allocate after warm-up.
    fn begins(&self, launch: Launch);

    /// As [`Self::begins`], on the thread that stops the event. Another thread's event may only be counted.
    fn ends(&self, id: EventId);

    /// On the worker thread, once in every [`Self::pace`]: records the results available so far.
    fn collect(&self, out: &mut dyn Output);

    /// How long the worker sleeps between two calls of [`Self::collect`].
    fn pace(&self) -> Duration {
        Duration::from_millis(500)
    }

    /// On the worker thread, as the last call, when recording has ended: records what becomes available before
    /// `deadline`. The thread that closes the session waits until shortly after the deadline. After this call the
    /// backend must not call CUDA or CUPTI.
    fn finish(&self, out: &mut dyn Output, deadline: Instant);
}

/// The destination of records: the worker's slot of the journal. Devices, clocks, counts and notices go to the
/// maintenance thread's slot, which flight recordings keep.
pub(crate) trait Output {
    /// Writes a record at `ticks`; [`GpuRecord`] documents the meaning of `id`.
    fn record(&mut self, ticks: u64, id: u64, record: &GpuRecord<Name<'_>>);

    fn count(&mut self, count: GpuCount, more: u64);

    /// Writes a line to the log and to the archive. `backend` is in use from now on.
    fn notice(&mut self, backend: BackendKind, text: &str);

    /// As [`Self::notice`], but as a warning: something went wrong.
    fn fault(&mut self, backend: BackendKind, text: &str);
}
