//! Collects what bounds the GPU clocks of a process: launches, callbacks, and times of kernels from CUPTI or CUDA
//! events.
//!
//! Ranks on one GPU put their bounds together. Where these contradict each other, the guess which ranks share a GPU was
//! wrong, and each rank has a clock of its own.

use std::collections::BTreeMap;

use crate::clocks::gpu::stamps::StampBounds;
use crate::clocks::gpu::{GpuCalibration, GpuClock};
use crate::links::comm::Comms;
use crate::links::correlate::Correlation;
use crate::tables::assembly::{Assembly, Operation};
use crate::tables::place::index;
use nccl_events::{Body, Kind, event, state};

/// The bounds of one communicator rank by what its trusted stamps say.
fn collect(assembly: &Assembly, correlation: &Correlation) -> Vec<StampBounds> {
    let mut bounds = vec![StampBounds::default(); assembly.contexts.len()];
    for (at, operation) in assembly.of_kind(Kind::KernelCh) {
        let Some((start_gpu_ns, stop_gpu_ns)) =
            correlation.stamps.of_channel(assembly, at, operation)
        else {
            continue;
        };
        let context = operation.context_at();
        let Some(bound) = context.and_then(|at| bounds.get_mut(index(at))) else {
            continue;
        };
        bound.not_after(start_gpu_ns, operation.start);
        if let Some(told) = assembly.state_time(at, state::KERNEL_CH_STOP) {
            bound.not_after(stop_gpu_ns, told);
        }
        if let Some(earliest) = earliest_start(assembly, correlation, operation) {
            bound.not_before(start_gpu_ns, earliest);
        }
        let activity = correlation.place_of(assembly.find(operation.parent));
        let ran = activity.map(|at| correlation.gpu.ran(index(at)));
        let ran = ran.unwrap_or_default();
        for ran in ran.work.into_iter().chain(ran.events) {
            let began = ran.start.saturating_sub(ran.uncertainty_ns);
            bound.after_kernel_began(start_gpu_ns, began);
            if !ran.unfinished {
                let ended = ran.end.saturating_add(ran.uncertainty_ns);
                bound.before_kernel_ended(stop_gpu_ns, ended);
            }
        }
    }
    bounds
}

/// What a kernel channel cannot have begun before: its kernel's launch. A graph's kernels run long after the
/// launch that was captured; they wait for the host function that starts their Coll or P2p.
fn earliest_start(
    assembly: &Assembly,
    correlation: &Correlation,
    channel: &Operation,
) -> Option<u64> {
    let activity = correlation.activity_of(channel.parent_at())?;
    let launch = assembly.operation(activity.launch)?;
    let operation = assembly.operation(activity.operation)?;
    let call = assembly.operation(operation.parent_at()?)?;
    let captured = match assembly.fields_of(call) {
        Body::CollApi(event::CollApi { graph_captured, .. })
        | Body::P2pApi(event::P2pApi { graph_captured, .. }) => graph_captured,
        _ => false,
    };
    Some(if captured {
        operation.start
    } else {
        launch.start
    })
}

/// The GPU clocks of a process, by place of the context. Times must be nanoseconds already.
#[must_use]
pub fn gpu_clocks(assembly: &Assembly, correlation: &Correlation, comms: &Comms) -> Vec<GpuClock> {
    let bounds = collect(assembly, correlation);
    let mut of_gpu: BTreeMap<u32, StampBounds> = BTreeMap::new();
    for (member, of_rank) in comms.members.iter().zip(&bounds) {
        of_gpu.entry(member.gpu).or_default().add(of_rank);
    }
    let pooled: BTreeMap<u32, GpuClock> = of_gpu
        .iter()
        .map(|(&gpu, bounds)| (gpu, bounds.clock()))
        .collect();
    let of_rank = comms.members.iter().zip(&bounds).map(|(member, own)| {
        let pooled = pooled.get(&member.gpu).cloned().unwrap_or_default();
        match pooled.quality.calibration {
            _ if own.is_empty() => GpuClock::default(),
            GpuCalibration::Inconsistent => own.clock(),
            // Two GPUs taken for one are no reason to bend: only a rank that bends alone is.
            GpuCalibration::Bent => match own.clock() {
                own if own.quality.calibration == GpuCalibration::Bent => pooled,
                own => own,
            },
            _ => pooled,
        }
    });
    of_rank.collect()
}
