//! Chooses the interval that an operation is shown with: when it ran, not its enqueueing (`docs/MAPPING.md` §4).

use crate::links::gpu_work::{GpuWork, RanBy};
use crate::links::operations::{Activities, Activity};
use clocks::gpu::GpuClock;
use job::interval::{Earlier, Known, share_kernel};
use nccl_events::archive::Timing;
use nccl_events::ids::index;
use tables::{Operation, Tables};

pub use job::interval::Interval;

fn measured(
    tables: &Tables,
    (activity, operation): (&Activity, &Operation<'_>),
    ran: RanBy,
    clock: &GpuClock,
) -> Interval {
    // An operation with GPU times has ended, even if its events have not.
    let by_work = ran.work.map(|ran| (ran, Timing::Cupti));
    if let Some((ran, timing)) = by_work.or(ran.events.map(|ran| (ran, Timing::Event))) {
        return Interval {
            start: ran.start,
            end: ran.end,
            timing,
            unfinished: ran.unfinished,
            moved_ns: 0,
            is_shared: ran.is_shared,
        };
    }
    let launch = activity.launch.filter(|_| activity.launch_is_own);
    let launched = launch.map_or(operation.start, |launch| {
        let launch = &tables[launch];
        launch.stop().unwrap_or(launch.start)
    });
    let known = Known {
        launched,
        enqueued: (operation.start, operation.stop().unwrap_or(operation.start)),
        kernel: activity.gpu.map(|(start, end)| (clock.host_ns(start), clock.host_ns(end))),
        kernel_on_host: activity.kernel_host,
        proxy_last: activity.proxy_last,
        unfinished: activity.unfinished,
        is_by_copy_engines: activity.operation.is_by_copy_engines(),
    };
    Interval::of(&known, tables.span.1)
}

/// A kernel's task: context, time of enqueueing, launch plan (one kernel; 0 if unknown), index of the activity.
type Task = (u32, u64, u64, usize);

fn task(tables: &Tables, at: usize, operation: &Operation<'_>) -> Option<Task> {
    let context = operation.context_at()?;
    let enqueued = tables.head_of(operation.plan).map_or(operation.start, |group| group.start);
    Some((context, enqueued, operation.plan, at))
}

/// The intervals of all activities, by index of the activity.
///
/// The kernels of a communicator run one after the other, so an operation launched while an earlier kernel still ran
/// began when that kernel ended. Only the kernels' own times show this directly.
pub fn intervals(
    tables: &Tables,
    activities: &Activities,
    gpu: &GpuWork,
    clocks: &[GpuClock],
) -> Vec<Option<Interval>> {
    let activities = &activities.all;
    let mut intervals: Vec<Option<Interval>> = Vec::with_capacity(activities.len());
    let mut order: Vec<Task> = Vec::with_capacity(activities.len());
    let no_clock = GpuClock::default();
    for (at, activity) in activities.iter().enumerate() {
        let operation = tables.operation(activity.operation);
        let task = task(tables, at, &operation);
        let clock = task.and_then(|(context, ..)| clocks.get(index(context)));
        intervals.push(Some(measured(tables, (activity, &operation), gpu.ran(at), clock.unwrap_or(&no_clock))));
        order.extend(task);
    }
    order.sort_unstable();
    let is_same_kernel = |a: &Task, b: &Task| a.2 != 0 && (a.0, a.2) == (b.0, b.2);
    let mut context = None;
    let mut earlier = Earlier::default();
    let mut of_kernel: Vec<Interval> = Vec::new();
    for kernel in order.chunk_by(is_same_kernel) {
        let of = kernel.first().map(|task| task.0);
        if context != of {
            context = of;
            earlier = Earlier::default();
        }
        of_kernel.clear();
        of_kernel.extend(kernel.iter().filter_map(|task| intervals.get(task.3).copied().flatten()));
        share_kernel(&mut of_kernel, earlier);
        for (task, interval) in kernel.iter().zip(&of_kernel) {
            earlier.add(interval);
            if let Some(place) = intervals.get_mut(task.3) {
                *place = Some(*interval);
            }
        }
    }
    intervals
}
