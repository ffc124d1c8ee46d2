//! What a GPU did, and what became of the records of it.

use std::collections::BTreeSet;

use clocks::gpu::samples::SampleClocks;
use journal::format::record::Symbol;
use nccl_events::gpu::{Backend, Copy, GpuCount, Kernel};
use tables::EventRow;
use tables::communicators::devices::Devices;

/// What follows each other on a CUDA stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct GpuStream {
    /// The device, by ordinal.
    pub ordinal: u32,
    /// CUPTI's number of the CUDA context.
    pub context: u32,
    /// CUPTI's number of the stream in it.
    pub stream: u32,
}

/// What worked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum What {
    /// A kernel.
    Kernel(Kernel<Symbol>),
    /// A copy engine.
    Copy(Copy),
}

/// How it is known whose work it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Link {
    /// It carries the id of a launch or a copy-engine collective.
    Launch,
    /// It carries the id of one that is not in the journal.
    LaunchUnknown,
    /// Of a graph, and which captured launch it came from follows from the order of both.
    CapturedLaunch,
    /// A kernel of NCCL's in a graph, by its name; which operation it is, is not known.
    Graph,
    /// None of NCCL's.
    Other,
}

/// Something that a GPU did.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Work {
    /// From, CLOCK_MONOTONIC ns.
    pub start: u64,
    /// To; the last time seen where it had not ended.
    pub end: u64,
    /// Whether it had not ended when recording did.
    pub unfinished: bool,
    /// Its times are at most this far off, as far as the samples of the clock say.
    pub uncertainty_ns: u64,
    /// Where.
    pub stream: GpuStream,
    /// How it is known whose it is.
    pub link: Link,
    /// Its launch or copy-engine collective.
    pub launch: Option<EventRow>,
    /// The external correlation id; 0 for none.
    pub external: u64,
    /// The event it is part of: the operation, where it is one, else the launch plan or the launch; 0 where that is not
    /// known.
    pub parent: u64,
    /// What.
    pub what: What,
}

/// When an operation ran, as a GPU tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ran {
    /// From.
    pub start: u64,
    /// To.
    pub end: u64,
    /// Whether it had not ended when recording did.
    pub unfinished: bool,
    /// Both are at most this far off.
    pub uncertainty_ns: u64,
    /// Whether other operations ran in it, too.
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

/// When one activity ran, by both backends.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct RanBy {
    /// Its kernels or copies, from CUPTI.
    pub work: Option<Ran>,
    /// CUDA events around its launch.
    pub events: Option<Ran>,
}

/// What became of the records.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Fates {
    /// Launches and copy-engine collectives of which it is known when their work ran.
    pub launches_timed: u64,
    /// Kernels shown: of a launch that is known.
    pub kernels_joined: u64,
    /// Kernels shown: of a graph, and of which captured launch is known.
    pub kernels_of_graphs: u64,
    /// Kernels shown: of a graph, and of which operation is not known.
    pub kernels_of_graphs_unknown: u64,
    /// Kernels shown: of a launch that is not in the journal.
    pub kernels_without_launch: u64,
    /// Kernels shown that are none of NCCL's.
    pub kernels_other: u64,
    /// Copies shown.
    pub copies: u64,
    /// Of those: of a collective that is known.
    pub copies_joined: u64,
    /// Kernels and copies with times that cannot be placed.
    pub not_placed: u64,
    /// Times by CUDA events that cannot be placed, or of a launch that is not in the journal.
    pub events_not_used: u64,
}

impl Fates {
    /// The numbers by name, in the order they are written; behind `NCCL::GPU::`, as those of [`GpuCount`].
    #[must_use]
    pub(crate) const fn named(&self) -> [(&'static str, u64); 10] {
        [
            ("LAUNCHES_TIMED", self.launches_timed),
            ("KERNELS_JOINED", self.kernels_joined),
            ("KERNELS_OF_GRAPHS", self.kernels_of_graphs),
            ("KERNELS_OF_GRAPHS_UNKNOWN", self.kernels_of_graphs_unknown),
            ("KERNELS_WITHOUT_LAUNCH", self.kernels_without_launch),
            ("KERNELS_OTHER", self.kernels_other),
            ("COPIES_SHOWN", self.copies),
            ("COPIES_JOINED", self.copies_joined),
            ("NOT_PLACED", self.not_placed),
            ("EVENTS_NOT_USED", self.events_not_used),
        ]
    }
}

/// Everything that GPUs did in a process.
#[derive(Debug, Default)]
pub(crate) struct GpuWork {
    /// Kernels and copies, by start.
    pub all: Vec<Work>,
    /// By index of the activity; empty where GPUs tell nothing.
    pub(super) of_activity: Vec<RanBy>,
    /// The streams with something on them.
    pub(super) streams: BTreeSet<GpuStream>,
    /// Launches and copy-engine collectives with kernels or copies.
    pub(super) joined: BTreeSet<EventRow>,
    /// The devices.
    pub devices: Devices,
    /// The clocks.
    pub clocks: SampleClocks,
    /// What was decided and what went wrong, in order.
    pub notices: Vec<(Backend, Symbol)>,
    /// Totals of the recording half, by [`GpuCount`].
    pub counts: [u64; GpuCount::COUNT],
    /// What became of the records.
    pub fates: Fates,
}

impl GpuWork {
    /// Whether records of kernels are missing.
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
        let lost = LOSSES.iter().filter_map(|&loss| self.counts.get(loss as usize));
        self.fates.not_placed + lost.sum::<u64>() > 0
    }
}
