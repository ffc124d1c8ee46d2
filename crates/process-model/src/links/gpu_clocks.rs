//! Collects what bounds a process's GPU clocks: launches, callbacks, and kernel times from CUPTI or CUDA events.
//!
//! Ranks on one GPU pool their bounds. If these contradict each other, the guess which ranks share a GPU was wrong, and
//! each rank gets a clock of its own.

use std::collections::BTreeMap;

use crate::links::Links;
use clocks::gpu::StampBounds;
use clocks::gpu::{GpuCalibration, GpuClock};
use nccl_events::ids::index;
use nccl_events::sort::Gather;
use nccl_events::state;
use tables::communicators::Comms;
use tables::{KernelCh, Tables};

/// The bounds of each communicator rank, from its trusted stamps.
fn collect(tables: &Tables, links: &Links) -> Vec<StampBounds> {
    let mut bounds = vec![StampBounds::default(); tables.contexts.len()];
    for (row, channel) in tables.rows::<KernelCh>() {
        let Some((start_gpu_ns, stop_gpu_ns)) = links.stamps.of_channel(row, channel) else {
            continue;
        };
        let Some(bound) = channel.context_at().and_then(|at| bounds.get_mut(index(at))) else {
            continue;
        };
        bound.not_after(start_gpu_ns, channel.start);
        if let Some(reported) = channel.state_time(state::KERNEL_CH_STOP) {
            bound.not_after(stop_gpu_ns, reported);
        }
        let activity = links.activities.find(tables, channel.parent);
        if let Some(earliest) = activity.and_then(|at| earliest_start(tables, links, at)) {
            bound.not_before(start_gpu_ns, earliest);
        }
        let ran = activity.map(|at| links.gpu.ran(index(at))).unwrap_or_default();
        for ran in ran.work.into_iter().chain(ran.events) {
            bound.after_kernel_began(start_gpu_ns, ran.start.saturating_sub(ran.uncertainty_ns));
            if !ran.unfinished {
                bound.before_kernel_ended(stop_gpu_ns, ran.end.saturating_add(ran.uncertainty_ns));
            }
        }
    }
    bounds
}

/// The time before which a kernel channel cannot have begun: its kernel's launch. A graph's kernels run long after
/// their launch was captured; they wait for the host function that starts their Coll or P2p.
fn earliest_start(tables: &Tables, links: &Links, activity: u32) -> Option<u64> {
    let activity = links.activity(activity)?;
    let operation = tables.operation(activity.operation);
    if tables.is_captured(tables.find(operation.parent)?) {
        return Some(operation.start);
    }
    Some(tables[activity.launch?].start)
}

/// The GPU clocks of a process, by index of the context. Times must already be nanoseconds.
pub fn gpu_clocks(tables: &Tables, links: &Links, comms: &Comms) -> Vec<GpuClock> {
    let bounds = collect(tables, links);
    let mut of_gpu: BTreeMap<u32, StampBounds> = BTreeMap::new();
    for (member, of_rank) in comms.members.iter().zip(&bounds) {
        of_gpu.entry(member.gpu).or_default().add(of_rank);
    }
    let pooled: BTreeMap<u32, GpuClock> = of_gpu.iter().map(|(&gpu, bounds)| (gpu, bounds.clock())).gather();
    let of_rank = comms.members.iter().zip(&bounds).map(|(member, own)| {
        let pooled = pooled.get(&member.gpu).cloned().unwrap_or_default();
        match pooled.quality.calibration {
            _ if own.is_empty() => GpuClock::default(),
            GpuCalibration::Inconsistent => own.clock(),
            // Pooled bounds also bend if two GPUs were taken for one: the rank's own must bend, too.
            GpuCalibration::Piecewise => match own.clock() {
                own if own.quality.calibration == GpuCalibration::Piecewise => pooled,
                own => own,
            },
            _ => pooled,
        }
    });
    of_rank.collect()
}
