//! Kernel channels that have not ended.

use nccl_events::event::KernelCh;
use rustc_hash::FxHashMap;

use crate::process::ids::{Fate, Seen};
use crate::process::operations::{Operations, widen};

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

/// After this many distrusted kernels in a row, the kernel that they were compared with is the wrong one.
const MOST_DISTRUSTED: u32 = 4;

/// The last kernel of a channel of which the stamps were trusted.
#[derive(Clone, Copy, Debug, Default)]
struct Ring {
    enqueued: u64,
    plan: u64,
    gpu_start_ns: u64,
    /// How many were not trusted since then.
    distrusted: u32,
}

impl Ring {
    /// Whether a start on the GPU can be that of a kernel: those of a channel run in the order in which they were
    /// enqueued.
    fn trusts(&mut self, (enqueued, plan): (u64, u64), gpu_start_ns: u64) -> bool {
        let is_same_kernel = plan != 0 && plan == self.plan;
        let is_in_order = match enqueued >= self.enqueued {
            true => gpu_start_ns > self.gpu_start_ns,
            false => gpu_start_ns < self.gpu_start_ns,
        };
        if !is_same_kernel && !is_in_order && self.distrusted < MOST_DISTRUSTED {
            self.distrusted += 1;
            return false;
        }
        if enqueued >= self.enqueued {
            *self = Self { enqueued, plan, gpu_start_ns, distrusted: 0 };
        }
        true
    }
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
    rings: FxHashMap<(u32, u8), Ring>,
    /// What bounds the GPUs' clocks from above, since this was last looked at.
    pub(crate) bounds: Vec<Bound>,
    pub(crate) late: u64,
}

/// Start and stop by themselves: both there, possible, and in this order.
const fn is_plausible(start_gpu_ns: u64, stop_gpu_ns: u64) -> bool {
    start_gpu_ns != 0 && start_gpu_ns <= stop_gpu_ns && stop_gpu_ns <= i64::MAX.unsigned_abs()
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
        let stamps = self.stamps(&channel, operations);
        if let Some(operation) = operations.get_mut(channel.operation) {
            operation.open = operation.open.saturating_sub(u32::from(channel.is_awaited));
            operation.kernel_on_host = widen(operation.kernel_on_host, channel.start, ticks.max(channel.start));
            operation.last = ticks.max(operation.last);
            if let Some((start, stop)) = stamps {
                operation.gpu = widen(operation.gpu, start, stop);
            }
        }
    }

    /// The GPU's start and stop where they can be trusted: NCCL reads them from a ring, where they may be those of a
    /// later kernel of the channel.
    fn stamps(&mut self, channel: &Channel, operations: &Operations) -> Option<(u64, u64)> {
        let Channel { context, gpu_start_ns, gpu_stop_ns, operation, .. } = *channel;
        if !is_plausible(gpu_start_ns, gpu_stop_ns) {
            return None;
        }
        let started = operations.get(operation).and_then(|operation| operation.started);
        if let Some(started) = started {
            let ring = self.rings.entry((context, channel.channel)).or_default();
            if !ring.trusts((started.enqueued, started.plan), gpu_start_ns) {
                return None;
            }
        }
        self.bounds.push(Bound { operation, gpu_ns: gpu_start_ns, ticks: channel.start });
        if channel.reported != 0 {
            self.bounds.push(Bound { operation, gpu_ns: gpu_stop_ns, ticks: channel.reported });
        }
        Some((gpu_start_ns, gpu_stop_ns))
    }
}
