//! Operations of which nothing goes on are summed up, and steps that ended.
//!
//! NCCL stops an operation when it is enqueued; its children come when it runs, and nothing says which one is the last.
//! So an operation is over when all of it that began has ended and nothing came for a while. Where NCCL reports of
//! others of the communicator when they ran, one of which it reported nothing is over when a later one is.

mod kernel;

use clocks::ticks::HostClock;
use journal::reader::Symbols;
use nccl_events::Kind;

use self::kernel::{Task, launch};
use super::open::OpenEvents;
use crate::sums::{Connection, EndedStep, Sums};

/// Steps of ranks of which it is not known who they are.
const MOST_UNKNOWN: usize = 1 << 14;
/// How many times as long as usual is waited for an earlier operation.
const FOR_EARLIER: u64 = 4;
/// The same for what NCCL reports of an operation, where it reports of others, and where it may.
const FOR_CHILDREN: u64 = 60;
const FOR_FIRST_CHILDREN: u64 = 5;
/// The same for what GPUs tell.
const FOR_GPU: u64 = 3;

/// Up to when all records were read.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Until {
    /// These ticks; nothing came for a while where nothing came for so many ns.
    Ticks(u64, u64),
    /// The end.
    End,
}

/// What became of a kernel's operations.
struct KernelState {
    has_ended: bool,
    has_times: bool,
    is_alone: bool,
    is_awaited: bool,
    last: u64,
}

impl KernelState {
    fn of(tasks: &[Task]) -> Self {
        Self {
            has_ended: tasks.iter().all(|task| task.has_ended),
            has_times: tasks.iter().any(|task| task.has_times),
            is_alone: tasks.iter().all(|task| task.is_alone),
            is_awaited: tasks.iter().any(|task| task.is_awaited),
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
        sums.note_clock(self.clock.error_ns());
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
                has_times: operation.has_times(),
                is_alone: started.is_by_copy_engines || operation.call.is_some_and(|call| call.is_at_capture),
                is_awaited: launch(id, &started, operation).is_some_and(|launch| self.gpu.awaits(launch)),
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
        let quiet_for = |times: u64| match until {
            Until::End => u64::MAX,
            Until::Ticks(now, settle_ns) => now.saturating_sub(ticks(self.clock.host(), now, times * settle_ns)),
        };
        let [quiet, quiet_without_children, quiet_without_gpu, quiet_after_earlier] =
            [1, patience, FOR_GPU, FOR_EARLIER].map(quiet_for);
        let mut kept = Vec::new();
        let mut over = Vec::new();
        for (number, (tasks, kernel)) in kernels.iter().enumerate() {
            let is_timed = kernel.has_times || kernel.is_alone || number < last_timed;
            let before = match (is_timed, kernel.is_awaited) {
                (false, _) => quiet_without_children,
                (true, true) => quiet_without_gpu,
                (true, false) => quiet,
            };
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
}
