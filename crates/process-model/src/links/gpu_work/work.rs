//! The work of a GPU, and what became of its records.

use std::collections::BTreeSet;

use clocks::gpu::SampleClocks;
use journal::format::Symbol;
use nccl_events::gpu::{Backend, Copy, GpuCount, Kernel};
use nccl_events::schema::GpuCounts;
use tables::EventRow;
use tables::communicators::devices::Devices;

/// A CUDA stream, whose work runs in sequence.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GpuStream {
    pub ordinal: u32,
    /// CUPTI's number of the CUDA context.
    pub context: u32,
    /// CUPTI's number of the stream in the context.
    pub stream: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    Kernel(Kernel<Symbol>),
    Copy(Copy),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Link {
    /// The work carries the id of a launch or a copy-engine collective.
    Launch,
    /// The work carries the id of a launch that is not in the journal.
    LaunchUnknown,
    /// A graph's kernel whose captured launch follows from the order of nodes and launches.
    CapturedLaunch,
    /// An NCCL kernel in a graph, by its name; its operation is unknown.
    Graph,
    Other,
}

#[derive(Clone, Copy, Debug)]
pub struct Work {
    /// CLOCK_MONOTONIC ns.
    pub start: u64,
    /// CLOCK_MONOTONIC ns; the last time seen if the work had not ended.
    pub end: u64,
    pub unfinished: bool,
    /// Largest error of the times, as far as the samples of the clock show.
    pub uncertainty_ns: u64,
    pub stream: GpuStream,
    pub link: Link,
    /// The launch or copy-engine collective that the work belongs to.
    pub launch: Option<EventRow>,
    /// The external correlation id; 0 if there is none.
    pub external: u64,
    /// The event that the work is part of: the only operation, else the launch plan or the launch; 0 if unknown.
    pub parent: u64,
    pub what: What,
}

/// When an operation ran, by the records of a GPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ran {
    pub start: u64,
    pub end: u64,
    pub unfinished: bool,
    /// Largest error of both times.
    pub uncertainty_ns: u64,
    pub is_shared: bool,
}

impl Ran {
    pub(super) fn widen(&mut self, other: Self) {
        self.start = self.start.min(other.start);
        self.end = self.end.max(other.end);
        self.unfinished |= other.unfinished;
        self.uncertainty_ns = self.uncertainty_ns.max(other.uncertainty_ns);
        self.is_shared |= other.is_shared;
    }
}

#[derive(Clone, Copy, Debug, Default)]
pub struct RanBy {
    /// From CUPTI's records of the kernels or copies.
    pub work: Option<Ran>,
    /// From CUDA events around the launch.
    pub events: Option<Ran>,
}

#[derive(Debug, Default)]
pub struct GpuWork {
    /// Kernels and copies, by start.
    pub all: Vec<Work>,
    /// By index of the activity; empty if no GPU work was recorded.
    pub(super) of_activity: Vec<RanBy>,
    pub(super) streams: BTreeSet<GpuStream>,
    /// Launches and copy-engine collectives with kernels or copies.
    pub(super) joined: BTreeSet<EventRow>,
    pub devices: Devices,
    pub clocks: SampleClocks,
    /// Decisions and failures of GPU recording, in order.
    pub notices: Vec<(Backend, Symbol)>,
    /// Totals counted during recording, by [`GpuCount`].
    pub counts: [u64; GpuCount::COUNT],
    pub fates: GpuCounts,
}

impl GpuWork {
    pub(super) fn is_missing_some(&self) -> bool {
        const LOSSES: [GpuCount; 7] = [
            GpuCount::KernelsWithoutTimes,
            GpuCount::DroppedByCupti,
            GpuCount::BadRecords,
            GpuCount::ForeignBuffers,
            GpuCount::LateBuffers,
            GpuCount::NoBufferLeft,
            GpuCount::NoRoom,
        ];
        self.fates.not_placed + LOSSES.iter().filter_map(|&loss| self.counts.get(loss as usize)).sum::<u64>() > 0
    }
}
