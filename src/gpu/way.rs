//! What the ways to time GPU work have in common: when they are called, and where what they find out goes.

#![expect(dead_code, reason = "what calls and implements it comes next")]

use std::time::Instant;

use super::count::GpuCount;
use super::record::{GpuRecord, Way};
use crate::event::{Kind, Name};
use crate::id::EventId;

/// What NCCL is about to give to a stream.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Launch {
    /// The event that NCCL started for it.
    pub(crate) id: EventId,
    /// KernelLaunch, or CeColl: then copy engines do the work.
    pub(crate) kind: Kind,
    /// The stream's handle; 0 is the default stream. 0 too where NCCL does not say.
    pub(crate) stream: u64,
}

/// A way to learn when GPU work ran.
pub(crate) trait Timing: Send + Sync {
    /// On the thread that makes a communicator, whose device is current there. No lock of ours is held.
    fn communicator_begins(&self) {}

    /// On the launching thread, just before the launch. No lock of ours is held; must not take one, allocate once
    /// warm, log or panic.
    fn begins(&self, launch: Launch);

    /// On the thread that stops the event, as [`Self::begins`]. Where that is another than the one that began it,
    /// nothing may be done but counting.
    fn ends(&self, id: EventId);

    /// On the worker thread, about twice a second: what has become known.
    fn collect(&self, out: &mut dyn Output);

    /// On the thread that closes the session, once, when no event is recorded any more and the worker has ended:
    /// what can still be had before `deadline`. Nothing of CUDA's or CUPTI's may be called after it.
    fn finish(&self, out: &mut dyn Output, deadline: Instant);
}

/// Where it goes: to the worker's own slot of the journal; devices, clocks, counts and notices to the keeper's,
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
