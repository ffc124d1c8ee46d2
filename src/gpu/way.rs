//! What the ways to time GPU work have in common: when they are called, and where what they find out goes.

use std::time::{Duration, Instant};

use super::devices::Place;
use nccl_events::Name;
use nccl_events::gpu::GpuCount;
use nccl_events::gpu::{GpuRecord, Way};
use nccl_events::id::EventId;

/// What NCCL is about to give to a stream.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Launch {
    /// The event that NCCL started for it. Of kind KernelLaunch, or CeColl: then copy engines do the work.
    pub(crate) id: EventId,
    /// The stream's handle; 0 is the default stream. 0 too where NCCL does not say.
    pub(crate) stream: u64,
}

/// A way to learn when GPU work ran.
pub(crate) trait Timing: Send + Sync {
    /// On the worker thread, which the thread that makes a communicator waits for, though not for long.
    fn communicator_begins(&self, _communicator: u64, _place: Place, _out: &mut dyn Output) {}

    /// On the worker thread, which the thread that ends a communicator waits for until shortly after `deadline`: what
    /// was made on its device must not be touched when the last one there has ended.
    fn communicator_ends(&self, _communicator: u64, _out: &mut dyn Output, _deadline: Instant) {}

    /// On the launching thread, just before the launch. No lock of ours is held; must not take one, allocate once
    /// warm, log or panic.
    fn begins(&self, launch: Launch);

    /// On the thread that stops the event, as [`Self::begins`]. Where that is another than the one that began it,
    /// nothing may be done but counting.
    fn ends(&self, id: EventId);

    /// On the worker thread, as often as [`Self::pace`] says: what has become known.
    fn collect(&self, out: &mut dyn Output);

    /// How long the worker sleeps until it asks again.
    fn pace(&self) -> Duration {
        Duration::from_millis(500)
    }

    /// On the worker thread, once, as its last, when no event is recorded any more: what can still be had before
    /// `deadline`. The thread that closes the session waits until shortly after that, and then goes on without.
    /// Nothing of CUDA's or CUPTI's may be called after it.
    fn finish(&self, out: &mut dyn Output, deadline: Instant);
}

/// Where it goes: to the worker's own slot of the journal; devices, clocks, counts and notices to the maintenance's,
/// which flight recordings keep.
pub(crate) trait Output {
    /// Records it at `ticks`; what `id` is says [`GpuRecord`].
    fn record(&mut self, ticks: u64, id: u64, record: &GpuRecord<Name<'_>>);

    /// Adds to a counter.
    fn count(&mut self, count: GpuCount, more: u64);

    /// Says a line, in the log and in the archive: `way` is how GPUs are recorded from now on.
    fn notice(&mut self, way: Way, text: &str);

    /// The same as a warning: something went wrong.
    fn fault(&mut self, way: Way, text: &str);
}
