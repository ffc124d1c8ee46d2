//! Kernel channels that have not ended.

use std::collections::BTreeMap;

use job::stamps::{Work, judge, pair};
use nccl_events::event::KernelCh;
use rustc_hash::FxHashMap;

use crate::process::ids::{Fate, Seen};
use crate::process::operations::{Operations, Started, widen};

/// A collective's kernel on one channel.
#[derive(Clone, Copy, Debug, Default)]
struct Channel {
    /// 0 before its start was read.
    start: u64,
    operation: u64,
    context: u32,
    channel: u8,
    is_awaited: bool,
    gpu_start_ns: u64,
    gpu_stop_ns: u64,
    /// When the state that brings the stop's stamp came.
    reported: u64,
    stop: u64,
}

/// So many kernels of a channel that were believed are held against those that come.
const BELIEVED: usize = 8;

/// A kernel channel that ended, with plausible stamps.
#[derive(Clone, Copy, Debug)]
struct Stamped {
    operation: u64,
    gpu_start_ns: u64,
    gpu_stop_ns: u64,
    start: u64,
    reported: u64,
    stop: u64,
}

/// What ran on a channel.
#[derive(Debug, Default)]
struct Ring {
    /// The last ones that were believed, in the order of launches.
    believed: Vec<Work<Option<usize>>>,
    /// Those that are not judged yet.
    stamped: Vec<Stamped>,
}

/// A stamp of the GPU's timer that was not after a tick of the host.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bound {
    pub(crate) operation: u64,
    pub(crate) gpu_ns: u64,
    pub(crate) ticks: u64,
}

/// Kernel channels of a process.
#[derive(Debug, Default)]
pub(crate) struct Kernels {
    all: FxHashMap<u64, Channel>,
    /// By context and channel.
    rings: BTreeMap<(u32, u8), Ring>,
    /// What bounds the GPUs' clocks from above, since this was last looked at.
    pub(crate) bounds: Vec<Bound>,
    pub(crate) late: u64,
}

impl Kernels {
    pub(crate) fn start(
        &mut self,
        (id, ticks): (u64, u64),
        (operation, context): (u64, u32),
        fields: &KernelCh,
        (operations, seen): (&mut Operations, &Seen),
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

    fn get(&mut self, id: u64, seen: &Seen) -> Option<&mut Channel> {
        if !self.all.contains_key(&id) {
            if seen.fate(id) != Fate::Coming {
                self.late += u64::from(seen.fate(id) == Fate::Over);
                return None;
            }
            self.all.insert(id, Channel::default());
        }
        self.all.get_mut(&id)
    }

    /// NCCL reports when the GPU ended it.
    pub(crate) fn gpu_stopped(&mut self, id: u64, ticks: u64, gpu_ns: u64, seen: &Seen) {
        if let Some(channel) = self.get(id, seen)
            && channel.gpu_stop_ns == 0
        {
            (channel.gpu_stop_ns, channel.reported) = (gpu_ns, ticks);
        }
    }

    pub(crate) fn stop(&mut self, id: u64, ticks: u64, operations: &mut Operations, seen: &Seen) {
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
        if let Ok((gpu_start_ns, gpu_stop_ns)) = pair(channel.gpu_start_ns, channel.gpu_stop_ns) {
            operation.unjudged += 1;
            let Channel { operation, start, reported, .. } = channel;
            let stamped = Stamped { operation, gpu_start_ns, gpu_stop_ns, start, reported, stop: ticks };
            self.rings.entry((channel.context, channel.channel)).or_default().stamped.push(stamped);
        }
    }

    /// Judges the stamps that were reported in a span of 2^`shift` ticks when all threads were read up to the end of
    /// the next span. Spans are the same whenever they are read, and so is what is believed.
    pub(crate) fn judge(&mut self, until: u64, shift: u32, operations: &mut Operations) {
        for ring in self.rings.values_mut() {
            let first = |ring: &Ring| ring.stamped.iter().map(|it| it.stop >> shift).min();
            while let Some(span) = first(ring).filter(|span| span + 2 <= until >> shift) {
                ring.judge(span, shift, &mut self.bounds, operations);
            }
        }
    }
}

impl Ring {
    fn judge(&mut self, span: u64, shift: u32, bounds: &mut Vec<Bound>, operations: &mut Operations) {
        let mut works = std::mem::take(&mut self.believed);
        for (at, it) in self.stamped.iter().enumerate().filter(|(_, it)| it.stop >> shift <= span + 1) {
            let started = operations.get(it.operation).and_then(|operation| operation.started);
            works.extend(started.map(|Started { enqueued, plan, .. }| {
                let Stamped { gpu_start_ns: start_gpu_ns, gpu_stop_ns: stop_gpu_ns, .. } = *it;
                Work { enqueued, plan, start_gpu_ns, stop_gpu_ns, of: Some(at) }
            }));
        }
        works.sort_unstable();
        let mut is_trusted: Vec<bool> = self.stamped.iter().map(|it| it.stop >> shift == span).collect();
        judge(&works, |at, _| {
            if let Some(is_trusted) = at.and_then(|at| is_trusted.get_mut(at)) {
                *is_trusted = false;
            }
        });
        works.retain(|work| work.of.is_none_or(|at| is_trusted.get(at) == Some(&true)));
        let forgotten = works.len().saturating_sub(BELIEVED);
        self.believed.extend(works.drain(forgotten..).map(|work| Work { of: None, ..work }));
        let mut is_trusted = is_trusted.into_iter();
        self.stamped.retain(|it| {
            let is_trusted = is_trusted.next() == Some(true);
            if it.stop >> shift != span {
                return true;
            }
            if let Some(operation) = operations.get_mut(it.operation) {
                operation.unjudged = operation.unjudged.saturating_sub(1);
                if is_trusted {
                    operation.gpu = widen(operation.gpu, it.gpu_start_ns, it.gpu_stop_ns);
                    let bound = |gpu_ns, ticks| Bound { operation: it.operation, gpu_ns, ticks };
                    bounds.push(bound(it.gpu_start_ns, it.start));
                    bounds.extend((it.reported != 0).then(|| bound(it.gpu_stop_ns, it.reported)));
                }
            }
            false
        });
    }
}
