//! Which interval an operation is shown with: what ran, never how long it took to enqueue
//! (`docs/MAPPING.md` §4).

use crate::links::gpu_work::{GpuWork, RanBy};
use crate::links::operations::{Activities, Activity};
use clocks::gpu::GpuClock;
use nccl_events::archive::Timing;
use tables::Operation;
use tables::Tables;
use tables::place::index;

/// When an operation ran.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Interval {
    /// From.
    pub start: u64,
    /// To; the last time seen when it is unfinished.
    pub end: u64,
    /// How that is known.
    pub timing: Timing,
    /// Whether it never ended.
    pub unfinished: bool,
    /// How much later than its launch it begins here, because the kernel before had not ended.
    pub moved_ns: u64,
    /// Whether other operations ran in it, too: as a bandwidth of this one alone it would be wrong.
    pub is_shared: bool,
}

fn measured(
    tables: &Tables,
    (activity, operation): (&Activity, &Operation<'_>),
    ran: RanBy,
    clock: &GpuClock,
) -> Interval {
    // What a GPU told has ended, whatever became of the events.
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
    let (start, end, timing) = match *activity {
        Activity { gpu: Some(gpu), .. } => (clock.host_ns(gpu.0), clock.host_ns(gpu.1), Timing::KernelChannel),
        Activity { kernel_host: Some((start, end)), .. } => (start, end, Timing::KernelChannelHost),
        Activity { proxy_last: Some(last), .. } => (launched.min(last), last, Timing::Proxy),
        // Of a copy-engine collective NCCL tells the enqueueing only.
        _ if activity.unfinished && !activity.operation.is_by_copy_engines() => (launched, launched, Timing::Proxy),
        _ => (operation.start, operation.stop().unwrap_or(operation.start), Timing::Enqueue),
    };
    let end = if activity.unfinished { tables.span.1.max(start) } else { end };
    Interval { start, end, timing, unfinished: activity.unfinished, moved_ns: 0, is_shared: false }
}

/// A task of a kernel: context, when its kernel was enqueued, launch plan (one kernel; 0: unknown), place of
/// the activity.
type Task = (u32, u64, u64, usize);

fn task(tables: &Tables, at: usize, operation: &Operation<'_>) -> Option<Task> {
    let context = operation.context_at()?;
    let group = tables.head_of(operation.plan);
    let enqueued = group.map_or(operation.start, |group| group.start);
    Some((context, enqueued, operation.plan, at))
}

/// When the kernels of a communicator rank that were enqueued before have ended.
#[derive(Clone, Copy, Debug, Default)]
struct Earlier {
    /// All; those that never ended, at the last time seen.
    end: u64,
    /// Those that are known to have ended.
    known_end: u64,
}

impl Interval {
    fn begin_at(&mut self, start: u64) {
        self.moved_ns = start.saturating_sub(self.start);
        self.start = self.start.max(start);
        self.end = self.end.max(self.start);
    }

    /// Begins when what was enqueued before has ended, where only the launch is known.
    fn wait_for(&mut self, earlier: Earlier) {
        match self.timing {
            Timing::Proxy if self.unfinished || earlier.end < self.end => {
                self.begin_at(earlier.end.min(self.end));
            }
            // Of what was only enqueued the end is not known either: it may be past what never ended.
            Timing::Enqueue => self.begin_at(earlier.known_end),
            _ => {}
        }
    }
}

/// The intervals of the tasks of one kernel. Those of which nothing else is known ran while the others did.
fn share_kernel(intervals: &mut [Option<Interval>], kernel: &[Task], earlier: Earlier) {
    let mut known: Option<Interval> = None;
    let of = |task: &Task| task.3;
    for at in kernel.iter().map(of) {
        let Some(Some(interval)) = intervals.get_mut(at) else {
            continue;
        };
        if interval.timing == Timing::Enqueue {
            continue;
        }
        interval.wait_for(earlier);
        let known = known.get_or_insert(Interval { timing: Timing::Kernel, moved_ns: 0, ..*interval });
        known.start = known.start.min(interval.start);
        known.end = known.end.max(interval.end);
        known.unfinished |= interval.unfinished;
    }
    for at in kernel.iter().map(of) {
        match (intervals.get_mut(at), known) {
            (Some(Some(interval)), Some(known)) if interval.timing == Timing::Enqueue => {
                *interval = known;
            }
            (Some(Some(interval)), None) => interval.wait_for(earlier),
            _ => {}
        }
    }
}

/// The intervals of all activities, by place of the activity.
///
/// The kernels of a communicator run one after the other, so an operation that was launched while an
/// earlier kernel still ran began when that one ended. Only the kernels' own times say so directly.
#[must_use]
pub(crate) fn intervals(
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
    for kernel in order.chunk_by(is_same_kernel) {
        let of = kernel.first().map(|task| task.0);
        if context != of {
            context = of;
            earlier = Earlier::default();
        }
        share_kernel(&mut intervals, kernel, earlier);
        for interval in kernel.iter().filter_map(|task| intervals.get(task.3)) {
            let Some(interval) = interval else { continue };
            earlier.end = earlier.end.max(interval.end);
            if !interval.unfinished {
                earlier.known_end = earlier.known_end.max(interval.end);
            }
        }
    }
    intervals
}
