//! The work of GPUs, and the NCCL operations it belongs to.
//!
//! ```text
//!  KernelLaunch 7 ─┬─ Kernel, external id 7 ─ clock of CUPTI ──► host time ─► location of the stream
//!                  │         └ the operations of that launch ran then       ─► their interval
//!                  └─ LaunchTime of 7 ─ clock of the device's events ──────► the same, by CUDA events
//!  KernelLaunch 8 (captured)  ╌╌╌╌╌ Kernel of a graph's node, without an id: see [`graphs`]
//! ```
//!
//! Nothing is guessed. A kernel whose launch is unknown is shown on its location and belongs to no operation; a kernel
//! whose times cannot be placed is counted and not shown.

pub mod definition;
mod graphs;
mod join;
pub mod names;
mod work;

pub use self::work::{GpuStream, GpuWork, Link, RanBy, What, Work};

use std::collections::BTreeSet;

use crate::links::operations::Activities;
use crate::links::replays::Replays;
use clocks::gpu::SampleClocks;
use journal::reader::Symbols;
use nccl_events::gpu::{Backend, GpuRecord, extent};
use nccl_events::ids::index;
use nccl_events::sort::Gather;
use tables::communicators::devices::Devices;
use tables::{EventRow, Tables};

impl GpuWork {
    /// Joins GPU records to launches. The activities must already have their launches, and times must be nanoseconds.
    pub fn of(tables: &Tables, symbols: &Symbols, activities: &Activities, replays: &Replays) -> Self {
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
                GpuRecord::Notice { backend, text } => work.notices.push((backend, text)),
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
        work.streams = work.all.iter().map(|work| work.stream).gather();
        work.count();
        work
    }

    pub fn ran(&self, activity: usize) -> RanBy {
        self.of_activity.get(activity).copied().unwrap_or_default()
    }

    pub fn get(&self, at: u32) -> Option<&Work> {
        self.all.get(index(at))
    }

    /// Whether another context on the device has a stream with the same number.
    pub fn is_ambiguous(&self, stream: GpuStream) -> bool {
        let mut others = self.streams.range(GpuStream { context: 0, stream: 0, ..stream }..);
        others.any(|other| {
            let is_like_it = (other.ordinal, other.stream) == (stream.ordinal, stream.stream);
            is_like_it && other.context != stream.context
        })
    }

    /// Whether kernels or copies carry the id of this launch or copy-engine collective.
    pub fn is_joined(&self, launch: EventRow) -> bool {
        self.joined.contains(&launch)
    }

    pub fn texts(&self) -> BTreeSet<String> {
        let (mut extents, mut kinds) = (BTreeSet::new(), BTreeSet::new());
        for work in &self.all {
            match work.what {
                What::Kernel(kernel) => extents.extend([kernel.grid, kernel.block]),
                What::Copy(copy) => kinds.extend([copy.source_kind, copy.destination_kind]),
            }
        }
        extents.into_iter().map(extent).chain(kinds.into_iter().map(names::memory_kind).map(str::to_owned)).gather()
    }

    /// The way GPUs were last recorded.
    pub fn backend(&self) -> Option<Backend> {
        self.notices.last().map(|&(way, _)| way)
    }

    fn count(&mut self) {
        let fates = &mut self.fates;
        for work in &self.all {
            let fate = match (work.what, work.link) {
                (What::Copy(_), _) => &mut fates.copies_shown,
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
