//! Kernels, copies and times of CUDA events → launches → operations, by the launch's event id.

use std::collections::BTreeMap;

use super::work::{GpuStream, GpuWork, Link, Ran, What, Work};
use crate::links::operations::Activities;
use journal::reader::Symbols;
use nccl_events::gpu::{GpuClock, GpuRecord, is_of_nccl};
use nccl_events::ids::{index, index_u32};
use tables::{EventRow, OperationRow, Tables};

/// The operations of each launch that ran and of each copy-engine collective: indices of activities.
#[derive(Debug, Default)]
pub(super) struct Launched {
    by_launch: BTreeMap<EventRow, Vec<u32>>,
}

impl Launched {
    pub(super) fn of(activities: &Activities) -> Self {
        let mut launched = Self::default();
        for (at, activity) in activities.all.iter().enumerate() {
            let launch = match activity.operation {
                OperationRow::CeColl(row) => Some(EventRow::CeColl(row)),
                _ => activity.launch.map(EventRow::KernelLaunch).filter(|_| activity.launch_is_own),
            };
            if let Some(launch) = launch {
                launched.by_launch.entry(launch).or_default().push(index_u32(at));
            }
        }
        launched
    }

    fn of_launch(&self, launch: Option<EventRow>) -> &[u32] {
        launch.and_then(|launch| self.by_launch.get(&launch)).map_or(&[], Vec::as_slice)
    }
}

/// Adds kernels and copies, with their times on the host's clock.
pub(super) fn add_work(work: &mut GpuWork, tables: &Tables, symbols: &Symbols) {
    for at in &tables.gpu {
        let (what, row, times, is_graph) = match at.record {
            GpuRecord::Kernel(kernel) => (
                What::Kernel(kernel),
                (kernel.device, kernel.context, kernel.stream),
                (kernel.start_ns, kernel.end_ns),
                kernel.graph_node != 0 && is_of_nccl(symbols.text(kernel.name)),
            ),
            GpuRecord::Copy(copy) => {
                (What::Copy(copy), (copy.device, copy.context, copy.stream), (copy.start_ns, copy.end_ns), false)
            }
            _ => continue,
        };
        let (device, context, stream) = row;
        let (start, end) = times;
        // A running kernel has no end.
        let unfinished = end == 0;
        let placed = match start {
            0 => None,
            start => work.clocks.place(GpuClock::Cupti, device, start, if unfinished { start } else { end }),
        };
        let Some((from, to)) = placed else {
            work.fates.not_placed += 1;
            continue;
        };
        let launch = match at.id {
            0 => None,
            id => tables.find(id),
        };
        let launch = launch.filter(|launch| matches!(launch, EventRow::KernelLaunch(_) | EventRow::CeColl(_)));
        let link = match (at.id, launch) {
            (0, _) if is_graph => Link::Graph,
            (0, _) => Link::Other,
            (_, None) => Link::LaunchUnknown,
            (_, Some(_)) => Link::Launch,
        };
        work.all.push(Work {
            start: from.host_ns,
            end: if unfinished { tables.span.1.max(from.host_ns) } else { to.host_ns },
            unfinished,
            uncertainty_ns: from.uncertainty_ns.max(to.uncertainty_ns),
            stream: GpuStream { ordinal: work.devices.ordinal(device), context, stream },
            link,
            launch,
            external: at.id,
            parent: 0,
            what,
        });
    }
    work.all.sort_by_key(|work| (work.start, work.end, work.stream, work.external));
}

impl Work {
    pub(super) const fn ran(&self, is_shared: bool) -> Ran {
        Ran {
            start: self.start,
            end: self.end,
            unfinished: self.unfinished,
            uncertainty_ns: self.uncertainty_ns,
            is_shared,
        }
    }
}

/// The event that a launch's work is part of: the operation, or the plan of several operations.
fn parent(tables: &Tables, activities: &Activities, launch: Option<EventRow>, of: &[u32]) -> u64 {
    let of = of.iter().filter_map(|&at| activities.all.get(index(at)));
    let operations: Vec<_> = of.map(|activity| tables.operation(activity.operation)).collect();
    let launch = launch.and_then(|launch| tables.head(launch)).map_or(0, |launch| launch.id);
    match operations.as_slice() {
        [] => launch,
        [one] => one.id,
        [first, others @ ..] => {
            let is_one = others.iter().all(|other| other.plan == first.plan);
            // Only a plan with an event can be referred to.
            if is_one && tables.find(first.plan).is_some() { first.plan } else { launch }
        }
    }
}

pub(super) fn link(work: &mut GpuWork, tables: &Tables, activities: &Activities, launched: &Launched) {
    for one in work.all.iter_mut().filter(|one| one.link == Link::Launch) {
        work.joined.extend(one.launch);
        let of = launched.of_launch(one.launch);
        one.parent = parent(tables, activities, one.launch, of);
        let ran = one.ran(of.len() > 1);
        for &activity in of {
            if let Some(by) = work.of_activity.get_mut(index(activity)) {
                by.work.get_or_insert(ran).widen(ran);
            }
        }
    }
}

/// Gives the times of CUDA events to the operations of their launch.
pub(super) fn add_events(work: &mut GpuWork, tables: &Tables, launched: &Launched) {
    let mut timed = work.joined.clone();
    for at in &tables.gpu {
        let GpuRecord::LaunchTime(time) = at.record else {
            continue;
        };
        let placed = work.clocks.place(GpuClock::Events, time.ordinal, time.start_ns, time.end_ns);
        let launch = tables.find(at.id).filter(|_| at.id != 0);
        let (Some((from, to)), Some(launch)) = (placed, launch) else {
            work.fates.events_not_used += 1;
            continue;
        };
        timed.insert(launch);
        let of = launched.of_launch(Some(launch));
        let ran = Ran {
            start: from.host_ns,
            end: to.host_ns,
            unfinished: false,
            uncertainty_ns: from.uncertainty_ns.max(to.uncertainty_ns) + u64::from(time.uncertainty_ns),
            is_shared: of.len() > 1,
        };
        for &activity in of {
            if let Some(by) = work.of_activity.get_mut(index(activity)) {
                by.events.get_or_insert(ran).widen(ran);
            }
        }
    }
    work.fates.launches_timed = timed.len() as u64;
}
