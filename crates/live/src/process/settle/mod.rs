//! Aggregates completed operations and steps.
//!
//! NCCL stops an operation when it is enqueued; its children come when it runs, and none is marked as the last. So an
//! operation is over when every part that began has ended and no record came for a while. If NCCL reports times for
//! other operations of the communicator, an operation without times is over when a later one with times is.

mod kernel;

use journal::reader::Symbols;
use nccl_events::Kind;
use nccl_events::ids::{index, index_u32};

use self::kernel::Task;
use super::open::OpenEvents;
use crate::sums::{Connection, EndedStep, Sums};

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
