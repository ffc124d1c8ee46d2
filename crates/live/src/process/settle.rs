//! Operations of which nothing goes on are summed up, and steps that ended.
//!
//! NCCL stops an operation when it is enqueued; its children come when it runs, and nothing says which one is the last.
//! So an operation is over when all of it that began has ended and nothing came for a while. Where NCCL tells of others
//! of the communicator when they ran, one that it told nothing of is over when a later one is.

use clocks::ticks::HostClock;
use journal::reader::Symbols;
use nccl_events::Kind;
use nccl_events::archive::Timing;
use nccl_events::collective::shape;
use tables::interval::{Interval, Known, share_kernel};

use super::OpenEvents;
use super::derived::EndedCollective;
use super::operations::{Details, Operation, Started};
use crate::sums::{Connection, EndedOperation, EndedStep, Member, Sums};

/// Steps of ranks of which it is not known who they are.
const MOST_UNKNOWN: usize = 1 << 14;
/// How many times as long as usual is waited for an earlier operation.
const FOR_EARLIER: u64 = 4;
/// The same for what NCCL tells of an operation, where it tells of others, and where it may.
const FOR_CHILDREN: u64 = 60;
const FOR_FIRST_CHILDREN: u64 = 5;

/// Up to when all records were read.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Until {
    /// These ticks; nothing came for a while where nothing came for so many ns.
    Ticks(u64, u64),
    /// The end.
    End,
}

/// An operation in the order of kernels.
#[derive(Clone, Copy, Debug)]
struct Task {
    enqueued: u64,
    /// The launch plan (one kernel); 0: unknown.
    plan: u64,
    start: u64,
    id: u64,
    has_ended: bool,
    is_told: bool,
    /// Whether children are not to be expected.
    is_alone: bool,
    last: u64,
}

/// What became of a kernel's operations.
struct KernelState {
    has_ended: bool,
    is_told: bool,
    is_alone: bool,
    last: u64,
}

impl KernelState {
    fn of(tasks: &[Task]) -> Self {
        Self {
            has_ended: tasks.iter().all(|task| task.has_ended),
            is_told: tasks.iter().any(|task| task.is_told),
            is_alone: tasks.iter().all(|task| task.is_alone),
            last: tasks.iter().map(|task| task.last).max().unwrap_or(0),
        }
    }
}

/// Ticks of a length of time.
fn ticks(clock: &HostClock, near: u64, ns: u64) -> u64 {
    const RUN: u64 = 1 << 24;
    let from = near.saturating_sub(RUN);
    let rise = clock.nanoseconds(from + RUN).saturating_sub(clock.nanoseconds(from)).max(1);
    u64::try_from(u128::from(ns) * u128::from(RUN) / u128::from(rise)).unwrap_or(u64::MAX)
}

impl OpenEvents {
    /// Sums up what is over. `owner` is the process by its number, and its part.
    pub(crate) fn settle(&mut self, until: Until, sums: &mut Sums, symbols: &Symbols, owner: (usize, &str)) {
        self.take_in(sums, symbols, owner);
        let contexts = u32::try_from(self.contexts.all.len()).unwrap_or(u32::MAX);
        for context in 0..contexts {
            self.settle_context(context, until, sums, symbols);
        }
        let before = match until {
            Until::Ticks(now, settle_ns) => {
                let before = now.saturating_sub(ticks(self.clock.host(), now, FOR_CHILDREN * settle_ns));
                self.operations.forget_unstarted(before, &self.seen);
                now.saturating_sub(ticks(self.clock.host(), now, FOR_EARLIER * settle_ns))
            }
            Until::End => u64::MAX,
        };
        self.settle_derived(before, sums, symbols);
    }

    /// Sums up steps, and finds out who contexts are.
    pub(crate) fn take_in(&mut self, sums: &mut Sums, symbols: &Symbols, owner: (usize, &str)) {
        self.clock.update();
        self.contexts.identify(&mut sums.communicators, symbols, owner);
        let mut reader = self.clock.host().reader();
        for bound in self.kernels.bounds.drain(..) {
            let host_ns = reader.nanoseconds(bound.ticks);
            if let Some(context) = self.contexts.get_mut(bound.context) {
                context.gpu.not_after(bound.gpu_ns, host_ns);
            }
        }
        self.places.resize(self.network.connections.len(), None);
        let mut unknown = Vec::new();
        for step in self.network.ended.drain(..) {
            let at = usize::try_from(step.connection).unwrap_or(usize::MAX);
            let (Some(place), Some(connection)) = (self.places.get_mut(at), self.network.connections.get(at)) else {
                continue;
            };
            if place.is_none() {
                let context = self.contexts.get_mut(connection.context);
                let (Some(member), Ok(peer)) =
                    (context.and_then(|context| context.member), u32::try_from(connection.peer))
                else {
                    unknown.push(step);
                    continue;
                };
                let (channel, is_send) = (connection.channel.into(), connection.is_send);
                *place = Some(sums.places(Connection { member, channel, peer, is_send }));
            }
            if let Some(context) = self.contexts.get_mut(connection.context) {
                context.last = step.stop.max(context.last);
            }
            let (start_ns, [first_ns, second_ns, third_ns]) = step.phases(|ticks| reader.nanoseconds(ticks));
            if let Some(place) = *place {
                sums.step(place, &EndedStep { start_ns, first_ns, second_ns, third_ns, bytes: step.bytes });
            }
        }
        self.network.late += u64::try_from(unknown.len().saturating_sub(MOST_UNKNOWN)).unwrap_or(0);
        unknown.truncate(MOST_UNKNOWN);
        self.network.ended = unknown;
    }

    fn tasks(&mut self, context: u32) -> Vec<Task> {
        let queue = self.contexts.get_mut(context).map(|context| std::mem::take(&mut context.queue));
        let mut tasks: Vec<Task> = Vec::new();
        for id in queue.unwrap_or_default() {
            let Some((operation, started)) = self.operations.get(id).and_then(|it| Some((it, it.started?))) else {
                continue;
            };
            tasks.push(Task {
                enqueued: started.enqueued,
                plan: started.plan,
                start: started.start,
                id,
                has_ended: operation.has_ended(),
                is_told: operation.is_told(),
                is_alone: started.is_by_copy_engines || operation.call.is_some_and(|call| call.is_at_capture),
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
        let last_told = kernels.iter().rposition(|(_, kernel)| kernel.is_told && kernel.has_ended).unwrap_or(0);
        let may_tell = self.recorder.event_mask & (Kind::KernelCh.mask() | Kind::ProxyOp.mask()) != 0;
        let Some(context) = self.contexts.get_mut(at) else {
            return;
        };
        context.tells |= kernels.iter().any(|(_, kernel)| kernel.is_told);
        context.last = tasks.iter().map(|task| task.last).max().unwrap_or(0).max(context.last);
        let patience = match (context.tells, may_tell) {
            (true, _) => FOR_CHILDREN,
            (false, true) => FOR_FIRST_CHILDREN,
            (false, false) => 1,
        };
        let member = context.member;
        let quiet_for = |times: u64| match until {
            Until::End => u64::MAX,
            Until::Ticks(now, settle_ns) => now.saturating_sub(ticks(self.clock.host(), now, times * settle_ns)),
        };
        let [quiet, quiet_without_children, quiet_after_earlier] = [1, patience, FOR_EARLIER].map(quiet_for);
        let mut kept = Vec::new();
        let mut over = Vec::new();
        for (number, (tasks, kernel)) in kernels.iter().enumerate() {
            let is_told_of = kernel.is_told || kernel.is_alone || number < last_told;
            let before = if is_told_of { quiet } else { quiet_without_children };
            let is_over = kernel.has_ended && kernel.last < before;
            let is_in_order = kept.is_empty() || kernel.last < quiet_after_earlier;
            if is_over && is_in_order && (member.is_some() || matches!(until, Until::End)) {
                over.push(*tasks);
            } else {
                kept.extend(tasks.iter().map(|task| task.id));
            }
        }
        self.bound_gpu_clock(at, over.iter().copied().flatten());
        for kernel in over {
            self.end_kernel(at, kernel, sums, symbols);
        }
        if let Some(context) = self.contexts.get_mut(at) {
            context.queue = kept.into();
        }
    }

    /// No kernel began before its launch.
    fn bound_gpu_clock<'a>(&mut self, at: u32, tasks: impl Iterator<Item = &'a Task>) {
        let Some(context) = self.contexts.get_mut(at) else {
            return;
        };
        let mut reader = self.clock.host().reader();
        for operation in tasks.filter_map(|task| self.operations.get(task.id)) {
            let earliest = operation.call.and_then(|call| call.earliest);
            if let (Some((gpu_ns, _)), Some(earliest)) = (operation.gpu, earliest) {
                context.gpu.not_before(gpu_ns, reader.nanoseconds(earliest));
            }
        }
        context.gpu.fit();
    }

    /// Sums up the operations of a kernel.
    fn end_kernel(&mut self, at: u32, kernel: &[Task], sums: &mut Sums, symbols: &Symbols) {
        let mut ended: Vec<(Operation, Started)> = Vec::with_capacity(kernel.len());
        for task in kernel {
            let Some(mut operation) = self.operations.remove(task.id) else {
                continue;
            };
            self.network.forget(&operation.silent);
            let Some(started) = operation.started else {
                continue;
            };
            if operation.call.is_none() {
                operation.call = self.calls.of_operation(started.parent, started.slot, started.start, at);
            }
            // Put into a graph, it did not run.
            if !operation.call.is_some_and(|call| call.is_at_capture) {
                ended.push((operation, started));
            }
        }
        let Some(context) = self.contexts.get_mut(at) else {
            return;
        };
        let mut reader = self.clock.host().reader();
        let mut intervals: Vec<Interval> = Vec::with_capacity(ended.len());
        for (operation, started) in &ended {
            let call = operation.call.unwrap_or_default();
            let stop = operation.stop.unwrap_or(started.start);
            let span = |(from, to): (u64, u64), ns: &mut dyn FnMut(u64) -> u64| (ns(from), ns(to));
            let clock = context.gpu.clock();
            let known = Known {
                launched: reader.nanoseconds(call.launched.unwrap_or(started.start)),
                enqueued: span((started.start, stop), &mut |ticks| reader.nanoseconds(ticks)),
                kernel: operation.gpu.map(|gpu| span(gpu, &mut |gpu_ns| clock.host_ns(gpu_ns))),
                kernel_on_host: operation.kernel_on_host.map(|it| span(it, &mut |ticks| reader.nanoseconds(ticks))),
                proxy_last: operation.proxy_last.map(|last| reader.nanoseconds(last)),
                unfinished: false,
                is_by_copy_engines: started.is_by_copy_engines,
            };
            intervals.push(Interval::of(&known, 0));
        }
        share_kernel(&mut intervals, context.earlier);
        intervals.iter().for_each(|interval| context.earlier.add(interval));
        let (member, gpu_error_ns) = (context.member, context.gpu.error_ns());
        let Some(member) = member else {
            self.without_communicator += ended.len() as u64;
            return;
        };
        for ((operation, started), interval) in ended.iter().zip(intervals) {
            self.add_to_derived((operation, started), interval, symbols);
            let ended = self.summed_up((operation, started), (member, interval, gpu_error_ns), sums, symbols);
            sums.operation(&ended);
        }
    }

    /// A send or receive may be one of those that a collective is made of.
    fn add_to_derived(&mut self, (operation, started): (&Operation, &Started), interval: Interval, symbols: &Symbols) {
        let Details::PointToPoint { peer } = started.details else {
            return;
        };
        let contexts = &self.contexts;
        let ranks = |context: u32| {
            let (rank, ranks) = contexts.get(context)?.said;
            Some((rank, usize::try_from(ranks).ok()?))
        };
        if let Some((group, call)) = self.calls.derived(started.parent, symbols, ranks) {
            let replay = operation.call.map_or(0, |call| call.replay);
            self.derived.add((group, replay), call, (started.func, peer), (interval, operation.last));
        }
    }

    /// Sums up collectives that were made of sends and receives.
    fn settle_derived(&mut self, before: u64, sums: &mut Sums, symbols: &Symbols) {
        for EndedCollective { call, interval, is_whole } in self.derived.take(before) {
            let Some(member) = self.contexts.get(call.context).and_then(|context| context.member) else {
                continue;
            };
            let shape = shape(call.pattern.func());
            let (function, algorithm) = (sums.name(&format!("nccl{}", call.pattern.func())), sums.name(""));
            sums.operation(&EndedOperation {
                member,
                function,
                algorithm,
                is_point_to_point: false,
                peer: None,
                bytes: call.count.saturating_mul(self.words.element_bytes(call.datatype, symbols)),
                // Where something is missing, that may have ended later: a bandwidth would be made up.
                shape: shape.filter(|_| is_whole),
                root: call.rank,
                sequence: None,
                interval,
                error_ns: None,
            });
        }
    }

    fn summed_up(
        &mut self,
        (operation, started): (&Operation, &Started),
        (member, interval, gpu_error_ns): (Member, Interval, Option<u64>),
        sums: &mut Sums,
        symbols: &Symbols,
    ) -> EndedOperation {
        let function = self.words.function(started.func, started.is_by_copy_engines, (symbols, sums));
        let replay = operation.call.map_or(0, |call| call.replay);
        let (algorithm, peer, sequence, root) = match started.details {
            Details::Collective { sequence, root, algorithm, protocol } => {
                let algorithm = self.words.algorithm((algorithm, protocol), (symbols, sums));
                (algorithm, None, Some((sequence, replay)), root)
            }
            Details::PointToPoint { peer } => {
                let none = self.words.algorithm(Default::default(), (symbols, sums));
                (none, Some(peer), None, -1)
            }
        };
        let own_error_ns = match interval.timing {
            Timing::KernelChannel => gpu_error_ns,
            _ => Some(0),
        };
        EndedOperation {
            member,
            function: function.name,
            algorithm,
            is_point_to_point: peer.is_some(),
            peer,
            bytes: started.count.saturating_mul(self.words.element_bytes(started.datatype, symbols)),
            shape: function.shape,
            root,
            sequence,
            interval,
            error_ns: own_error_ns.map(|error_ns| error_ns + self.clock.error_ns()),
        }
    }
}
