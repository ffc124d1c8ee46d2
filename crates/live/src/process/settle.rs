//! Aggregates completed operations and steps.
//!
//! NCCL stops an operation when it is enqueued; its children come when it runs, and none is marked as the last. So an
//! operation is over when every part that began has ended and no record came for a while. If NCCL reports times for
//! other operations of the communicator, an operation without times is over when a later one with times is.

use crate::process::calls::{Execution, Few, Launch, OfCall};
use crate::process::operations::{Details, OpenEvents, Operation, Started};
use crate::sums::{Connection, EndedOperation, EndedStep, Member, Sums};
use journal::reader::Symbols;
use model::links::intervals::{Interval, OperationTimes, share_kernel};
use nccl_events::Kind;
use nccl_events::archive::Timing;
use nccl_events::ids::{index, index_u32};

/// Limit on the steps kept for contexts that are not identified yet.
const MOST_UNKNOWN: usize = 1 << 14;
/// How many settle times to wait for an earlier operation.
const FOR_EARLIER: u64 = 4;
/// Settle times to wait for an operation's children: if others had children, and if none had but some may.
const FOR_CHILDREN: u64 = 60;
const FOR_FIRST_CHILDREN: u64 = 5;
const FOR_GPU: u64 = 3;
/// A clock pair may be recorded this long after it was read; events since then wait for it.
const FOR_CLOCK_PAIRS_NS: u64 = 300_000_000;

/// The time up to which all records were read.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Until {
    Ticks(u64),
    End,
}

struct KernelState {
    has_ended: bool,
    has_times: bool,
    is_alone: bool,
    last: u64,
}

impl KernelState {
    fn of(tasks: &[Task]) -> Self {
        Self {
            has_ended: tasks.iter().all(|task| task.has_ended),
            has_times: tasks.iter().any(|task| task.has_times),
            is_alone: tasks.iter().all(|task| task.is_alone),
            last: tasks.iter().map(|task| task.last).max().unwrap_or(0),
        }
    }
}

impl OpenEvents {
    /// Aggregates what is complete. `owner` is the number of the process, and its part.
    pub(crate) fn settle(&mut self, until: Until, sums: &mut Sums, symbols: &Symbols, owner: (usize, &str)) {
        self.clock.update(self.before_clock_pairs(until));
        self.arrange(until);
        self.judge_stamps(until);
        self.take_in(until, sums, symbols, owner);
        for context in 0..index_u32(self.contexts.all.len()) {
            self.settle_context(context, until, sums, symbols);
        }
        let before = self.before(until, FOR_CHILDREN);
        if let Until::Ticks(now) = until {
            self.operations.forget_unstarted(before, &self.seen);
            self.calls.forget(before, now);
        }
        self.settle_derived(self.before(until, FOR_EARLIER), sums, symbols);
    }

    /// The ticks `times` settle times ago.
    fn before(&self, until: Until, times: u64) -> u64 {
        match until {
            Until::End => u64::MAX,
            Until::Ticks(now) => self.clock.before(now, times.saturating_mul(self.settle_ns)),
        }
    }

    fn before_clock_pairs(&self, until: Until) -> u64 {
        match until {
            Until::Ticks(now) => self.clock.before(now, FOR_CLOCK_PAIRS_NS),
            Until::End => u64::MAX,
        }
    }

    /// Links operations with their calls once every record that a link needs has been read.
    fn arrange(&mut self, until: Until) {
        let until = self.before(until, 0);
        for (place, context) in (0..).zip(&mut self.contexts.all) {
            let mut arranged: Vec<(u64, u64)> = context.coming.extract_if(.., |(start, _)| *start < until).collect();
            arranged.sort_unstable();
            for (_, id) in arranged {
                if let Some(operation) = self.operations.get_mut(id)
                    && let Some(started) = &mut operation.started
                {
                    let at = (place, started.thread, started.plan);
                    let (call, enqueued) = self.calls.arrange(started.parent, started.start, at);
                    operation.call = Some(call);
                    started.enqueued = enqueued.unwrap_or(started.start);
                    context.queue.push(id);
                }
            }
        }
    }

    fn judge_stamps(&mut self, until: Until) {
        let until = self.before(until, 0);
        let shift = || self.clock.ticks_of(self.settle_ns / 2).max(1).ilog2();
        let shift = *self.stamps_shift.get_or_insert_with(shift);
        self.kernels.judge(until, shift, &mut self.operations);
    }

    pub(crate) fn take_in(&mut self, until: Until, sums: &mut Sums, symbols: &Symbols, owner: (usize, &str)) {
        let before = self.before_clock_pairs(until);
        self.clock.update(before);
        self.contexts.identify(&mut sums.communicators, symbols, owner);
        self.kernels.bounds.retain(|bound| {
            if bound.ticks < before
                && let Some(operation) = self.operations.get_mut(bound.operation)
            {
                let new = (bound.gpu_ns, self.clock.ns(bound.ticks));
                let delay_ns = |(gpu_ns, host_ns): (u64, u64)| i128::from(host_ns) - i128::from(gpu_ns);
                let closest = operation.not_after.into_iter().chain([new]).min_by_key(|bound| delay_ns(*bound));
                operation.not_after = closest;
            }
            bound.ticks >= before
        });
        self.places.resize(self.network.connections.len(), None);
        let mut unknown = 0;
        let mut ended = std::mem::take(&mut self.network.ended);
        ended.retain(|step| {
            if step.stop >= before {
                return true;
            }
            let at = index(step.connection);
            let (Some(place), Some(connection)) = (self.places.get_mut(at), self.network.connections.get(at)) else {
                return false;
            };
            if place.is_none() {
                let context = self.contexts.get_mut(connection.context);
                let (Some(member), Ok(peer)) =
                    (context.and_then(|context| context.member), u32::try_from(connection.peer))
                else {
                    unknown += 1;
                    self.network.late += u64::from(unknown > MOST_UNKNOWN);
                    return unknown <= MOST_UNKNOWN;
                };
                let (channel, is_send) = (connection.channel.into(), connection.is_send);
                *place = Some(sums.places(Connection { member, channel, peer, is_send }));
            }
            if let Some(context) = self.contexts.get_mut(connection.context) {
                context.last = step.stop.max(context.last);
            }
            let (start_ns, [first_ns, second_ns, third_ns]) = step.phases(|ticks| self.clock.ns(ticks));
            if let Some(place) = *place {
                sums.step(place, &EndedStep { start_ns, first_ns, second_ns, third_ns, bytes: step.bytes });
            }
            false
        });
        self.network.ended = ended;
    }

    fn tasks(&mut self, context: u32) -> Vec<Task> {
        let queue = self.contexts.get_mut(context).map(|context| std::mem::take(&mut context.queue));
        let mut tasks: Vec<Task> = Vec::new();
        for id in queue.unwrap_or_default() {
            let Some((operation, started)) = self.operations.get(id).and_then(|it| Some((it, it.started?))) else {
                continue;
            };
            let is_at_capture = operation.call.is_some_and(|call| call.is_at_capture);
            tasks.push(Task {
                enqueued: started.enqueued,
                plan: started.plan,
                start: started.start,
                id,
                has_ended: operation.has_ended() && operation.unjudged == 0,
                has_times: operation.has_times(),
                is_alone: started.is_by_copy_engines || is_at_capture,
                last: operation.last,
            });
        }
        let order = |task: &Task| (task.enqueued, task.plan, task.start, task.id);
        if !tasks.is_sorted_by_key(order) {
            tasks.sort_unstable_by_key(order);
        }
        tasks
    }

    fn settle_context(&mut self, at: u32, until: Until, sums: &mut Sums, symbols: &Symbols) {
        let tasks = self.tasks(at);
        let is_same_kernel = |a: &Task, b: &Task| a.plan != 0 && a.plan == b.plan;
        let kernels: Vec<(&[Task], KernelState)> =
            tasks.chunk_by(is_same_kernel).map(|tasks| (tasks, KernelState::of(tasks))).collect();
        let last_timed = kernels.iter().rposition(|(_, kernel)| kernel.has_times && kernel.has_ended).unwrap_or(0);
        let may_report = self.recorder.event_mask & (Kind::KernelCh.mask() | Kind::ProxyOp.mask()) != 0;
        let Some(context) = self.contexts.get_mut(at) else {
            return;
        };
        context.reports_times |= kernels.iter().any(|(_, kernel)| kernel.has_times);
        context.last = tasks.iter().map(|task| task.last).max().unwrap_or(0).max(context.last);
        let patience = match (context.reports_times, may_report) {
            (true, _) => FOR_CHILDREN,
            (false, true) => FOR_FIRST_CHILDREN,
            (false, false) => 1,
        };
        let member = context.member;
        let [quiet, quiet_without_children, quiet_without_gpu, quiet_after_earlier, quiet_without_stop] =
            [1, patience, FOR_GPU, FOR_EARLIER, FOR_CHILDREN].map(|times| self.before(until, times));
        let mut kept = Vec::new();
        let mut over = Vec::new();
        for (number, (tasks, kernel)) in kernels.iter().enumerate() {
            let is_timed = kernel.has_times || kernel.is_alone || number < last_timed;
            let before = if is_timed { quiet } else { quiet_without_children };
            // If the GPU reports the end, a missing stop was lost.
            let has_ended = kernel.has_ended || kernel.last < quiet_without_stop && self.has_run(at, tasks);
            let is_quiet = has_ended && kernel.last < before;
            let waits_for_gpu = || is_timed && kernel.last >= quiet_without_gpu && self.awaits_gpu(at, tasks);
            let is_over = is_quiet && !waits_for_gpu();
            let is_in_order = kept.is_empty() || kernel.last < quiet_after_earlier;
            if is_over && is_in_order && (member.is_some() || matches!(until, Until::End)) {
                over.push(*tasks);
            } else {
                kept.extend(tasks.iter().map(|task| task.id));
            }
        }
        for kernel in over {
            self.end_kernel(at, kernel, sums, symbols);
        }
        if let Some(context) = self.contexts.get_mut(at) {
            context.queue = kept;
        }
    }
}

// The operations of a kernel are summed up together, because some get their times from others.

#[derive(Clone, Copy, Debug)]
pub(super) struct Task {
    pub(super) enqueued: u64,
    /// The launch plan (one kernel); 0 if unknown.
    pub(super) plan: u64,
    pub(super) start: u64,
    pub(super) id: u64,
    pub(super) has_ended: bool,
    pub(super) has_times: bool,
    /// Whether no children are expected.
    pub(super) is_alone: bool,
    pub(super) last: u64,
}

/// An operation that ended, with its launch if known.
struct Ended {
    id: u64,
    operation: Operation,
    started: Started,
    call: OfCall,
    launch: Option<Launch>,
}

impl Ended {
    fn own_launch(&self) -> Option<Launch> {
        self.launch.filter(|_| self.call.is_first)
    }

    /// The id that GPU times refer to: the launch's, or the operation's own if copy engines do the work.
    fn timed(&self) -> Option<u64> {
        if self.started.is_by_copy_engines { Some(self.id) } else { Some(self.own_launch()?.id) }
    }
}

impl OpenEvents {
    /// Whether GPU times of a kernel are still expected.
    pub(super) fn awaits_gpu(&self, at: u32, kernel: &[Task]) -> bool {
        self.gpu.times_launches() && self.timed(at, kernel).flatten().any(|id| self.gpu.awaits(id))
    }

    /// Whether the GPU timed all operations of a kernel, which have therefore ended.
    pub(super) fn has_run(&self, at: u32, kernel: &[Task]) -> bool {
        self.gpu.times_launches() && self.timed(at, kernel).all(|id| id.is_some_and(|id| self.gpu.has_timed(id)))
    }

    /// For each operation, the id that GPU times refer to: the launch's, or its own if copy engines do the work.
    fn timed(&self, at: u32, kernel: &[Task]) -> impl Iterator<Item = Option<u64>> {
        let mut launches = None;
        kernel.iter().map(move |task| {
            let operation = self.operations.get(task.id)?;
            if operation.started?.is_by_copy_engines {
                return Some(task.id);
            }
            let call = operation.call?;
            let launches = launches.get_or_insert_with(|| self.calls.launches(task.plan, &call, at));
            launches.of(task.start, &call).filter(|_| call.is_first).map(|launch| launch.id)
        })
    }

    pub(super) fn end_kernel(&mut self, at: u32, kernel: &[Task], sums: &mut Sums, symbols: &Symbols) {
        let mut calls: Few<OfCall> = Few::new();
        let mut ended: Few<Ended> = Few::with_capacity(kernel.len());
        let mut launches = None;
        for task in kernel {
            let Some(operation) = self.operations.remove(task.id) else {
                continue;
            };
            self.network.forget(&operation.unreported);
            let (Some(started), Some(call)) = (operation.started, operation.call) else {
                continue;
            };
            calls.push(call);
            // Captured in a graph, the operation did not run.
            if !call.is_at_capture {
                let launches = launches.get_or_insert_with(|| self.calls.launches(task.plan, &call, at));
                ended.push(Ended { id: task.id, operation, started, call, launch: launches.of(task.start, &call) });
            }
        }
        self.bound_gpu_clock(at, &ended);
        self.sum_up(at, &ended, sums, symbols);
        self.calls.end_kernel(kernel.first().map_or(0, |task| task.plan), at, calls.into_iter());
    }

    /// Bounds the GPU's clock: no kernel began before its launch, or ended after its end was reported.
    fn bound_gpu_clock(&mut self, at: u32, ended: &[Ended]) {
        let Some(context) = self.contexts.get_mut(at) else {
            return;
        };
        for it in ended {
            if let Some((gpu_ns, _)) = it.operation.gpu {
                // A graph's launch was captured long before, or is unknown.
                let launched = it.launch.map(|launch| launch.start);
                let earliest = if it.call.is_captured { Some(it.started.start) } else { launched };
                let not_before = earliest.map(|earliest| (gpu_ns, self.clock.ns(earliest)));
                context.gpu.add(gpu_ns, not_before, it.operation.not_after);
            }
        }
    }

    fn sum_up(&mut self, at: u32, ended: &[Ended], sums: &mut Sums, symbols: &Symbols) {
        let Some(context) = self.contexts.get_mut(at) else {
            return;
        };
        let mut intervals: Few<Interval> = Few::with_capacity(ended.len());
        let mut errors_ns: Few<Option<u64>> = Few::with_capacity(ended.len());
        for it in ended {
            let Ended { operation, started, .. } = it;
            let clock_ns = self.clock.error_ns(self.clock.ns(started.start));
            let timed = it.timed();
            let is_shared = || ended.iter().filter(|other| other.timed() == timed).count() > 1;
            if let Some((interval, error_ns)) = timed.and_then(|launch| self.gpu.ran(launch, is_shared(), &self.clock))
            {
                intervals.push(interval);
                errors_ns.push(clock_ns.map(|clock_ns| error_ns + clock_ns));
                continue;
            }
            let span = |(from, to): (u64, u64), ns: &dyn Fn(u64) -> u64| (ns(from), ns(to));
            let ns = |ticks| self.clock.ns(ticks);
            let clock = context.gpu.clock();
            // Reads the clock only for the time that counts.
            let known = match (operation.gpu, operation.kernel_on_host) {
                (Some(gpu), _) => OperationTimes {
                    kernel: Some(span(gpu, &|gpu_ns| clock.host_ns(gpu_ns))),
                    ..OperationTimes::default()
                },
                (None, Some(kernel)) => {
                    OperationTimes { kernel_on_host: Some(span(kernel, &ns)), ..OperationTimes::default() }
                }
                (None, None) => {
                    let launch = it.own_launch();
                    let launched = launch.map_or(started.start, |launch| launch.returned());
                    OperationTimes {
                        launched: ns(launched),
                        enqueued: span((started.start, operation.stop.unwrap_or(started.start)), &ns),
                        proxy_last: operation.proxy_last.map(ns),
                        is_by_copy_engines: started.is_by_copy_engines,
                        ..OperationTimes::default()
                    }
                }
            };
            let interval = Interval::new(&known, 0);
            intervals.push(interval);
            let gpu_ns = if interval.timing == Timing::KernelChannel { clock.quality.error_ns() } else { Some(0) };
            errors_ns.push(gpu_ns.zip(clock_ns).map(|(gpu_ns, clock_ns)| gpu_ns + clock_ns));
        }
        share_kernel(&mut intervals, context.earlier);
        intervals.iter().for_each(|interval| context.earlier.add(interval));
        let knows_ranks = context.by_init.1 > 0;
        let Some(member) = context.member else {
            self.without_communicator += ended.len() as u64;
            return;
        };
        for (it, (interval, error_ns)) in ended.iter().zip(intervals.into_iter().zip(errors_ns)) {
            self.add_to_derived(it, interval, symbols);
            let ended = self.summed_up(it, (member, interval, error_ns), sums, symbols);
            let has_bandwidth = knows_ranks && !it.started.is_by_copy_engines;
            sums.operation(&EndedOperation { has_bandwidth, ..ended });
        }
    }

    /// Adds a send or receive to its derived collective, if there is one.
    fn add_to_derived(&mut self, it: &Ended, interval: Interval, symbols: &Symbols) {
        let Details::PointToPoint { peer } = it.started.details else {
            return;
        };
        let contexts = &self.contexts;
        let ranks = |context: u32| {
            let (rank, ranks) = contexts.get(context)?.by_init;
            Some((rank, usize::try_from(ranks).ok()?))
        };
        if let Some((group, call)) = self.calls.derived(&it.call, symbols, ranks) {
            let member = (symbols.text(it.started.func), peer);
            self.derived.add((group, it.call.replay), call, member, (interval, it.operation.last));
        }
    }

    /// Sums up derived collectives without records since `before`; at the end of a process, all.
    pub(super) fn settle_derived(&mut self, before: u64, sums: &mut Sums, symbols: &Symbols) {
        let has_open = |group| before != u64::MAX && self.calls.has_open(group);
        for (group, execution) in self.derived.take(before, has_open) {
            let Execution { call, interval, .. } = execution;
            let Some(is_whole) = execution.is_whole() else {
                self.calls.reject_collective(group);
                continue;
            };
            let Some(member) = self.contexts.get(call.context).and_then(|context| context.member) else {
                continue;
            };
            let collective = call.pattern.collective();
            let (function, algorithm) = (sums.name(&format!("nccl{}", collective.name())), sums.name(""));
            sums.operation(&EndedOperation {
                member,
                function,
                algorithm,
                is_point_to_point: false,
                peer: None,
                bytes: call.count.saturating_mul(self.meanings.element_bytes(call.datatype, symbols)),
                collective: Some(collective),
                has_bandwidth: is_whole,
                root: call.rank,
                sequence: None,
                interval,
                error_ns: None,
            });
        }
    }

    fn summed_up(
        &mut self,
        Ended { started, call, .. }: &Ended,
        (member, interval, error_ns): (Member, Interval, Option<u64>),
        sums: &mut Sums,
        symbols: &Symbols,
    ) -> EndedOperation {
        let function = self.meanings.function(started.func, started.is_by_copy_engines, (symbols, sums));
        let (algorithm, peer, sequence, root) = match started.details {
            Details::Collective { sequence, root, algorithm, protocol } => {
                let algorithm = self.meanings.algorithm((algorithm, protocol), (symbols, sums));
                (algorithm, None, Some((sequence, call.replay)), root)
            }
            Details::PointToPoint { peer } => {
                (self.meanings.algorithm(Default::default(), (symbols, sums)), Some(peer), None, -1)
            }
        };
        EndedOperation {
            member,
            function: function.name,
            algorithm,
            is_point_to_point: peer.is_some(),
            peer,
            bytes: started.count.saturating_mul(self.meanings.element_bytes(started.datatype, symbols)),
            collective: function.collective,
            has_bandwidth: false,
            root,
            sequence,
            interval,
            error_ns,
        }
    }
}
