//! When an operation ran, as far as known: never how long enqueueing took (`docs/MAPPING.md` §4). [`Interval`] has the
//! rules, [`intervals`] applies them to a process, and [`InferredEnds`] are ends that NCCL did not report.

use std::collections::BTreeMap;

use crate::links::gpu_work::{GpuIntervals, GpuWork};
use crate::links::operations::{LinkedOperation, LinkedOperations};
use crate::tables::{Operation, Row, Tables};
use clocks::gpu::GpuClock;
use nccl_events::archive::Timing;
use nccl_events::event::{ProxyCtrl, ProxyOp, ProxyStep};
use nccl_events::ids::index;
use nccl_events::sort::Gather;
use nccl_events::{Kind, step_slot};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Interval {
    pub start: u64,
    /// The last time seen if the operation is unfinished.
    pub end: u64,
    pub timing: Timing,
    pub unfinished: bool,
    /// How much later than its launch the operation begins, because an earlier kernel had not ended.
    pub moved_ns: u64,
    /// Whether other operations ran in the same interval: a bandwidth computed for one alone would be wrong.
    pub is_shared: bool,
}

/// What NCCL's events report about an operation. All times are the host's.
#[derive(Clone, Copy, Debug, Default)]
pub struct OperationTimes {
    pub launched: u64,
    pub enqueued: (u64, u64),
    pub kernel: Option<(u64, u64)>,
    /// The kernel's interval as reported on the host.
    pub kernel_on_host: Option<(u64, u64)>,
    /// When the last of the proxy operations ended.
    pub proxy_last: Option<u64>,
    /// Whether some part of the operation never ended.
    pub unfinished: bool,
    /// Whether copy engines do the work: NCCL then reports only the enqueueing.
    pub is_by_copy_engines: bool,
}

/// When the earlier kernels of a communicator rank ended.
#[derive(Clone, Copy, Debug, Default)]
struct PreviousKernel {
    /// End of all; unfinished kernels count with the last time seen.
    end: u64,
    known_end: u64,
}

impl PreviousKernel {
    fn add(&mut self, interval: &Interval) {
        self.end = self.end.max(interval.end);
        if !interval.unfinished {
            self.known_end = self.known_end.max(interval.end);
        }
    }

    fn add_all(&mut self, others: Self) {
        self.end = self.end.max(others.end);
        self.known_end = self.known_end.max(others.known_end);
    }
}

/// The kernels of a communicator rank that have left the tables, each with the time of enqueueing.
#[derive(Clone, Debug, Default)]
pub(crate) struct PreviousKernels(Vec<(u64, PreviousKernel)>);

impl PreviousKernels {
    pub(crate) fn add(&mut self, enqueued: u64, interval: &Interval) {
        let mut kernel = PreviousKernel::default();
        kernel.add(interval);
        match self.0.last_mut() {
            Some((last, of_last)) if *last == enqueued => of_last.add_all(kernel),
            _ => self.0.push((enqueued, kernel)),
        }
    }

    /// Sorts the kernels, and takes those enqueued before a time as one.
    pub(crate) fn unite_before(&mut self, enqueued: u64) {
        nccl_events::sort::sort_by_key(&mut self.0, |(at, _)| *at);
        let before = self.0.partition_point(|(at, _)| *at < enqueued);
        let united = self.0.drain(..before).reduce(|(_, mut all), (at, kernel)| {
            all.add_all(kernel);
            (at, all)
        });
        if let Some(united) = united {
            self.0.insert(0, united);
        }
    }
}

impl Interval {
    /// The interval of one operation alone; an unfinished one extends to the last time seen.
    pub fn new(known: &OperationTimes, last_seen: u64) -> Self {
        let launched = known.launched;
        let (start, end, timing) = match *known {
            OperationTimes { kernel: Some((start, end)), .. } => (start, end, Timing::KernelChannel),
            OperationTimes { kernel_on_host: Some((start, end)), .. } => (start, end, Timing::KernelChannelHost),
            OperationTimes { proxy_last: Some(last), .. } => (launched.min(last), last, Timing::Proxy),
            OperationTimes { unfinished: true, is_by_copy_engines: false, .. } => (launched, launched, Timing::Proxy),
            OperationTimes { enqueued: (start, end), .. } => (start, end, Timing::Enqueue),
        };
        let end = if known.unfinished { last_seen.max(start) } else { end };
        Self { start, end, timing, unfinished: known.unfinished, moved_ns: 0, is_shared: false }
    }

    fn begin_at(&mut self, start: u64) {
        self.moved_ns = start.saturating_sub(self.start);
        self.start = self.start.max(start);
        self.end = self.end.max(self.start);
    }

    /// If only the launch is known, moves the start to the end of the earlier kernels.
    fn wait_for(&mut self, earlier: PreviousKernel) {
        match self.timing {
            Timing::Proxy if self.unfinished || earlier.end < self.end => {
                self.begin_at(earlier.end.min(self.end));
            }
            // The end is unknown, too: an operation that was only enqueued may outlast unfinished ones.
            Timing::Enqueue => self.begin_at(earlier.known_end),
            _ => {}
        }
    }
}

/// Completes the intervals of one kernel: operations without times of their own ran with the others.
fn share_kernel(kernel: &mut [Interval], earlier: PreviousKernel) {
    let mut known: Option<Interval> = None;
    for interval in kernel.iter_mut().filter(|interval| interval.timing != Timing::Enqueue) {
        interval.wait_for(earlier);
        let known = known.get_or_insert(Interval { timing: Timing::Kernel, moved_ns: 0, ..*interval });
        known.start = known.start.min(interval.start);
        known.end = known.end.max(interval.end);
        known.unfinished |= interval.unfinished;
    }
    for interval in kernel.iter_mut().filter(|interval| interval.timing == Timing::Enqueue) {
        match known {
            Some(known) => *interval = known,
            None => interval.wait_for(earlier),
        }
    }
}

/// From the first begin to the last end of the operations of one collective, with the timing of the least precisely
/// known operation. An operation without times of its own (`Timing::Kernel`) does not affect the timing.
pub(crate) fn enclosing_interval(members: impl Iterator<Item = Interval>) -> Option<Interval> {
    // The collective is a call of its own, with its own kernels.
    members.map(|member| Interval { is_shared: false, ..member }).reduce(|all, member| {
        let first = if member.start < all.start { member } else { all };
        let timing = match (all.timing, member.timing) {
            (Timing::Kernel, timing) | (timing, Timing::Kernel) => timing,
            (one, other) => one.max(other),
        };
        Interval {
            start: first.start,
            end: all.end.max(member.end),
            timing,
            unfinished: all.unfinished || member.unfinished,
            moved_ns: first.moved_ns,
            is_shared: false,
        }
    })
}

fn measured(
    tables: &Tables,
    (linked, operation): (&LinkedOperation, &Operation<'_>),
    ran: GpuIntervals,
    clock: &GpuClock,
) -> Interval {
    // An operation with GPU times has ended, even if its events have not.
    let by_work = ran.by_cupti.map(|ran| (ran, Timing::Cupti));
    if let Some((ran, timing)) = by_work.or(ran.by_events.map(|ran| (ran, Timing::Event))) {
        return Interval {
            start: ran.start,
            end: ran.end,
            timing,
            unfinished: ran.unfinished,
            moved_ns: 0,
            is_shared: ran.is_shared,
        };
    }
    let launched = linked.own_launch().map_or(operation.start, |launch| {
        let launch = &tables[launch];
        launch.stop().unwrap_or(launch.start)
    });
    let known = OperationTimes {
        launched,
        enqueued: (operation.start, operation.stop().unwrap_or(operation.start)),
        kernel: linked.gpu.map(|(start, end)| (clock.host_ns(start), clock.host_ns(end))),
        kernel_on_host: linked.kernel_host,
        proxy_last: linked.proxy_last,
        unfinished: linked.unfinished,
        is_by_copy_engines: linked.operation.is_by_copy_engines(),
    };
    Interval::new(&known, tables.span.1)
}

/// A kernel's task: context, time of enqueueing, launch plan (one kernel; 0 if unknown), index of the operation.
type Task = (u32, u64, u64, usize);

fn task(tables: &Tables, at: usize, operation: &Operation<'_>) -> Option<Task> {
    Some((operation.context_at()?, enqueued(tables, operation), operation.plan, at))
}

/// When the kernel of an operation was enqueued: the start of its launch plan.
pub fn enqueued(tables: &Tables, operation: &Operation<'_>) -> u64 {
    tables.head_of(operation.plan).map_or(operation.start, |plan| plan.start)
}

/// The intervals of all operations, by index of the operation. `previous` has a context's kernels that have left the
/// tables.
///
/// The kernels of a communicator run one after the other, so an operation launched while an earlier kernel still ran
/// began when that kernel ended. Only the kernels' own times show this directly.
pub(crate) fn intervals<'a>(
    tables: &Tables,
    operations: &LinkedOperations,
    gpu: &GpuWork,
    clocks: &[GpuClock],
    previous: impl Fn(u32) -> Option<&'a PreviousKernels>,
) -> Vec<Option<Interval>> {
    let operations = &operations.all;
    let mut intervals: Vec<Option<Interval>> = Vec::with_capacity(operations.len());
    let mut order: Vec<Task> = Vec::with_capacity(operations.len());
    let no_clock = GpuClock::default();
    for (at, linked) in operations.iter().enumerate() {
        let operation = tables.operation(linked.operation);
        let task = task(tables, at, &operation);
        let clock = task.and_then(|(context, ..)| clocks.get(index(context)));
        intervals.push(Some(measured(tables, (linked, &operation), gpu.intervals(at), clock.unwrap_or(&no_clock))));
        order.extend(task);
    }
    order.sort_unstable();
    let is_same_kernel = |a: &Task, b: &Task| a.2 != 0 && (a.0, a.2) == (b.0, b.2);
    let mut context = None;
    let mut earlier = PreviousKernel::default();
    let mut left: &[(u64, PreviousKernel)] = &[];
    let mut kernel_intervals: Vec<Interval> = Vec::new();
    for kernel in order.chunk_by(is_same_kernel) {
        let of = kernel.first().map(|task| task.0);
        if context != of {
            context = of;
            earlier = PreviousKernel::default();
            left = of.and_then(&previous).map_or(&[], |previous| &previous.0);
        }
        while let Some(((_, kernel), later)) =
            left.split_first().filter(|((at, _), _)| kernel.first().is_some_and(|task| *at <= task.1))
        {
            earlier.add_all(*kernel);
            left = later;
        }
        kernel_intervals.clear();
        kernel_intervals.extend(kernel.iter().filter_map(|task| intervals.get(task.3).copied().flatten()));
        share_kernel(&mut kernel_intervals, earlier);
        for (task, interval) in kernel.iter().zip(&kernel_intervals) {
            earlier.add(interval);
            if let Some(place) = intervals.get_mut(task.3) {
                *place = Some(*interval);
            }
        }
    }
    intervals
}

// NCCL does not report some ends. A proxy step ends when its slot is used again or its proxy operation stops; a state
// of a proxy thread ends when the thread enters the next.

#[derive(Debug, Default)]
pub struct InferredEnds {
    /// Steps without a stop. NCCL 2.24–2.26 forgets the stop of some receive steps.
    pub steps: BTreeMap<Row<ProxyStep>, u64>,
    /// Proxy thread states without a stop: one at a time for a thread. NCCL reports none if taking operations fails.
    pub controls: BTreeMap<Row<ProxyCtrl>, u64>,
}

pub fn infer_ends(tables: &Tables) -> InferredEnds {
    let has_open = |kind| tables.counts.kinds.get(kind).unfinished > 0;
    let mut ends = InferredEnds::default();
    if has_open(Kind::ProxyStep) {
        ends.steps = infer_step_ends(tables);
    }
    if has_open(Kind::ProxyCtrl) {
        ends.controls = infer_control_ends(tables);
    }
    ends
}

fn infer_step_ends(tables: &Tables) -> BTreeMap<Row<ProxyStep>, u64> {
    let rows = tables.rows::<ProxyStep>();
    let order = rows.map(|(row, event)| (event.parent, step_slot(event.fields.step), event.start, row));
    let mut order: Vec<(u64, u8, u64, Row<ProxyStep>)> = order.collect();
    order.sort_unstable();
    let mut ends = BTreeMap::new();
    for slot_steps in order.chunk_by(|a, b| (a.0, a.1) == (b.0, b.1)) {
        let restarts = slot_steps.iter().skip(1).map(|&(_, _, start, _)| Some(start));
        for (&(parent, _, start, row), restart) in slot_steps.iter().zip(restarts.chain([None])) {
            // Without a known operation the slot is unknown: NCCL passes no parent, or the parent was lost.
            let (None, Some(op)) = (tables[row].stop(), tables.get::<ProxyOp>(parent)) else {
                continue;
            };
            let stop = op.stop().map(|stop| stop.max(start));
            ends.extend([restart, stop].into_iter().flatten().min().map(|end| (row, end)));
        }
    }
    ends
}

fn infer_control_ends(tables: &Tables) -> BTreeMap<Row<ProxyCtrl>, u64> {
    let order =
        tables.rows::<ProxyCtrl>().map(|(row, event)| (tables.first_index_of_thread(event.thread), event.start, row));
    let mut order: Vec<(u32, u64, Row<ProxyCtrl>)> = order.collect();
    nccl_events::sort::sort(&mut order);
    let pairs = order.iter().zip(order.iter().skip(1));
    let open =
        pairs.filter(|((thread, _, row), (next_thread, ..))| thread == next_thread && tables[*row].stop().is_none());
    open.map(|(&(_, _, row), &(_, next, _))| (row, next)).gather()
}
