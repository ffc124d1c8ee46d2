//! What GPUs did, and for which operation of NCCL's.
//!
//! ```text
//!  KernelLaunch 7 ─┬─ Kernel, external id 7 ─ clock of CUPTI ──► host time ─► location of the stream
//!                  │         └ the operations of that launch ran then       ─► their interval
//!                  └─ LaunchTime of 7 ─ clock of the device's events ──────► the same, by CUDA events
//!  KernelLaunch 8 (captured)  ╌╌╌╌╌ Kernel of a graph's node, without an id: see [`graphs`]
//! ```
//!
//! Nothing is guessed: a kernel whose launch is not known is shown on its location and belongs to no operation; one whose
//! times cannot be placed is counted and not shown.

pub mod definition;
pub mod devices;
mod graphs;
mod join;
pub mod words;

use std::collections::BTreeSet;

use self::devices::Devices;
use crate::clocks::gpu::samples::SampleClocks;
use crate::links::operations::Activities;
use crate::links::replays::Replays;
use crate::tables::place::index;
use crate::tables::{EventRow, Tables};
use journal::format::record::Symbol;
use journal::reader::Symbols;
use nccl_events::gpu::GpuCount;
use nccl_events::gpu::{Copy, GpuRecord, Kernel, Way};

/// What follows each other on a CUDA stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GpuStream {
    /// The device, by ordinal.
    pub ordinal: u32,
    /// CUPTI's number of the CUDA context.
    pub context: u32,
    /// CUPTI's number of the stream in it.
    pub stream: u32,
}

/// What worked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    /// A kernel.
    Kernel(Kernel<Symbol>),
    /// A copy engine.
    Copy(Copy),
}

/// How it is known whose work it is.
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
    /// None of NCCL's.
    Other,
}

/// Something that a GPU did.
#[derive(Clone, Copy, Debug)]
pub struct Work {
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
pub struct Ran {
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
    fn widen(&mut self, other: Self) {
        self.start = self.start.min(other.start);
        self.end = self.end.max(other.end);
        self.unfinished |= other.unfinished;
        self.uncertainty_ns = self.uncertainty_ns.max(other.uncertainty_ns);
        self.is_shared |= other.is_shared;
    }
}

/// When one activity ran, by both ways.
#[derive(Clone, Copy, Debug, Default)]
pub struct RanBy {
    /// Its kernels or copies, from CUPTI.
    pub work: Option<Ran>,
    /// CUDA events around its launch.
    pub events: Option<Ran>,
}

/// What became of the records.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Fates {
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
    pub const fn named(&self) -> [(&'static str, u64); 10] {
        [
            ("LAUNCHES_TIMED", self.launches_timed),
            ("KERNELS_JOINED", self.kernels_joined),
            ("KERNELS_OF_GRAPHS", self.kernels_of_graphs),
            ("KERNELS_OF_GRAPHS_UNKNOWN", self.kernels_of_graphs_unknown),
            ("KERNELS_WITHOUT_LAUNCH", self.kernels_without_launch),
            ("KERNELS_OTHER", self.kernels_other),
            ("COPIES_DRAWN", self.copies),
            ("COPIES_JOINED", self.copies_joined),
            ("NOT_PLACED", self.not_placed),
            ("EVENTS_NOT_USED", self.events_not_used),
        ]
    }
}

/// Everything that GPUs did in a process.
#[derive(Debug, Default)]
pub struct GpuWork {
    /// Kernels and copies, by start.
    pub all: Vec<Work>,
    /// By index of the activity; empty where GPUs tell nothing.
    of_activity: Vec<RanBy>,
    /// The streams with something on them.
    streams: BTreeSet<GpuStream>,
    /// Launches and copy-engine collectives with kernels or copies.
    joined: BTreeSet<EventRow>,
    /// The devices.
    pub devices: Devices,
    /// The clocks.
    pub clocks: SampleClocks,
    /// What was decided and what went wrong, in order.
    pub notices: Vec<(Way, Symbol)>,
    /// Totals of the recording half, by [`GpuCount`].
    pub counts: [u64; GpuCount::COUNT],
    /// What became of the records.
    pub fates: Fates,
}

impl GpuWork {
    /// Works it out. The activities must have their launches already, and times be nanoseconds.
    #[must_use]
    pub fn of(
        tables: &Tables,
        symbols: &Symbols,
        activities: &Activities,
        replays: &Replays,
    ) -> Self {
        if tables.gpu.is_empty() {
            return Self::default();
        }
        let mut work = Self {
            of_activity: vec![RanBy::default(); activities.all.len()],
            devices: Devices::of(tables),
            clocks: SampleClocks::of(tables.gpu.iter().filter_map(|at| match at.record {
                GpuRecord::Clock(sample) => Some((at.time, sample)),
                _ => None,
            })),
            ..Self::default()
        };
        for at in &tables.gpu {
            match at.record {
                GpuRecord::Notice { way, text } => work.notices.push((way, text)),
                GpuRecord::Counts(counts) => {
                    for (total, count) in work.counts.iter_mut().zip(counts) {
                        *total = count.max(*total);
                    }
                }
                _ => {}
            }
        }
        join::add_work(&mut work, tables, symbols);
        let launched = join::Launched::of(activities);
        join::link(&mut work, tables, activities, &launched);
        join::add_events(&mut work, tables, &launched);
        graphs::tie(&mut work, tables, activities, replays);
        work.streams = work.all.iter().map(|work| work.stream).collect();
        work.count();
        work
    }

    /// When an activity ran, by its place.
    #[must_use]
    pub fn ran(&self, activity: usize) -> RanBy {
        self.of_activity.get(activity).copied().unwrap_or_default()
    }

    /// The kernel or copy at a place.
    #[must_use]
    pub fn get(&self, at: u32) -> Option<&Work> {
        self.all.get(index(at))
    }

    /// Whether another context on the device has a stream of this number.
    #[must_use]
    pub fn is_ambiguous(&self, stream: GpuStream) -> bool {
        let mut others = self.streams.range(
            GpuStream {
                context: 0,
                stream: 0,
                ..stream
            }..,
        );
        others.any(|other| {
            let is_like_it = (other.ordinal, other.stream) == (stream.ordinal, stream.stream);
            is_like_it && other.context != stream.context
        })
    }

    /// Whether kernels or copies carry the id of this launch or copy-engine collective.
    #[must_use]
    pub fn is_joined(&self, launch: EventRow) -> bool {
        self.joined.contains(&launch)
    }

    /// The strings that its events carry.
    #[must_use]
    pub fn texts(&self) -> BTreeSet<String> {
        let (mut extents, mut kinds) = (BTreeSet::new(), BTreeSet::new());
        for work in &self.all {
            match work.what {
                What::Kernel(kernel) => extents.extend([kernel.grid, kernel.block]),
                What::Copy(copy) => kinds.extend([copy.source_kind, copy.destination_kind]),
            }
        }
        let kinds = kinds.into_iter().map(words::memory_kind);
        let extents = extents.into_iter().map(words::extent);
        extents.chain(kinds.map(str::to_owned)).collect()
    }

    /// How GPUs were recorded at last.
    #[must_use]
    pub fn way(&self) -> Option<Way> {
        self.notices.last().map(|&(way, _)| way)
    }

    /// Whether records of kernels are missing.
    fn is_missing_some(&self) -> bool {
        const LOSSES: [GpuCount; 7] = [
            GpuCount::KernelsWithoutTimes,
            GpuCount::DroppedByCupti,
            GpuCount::BadRecords,
            GpuCount::ForeignBuffers,
            GpuCount::LateBuffers,
            GpuCount::NoBufferLeft,
            GpuCount::NoRoom,
        ];
        let lost = LOSSES
            .iter()
            .filter_map(|&loss| self.counts.get(loss as usize));
        self.fates.not_placed + lost.sum::<u64>() > 0
    }

    fn count(&mut self) {
        let fates = &mut self.fates;
        for work in &self.all {
            let fate = match (work.what, work.link) {
                (What::Copy(_), _) => &mut fates.copies,
                (What::Kernel(_), Link::Launch) => &mut fates.kernels_joined,
                (What::Kernel(_), Link::CapturedLaunch) => &mut fates.kernels_of_graphs,
                (What::Kernel(_), Link::Graph) => &mut fates.kernels_of_graphs_unknown,
                (What::Kernel(_), Link::LaunchUnknown) => &mut fates.kernels_without_launch,
                (What::Kernel(_), Link::Other) => &mut fates.kernels_other,
            };
            *fate += 1;
            let is_joined = matches!((work.what, work.link), (What::Copy(_), Link::Launch));
            fates.copies_joined += u64::from(is_joined);
        }
    }
}
