//! Kernel channels that have not ended.

use std::collections::BTreeMap;

use job::stamps::{Work, judge, pair};
use nccl_events::event::KernelCh;
use rustc_hash::FxHashMap;

use crate::process::ids::{Lifecycle, SeenIds};
use crate::process::operations::{Operations, widen};

#[derive(Clone, Copy, Debug, Default)]
struct Channel {
    /// 0 until the start is read.
    start: u64,
    operation: u64,
    context: u32,
    channel: u8,
    is_awaited: bool,
    gpu_start_ns: u64,
    gpu_stop_ns: u64,
    /// When the state with the stop's stamp came.
    reported: u64,
    stop: u64,
}

/// How many trusted kernels of a channel are kept to compare new ones with.
const BELIEVED: usize = 8;

/// A kernel channel that ended. Times are ticks.
#[derive(Clone, Copy, Debug)]
struct Ended {
    id: u64,
    operation: u64,
    start: u64,
    reported: u64,
    stop: u64,
    is_judged: bool,
}

/// The works of a channel, with stamps that are plausible on their own.
#[derive(Debug, Default)]
struct Ring {
    coming: Vec<(Ended, (u64, u64))>,
    /// Works to be judged, and the last trusted ones, in launch order.
    works: Vec<Work<Ended>>,
}

/// A stamp of the GPU's timer that was not after a tick of the host.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bound {
    pub(crate) operation: u64,
    pub(crate) gpu_ns: u64,
    pub(crate) ticks: u64,
}

#[derive(Debug, Default)]
pub(crate) struct Kernels {
    all: FxHashMap<u64, Channel>,
    rings: BTreeMap<(u32, u8), Ring>,
    /// Upper bounds for the GPUs' clocks, since they were last taken.
    pub(crate) bounds: Vec<Bound>,
    pub(crate) late: u64,
}

impl Kernels {
    pub(crate) fn start(
        &mut self,
        (id, ticks): (u64, u64),
        (operation, context): (u64, u32),
        fields: &KernelCh,
        (operations, seen): (&mut Operations, &SeenIds),
    ) {
        let is_awaited = operations.touch(operation, ticks, seen).map(|it| it.open += 1).is_some();
        let one = self.all.entry(id).or_default();
        let Channel { gpu_stop_ns, reported, stop, .. } = *one;
        let (channel, gpu_start_ns) = (fields.channel, fields.gpu_ns);
        *one = Channel {
            start: ticks,
            operation,
            context,
            channel,
            is_awaited,
            gpu_start_ns,
            gpu_stop_ns,
            reported,
            stop,
        };
        if stop != 0 {
            self.stop(id, stop, operations, seen);
        }
    }

    fn get(&mut self, id: u64, seen: &SeenIds) -> Option<&mut Channel> {
        if !self.all.contains_key(&id) {
            if seen.lifecycle(id) != Lifecycle::NotStarted {
                self.late += u64::from(seen.lifecycle(id) == Lifecycle::Ended);
                return None;
            }
            self.all.insert(id, Channel::default());
        }
        self.all.get_mut(&id)
    }

    /// NCCL reports when the GPU ended the channel.
    pub(crate) fn gpu_stopped(&mut self, id: u64, ticks: u64, gpu_ns: u64, seen: &SeenIds) {
        if let Some(channel) = self.get(id, seen)
            && channel.gpu_stop_ns == 0
        {
            (channel.gpu_stop_ns, channel.reported) = (gpu_ns, ticks);
        }
    }

    pub(crate) fn stop(&mut self, id: u64, ticks: u64, operations: &mut Operations, seen: &SeenIds) {
        let Some(channel) = self.get(id, seen) else {
            return;
        };
        if channel.start == 0 {
            channel.stop = ticks;
            return;
        }
        let channel = *channel;
        self.all.remove(&id);
        let Some(operation) = operations.get_mut(channel.operation) else {
            return;
        };
        operation.open = operation.open.saturating_sub(u32::from(channel.is_awaited));
        operation.kernel_on_host = widen(operation.kernel_on_host, channel.start, ticks.max(channel.start));
        operation.last = ticks.max(operation.last);
        if let Ok(stamps) = pair(channel.gpu_start_ns, channel.gpu_stop_ns) {
            operation.unjudged += 1;
            let Channel { operation, start, reported, .. } = channel;
            let ended = Ended { id, operation, start, reported, stop: ticks, is_judged: false };
            self.rings.entry((channel.context, channel.channel)).or_default().coming.push((ended, stamps));
        }
    }

    /// Judges the stamps reported in a span of 2^`shift` ticks once all threads were read up to the end of the next
    /// span. Spans do not depend on when they are read, so neither does the verdict.
    pub(crate) fn judge(&mut self, until: u64, shift: u32, operations: &mut Operations) {
        for ring in self.rings.values_mut() {
            while let Some(span) = ring.first_span(shift).filter(|span| span + 2 <= until >> shift) {
                ring.take_in(span + 1, shift, operations);
                ring.judge(span, shift, &mut self.bounds, operations);
            }
        }
    }
}

impl Ring {
    fn first_span(&self, shift: u32) -> Option<u64> {
        let works = self.works.iter().map(|work| &work.of).filter(|of| !of.is_judged);
        works.chain(self.coming.iter().map(|(of, _)| of)).map(|of| of.stop >> shift).min()
    }

    fn take_in(&mut self, last: u64, shift: u32, operations: &Operations) {
        let ended = self.coming.extract_if(.., |(of, _)| of.stop >> shift <= last);
        for (of, (start_gpu_ns, stop_gpu_ns)) in ended {
            let started = operations.get(of.operation).and_then(|operation| operation.started);
            let (enqueued, plan) = started.map_or((of.start, 0), |started| (started.enqueued, started.plan));
            self.works.push(Work { enqueued, plan, start_gpu_ns, stop_gpu_ns, of });
        }
        let order = |work: &Work<Ended>| (work.enqueued, work.plan, work.start_gpu_ns, work.stop_gpu_ns, work.of.id);
        if !self.works.is_sorted_by_key(order) {
            self.works.sort_unstable_by_key(order);
        }
    }

    fn judge(&mut self, span: u64, shift: u32, bounds: &mut Vec<Bound>, operations: &mut Operations) {
        let mut distrusted = Vec::new();
        judge(&self.works, |of, _| distrusted.push(of.id));
        distrusted.sort_unstable();
        let mut believed = 0;
        self.works.retain_mut(|work| {
            let of = &mut work.of;
            if of.is_judged || of.stop >> shift != span {
                believed += usize::from(of.is_judged);
                return true;
            }
            of.is_judged = true;
            let Some(operation) = operations.get_mut(of.operation) else {
                return false;
            };
            operation.unjudged = operation.unjudged.saturating_sub(1);
            if distrusted.binary_search(&of.id).is_ok() {
                return false;
            }
            operation.gpu = widen(operation.gpu, work.start_gpu_ns, work.stop_gpu_ns);
            let bound = |gpu_ns, ticks| Bound { operation: of.operation, gpu_ns, ticks };
            bounds.push(bound(work.start_gpu_ns, of.start));
            bounds.extend((of.reported != 0).then(|| bound(work.stop_gpu_ns, of.reported)));
            believed += 1;
            true
        });
        self.works.retain(|work| {
            let is_forgotten = work.of.is_judged && believed > BELIEVED;
            believed -= usize::from(is_forgotten);
            !is_forgotten
        });
    }
}
