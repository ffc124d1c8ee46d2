//! Kernels, copies and times of CUDA events → launches → operations, by the launch's event id.

use std::collections::BTreeMap;

use super::words::is_of_nccl;
use super::{GpuWork, Link, Ran, Row, What, Work};
use crate::links::correlate::Activity;
use crate::tables::assembly::Assembly;
use crate::tables::place::{NOWHERE, index, place};
use journal::reader::Symbols;
use nccl_events::Kind;
use nccl_events::gpu::{GpuClock, GpuRecord};

/// The operations of each launch that ran, and of each copy-engine collective: places of activities.
#[derive(Debug, Default)]
pub(super) struct Launched {
    by_launch: BTreeMap<u32, Vec<u32>>,
}

impl Launched {
    pub(super) fn of(assembly: &Assembly, activities: &[Activity]) -> Self {
        let mut launched = Self::default();
        for (at, activity) in activities.iter().enumerate() {
            let operation = assembly.operation(activity.operation);
            let is_copied = operation.is_some_and(|of| of.kind() == Kind::CeColl);
            let launch = if is_copied {
                activity.operation
            } else if activity.launch_is_own {
                activity.launch
            } else {
                continue;
            };
            launched
                .by_launch
                .entry(launch)
                .or_default()
                .push(place(at));
        }
        launched
    }

    fn of_launch(&self, launch: u32) -> &[u32] {
        self.by_launch.get(&launch).map_or(&[], Vec::as_slice)
    }
}

/// Takes in kernels and copies, with their times on the host's clock.
pub(super) fn add_work(work: &mut GpuWork, assembly: &Assembly, symbols: &Symbols) {
    for at in &assembly.gpu {
        let (what, row, times, is_graph) = match at.record {
            GpuRecord::Kernel(kernel) => (
                What::Kernel(kernel),
                (kernel.device, kernel.context, kernel.stream),
                (kernel.start_ns, kernel.end_ns),
                kernel.graph_node != 0 && is_of_nccl(symbols.text(kernel.name)),
            ),
            GpuRecord::Copy(copy) => (
                What::Copy(copy),
                (copy.device, copy.context, copy.stream),
                (copy.start_ns, copy.end_ns),
                false,
            ),
            _ => continue,
        };
        let (device, context, stream) = row;
        let (start, end) = times;
        // A kernel that still runs has no end.
        let unfinished = end == 0;
        let placed = match start {
            0 => None,
            start => work.clocks.place(
                GpuClock::Cupti,
                device,
                start,
                if unfinished { start } else { end },
            ),
        };
        let Some((from, to)) = placed else {
            work.fates.not_placed += 1;
            continue;
        };
        let launch = match at.id {
            0 => None,
            id => assembly.find(id),
        };
        let launch = launch.filter(|&launch| {
            let kind = assembly.operation(launch).map(|launch| launch.kind());
            matches!(kind, Some(Kind::KernelLaunch | Kind::CeColl))
        });
        let link = match (at.id, launch) {
            (0, _) if is_graph => Link::Graph,
            (0, _) => Link::Other,
            (_, None) => Link::LaunchUnknown,
            (_, Some(_)) => Link::Launch,
        };
        work.all.push(Work {
            start: from.host_ns,
            end: if unfinished {
                assembly.span.1.max(from.host_ns)
            } else {
                to.host_ns
            },
            unfinished,
            uncertainty_ns: from.uncertainty_ns.max(to.uncertainty_ns),
            row: Row {
                ordinal: work.devices.ordinal(device),
                context,
                stream,
            },
            link,
            launch: launch.unwrap_or(NOWHERE),
            external: at.id,
            parent: 0,
            what,
        });
    }
    work.all
        .sort_by_key(|work| (work.start, work.end, work.row, work.external));
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

/// What the work of a launch is part of: the operation, or the plan of several.
fn parent(assembly: &Assembly, activities: &[Activity], launch: u32, of: &[u32]) -> u64 {
    let operations: Vec<_> = of
        .iter()
        .filter_map(|&at| activities.get(index(at)))
        .filter_map(|activity| assembly.operation(activity.operation))
        .collect();
    let launch = assembly.operation(launch).map_or(0, |launch| launch.id);
    match operations.as_slice() {
        [] => launch,
        [one] => one.id,
        [first, ..] => {
            let plan = assembly.launch_plan(first);
            let is_one = operations
                .iter()
                .all(|other| assembly.launch_plan(other) == plan);
            // A plan without an event would lead nowhere.
            if is_one && assembly.find(plan).is_some() {
                plan
            } else {
                launch
            }
        }
    }
}

/// Gives kernels and copies to the operations of their launch.
pub(super) fn link(
    work: &mut GpuWork,
    assembly: &Assembly,
    activities: &[Activity],
    launched: &Launched,
) {
    for one in work.all.iter_mut().filter(|one| one.link == Link::Launch) {
        work.joined.insert(one.launch);
        let of = launched.of_launch(one.launch);
        one.parent = parent(assembly, activities, one.launch, of);
        let ran = one.ran(of.len() > 1);
        for &activity in of {
            if let Some(by) = work.of_activity.get_mut(index(activity)) {
                by.work.get_or_insert(ran).widen(ran);
            }
        }
    }
}

/// Gives the times of CUDA events to the operations of their launch.
pub(super) fn add_events(work: &mut GpuWork, assembly: &Assembly, launched: &Launched) {
    let mut timed = work.joined.clone();
    for at in &assembly.gpu {
        let GpuRecord::LaunchTime(time) = at.record else {
            continue;
        };
        let clock = GpuClock::Events;
        let placed = work
            .clocks
            .place(clock, time.ordinal, time.start_ns, time.end_ns);
        let launch = assembly.find(at.id).filter(|_| at.id != 0);
        let (Some((from, to)), Some(launch)) = (placed, launch) else {
            work.fates.events_not_used += 1;
            continue;
        };
        timed.insert(launch);
        let of = launched.of_launch(launch);
        let ran = Ran {
            start: from.host_ns,
            end: to.host_ns,
            unfinished: false,
            uncertainty_ns: from.uncertainty_ns.max(to.uncertainty_ns)
                + u64::from(time.uncertainty_ns),
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
