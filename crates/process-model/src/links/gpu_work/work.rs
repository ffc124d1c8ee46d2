//! What a GPU did, and what became of its records.

use std::collections::BTreeSet;

use clocks::gpu::samples::SampleClocks;
use journal::format::record::Symbol;
use nccl_events::gpu::{Backend, Copy, GpuCount, Kernel};
use schema::GpuCounts;
use tables::EventRow;
use tables::communicators::devices::Devices;

/// What follows each other on a CUDA stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GpuStream {
    pub ordinal: u32,
    /// CUPTI's number of the CUDA context.
    pub context: u32,
    /// CUPTI's number of the stream in it.
    pub stream: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    Kernel(Kernel<Symbol>),
    Copy(Copy),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Link {
    /// It carries the id of a launch or a copy-engine collective.
    Launch,
    /// It carries the id of one that is not in the journal.
    LaunchUnknown,
    /// Of a graph, and which captured launch it came from follows from the order of both.
    CapturedLaunch,
    /// A kernel of NCCL's in a graph, by its name; which operation it is, is not known.
    Graph,
    Other,
}

#[derive(Clone, Copy, Debug)]
pub struct Work {
    /// From, CLOCK_MONOTONIC ns.
    pub start: u64,
    /// To; the last time seen where it had not ended.
    pub end: u64,
    pub unfinished: bool,
    /// Its times are at most this far off, as far as the samples of the clock say.
    pub uncertainty_ns: u64,
    pub stream: GpuStream,
    pub link: Link,
    /// Its launch or copy-engine collective.
    pub launch: Option<EventRow>,
    /// The external correlation id; 0 for none.
    pub external: u64,
    /// The event it is part of: the operation, where it is one, else the launch plan or the launch; 0 where that is not
    /// known.
    pub parent: u64,
    pub what: What,
}

/// When an operation ran, by the records of a GPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ran {
    pub start: u64,
    pub end: u64,
    pub unfinished: bool,
    /// Both are at most this far off.
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
    /// Its kernels or copies, from CUPTI.
    pub work: Option<Ran>,
    /// CUDA events around its launch.
    pub events: Option<Ran>,
}

#[derive(Debug, Default)]
pub struct GpuWork {
    /// Kernels and copies, by start.
    pub all: Vec<Work>,
    /// By index of the activity; empty where GPUs tell nothing.
    pub(super) of_activity: Vec<RanBy>,
    pub(super) streams: BTreeSet<GpuStream>,
    /// Launches and copy-engine collectives with kernels or copies.
    pub(super) joined: BTreeSet<EventRow>,
    pub devices: Devices,
    pub clocks: SampleClocks,
    /// What was decided and what went wrong, in order.
    pub notices: Vec<(Backend, Symbol)>,
    /// Totals of the recording half, by [`GpuCount`].
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
