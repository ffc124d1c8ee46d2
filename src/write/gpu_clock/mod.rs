//! GPU globaltimer to host time, by bounds, for each GPU.
//!
//! ```text
//!   host:  KernelLaunch start ────────────────┐            ┌──── the callback that brings the stamp
//!                             ≤ kernel runs ≤ │  on GPU: g │ ≤
//!   so:    launch − g  ≤  offset(g)  ≤  callback − g        for every stamp g
//! ```
//!
//! The offset is a straight line in g that keeps all bounds ([`mod@line`]): the timer drifts. Only stamps that can
//! be trusted take part ([`stamps`]). Ranks on one GPU put their bounds together; where these contradict
//! each other (the guess which ranks share a GPU was wrong) each rank has a clock of its own. Bounds of one rank that
//! contradict each other leave the upper one, and the archive says so.

pub(in crate::write) mod line;
pub mod stamps;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use self::line::Bounds;
use super::assembly::{Assembly, Operation};
use super::comm::Comms;
use super::correlate::Correlation;
use super::place::{index, place};
use crate::event::state;
use crate::journal::record::Fields;

/// How a GPU's clock was found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum GpuCalibration {
    /// No stamps.
    #[default]
    None,
    /// Between lower and upper bounds; no mapped stamp is further off than the residual.
    Bounded,
    /// Stamps, but no launch to bound them from below.
    UpperOnly,
    /// The bounds contradict each other by the residual; the upper one is used.
    Inconsistent,
}

impl GpuCalibration {
    /// The name in properties.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::None => "NONE",
            Self::Bounded => "BOUNDED",
            Self::UpperOnly => "UPPER_ONLY",
            Self::Inconsistent => "INCONSISTENT",
        }
    }
}

/// The clock of a communicator rank's GPU: a straight line through two points.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct GpuClock {
    /// How it was found.
    pub calibration: GpuCalibration,
    /// The first stamp.
    pub first_gpu_ns: u64,
    /// What to add to the first stamp to get CLOCK_MONOTONIC ns.
    pub offset_ns: i64,
    /// From the first stamp to the last one.
    pub span_ns: u64,
    /// How much more is to be added to the last stamp.
    pub drift_ns: i64,
    /// How far off a mapped stamp can be, see [`GpuCalibration`]; 0 where unknown.
    pub residual_ns: u64,
}

impl GpuClock {
    /// By how many ns in a second the host's clock is faster than the GPU's timer.
    #[must_use]
    pub fn drift_ppb(&self) -> i64 {
        let drift = i128::from(self.drift_ns) * 1_000_000_000;
        let ppb = drift.checked_div(i128::from(self.span_ns)).unwrap_or(0);
        i64::try_from(ppb).unwrap_or(0)
    }

    /// The host time of a GPU stamp.
    #[must_use]
    pub fn host_ns(&self, gpu_ns: u64) -> u64 {
        let since = i128::from(gpu_ns) - i128::from(self.first_gpu_ns);
        let drift = match self.span_ns {
            0 => 0,
            span => (i128::from(self.drift_ns) * since).div_euclid(i128::from(span)),
        };
        let host = i128::from(gpu_ns) + i128::from(self.offset_ns) + drift;
        u64::try_from(host.max(0)).unwrap_or(u64::MAX)
    }
}

/// The bounds of one communicator rank by what its trusted stamps say.
fn collect(assembly: &Assembly, correlation: &Correlation) -> Vec<Bounds> {
    let mut bounds = vec![Bounds::default(); assembly.contexts.len()];
    for (at, operation) in assembly.operations.iter().enumerate() {
        let at = place(at);
        let Some((start_gpu_ns, stop_gpu_ns)) = correlation.stamps.of_channel(at, operation) else {
            continue;
        };
        let context = assembly.find_context(operation.context);
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
    let activity = correlation.activity_of(assembly.find(channel.parent))?;
    let launch = assembly.operation(activity.launch)?;
    let operation = assembly.operation(activity.operation)?;
    let call = assembly.operation(assembly.find(operation.parent)?)?;
    let captured = match call.fields {
        Fields::CollApi { graph_captured, .. } | Fields::P2pApi { graph_captured, .. } => {
            graph_captured
        }
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
    let mut of_gpu: BTreeMap<u32, Bounds> = BTreeMap::new();
    for (member, of_rank) in comms.members.iter().zip(&bounds) {
        of_gpu.entry(member.gpu).or_default().add(of_rank);
    }
    let pooled: BTreeMap<u32, GpuClock> = of_gpu
        .iter()
        .map(|(&gpu, bounds)| (gpu, bounds.clock()))
        .collect();
    let of_rank = comms.members.iter().zip(&bounds).map(|(member, own)| {
        let pooled = pooled.get(&member.gpu).copied().unwrap_or_default();
        if own.is_empty() || pooled.calibration == GpuCalibration::Inconsistent {
            own.clock()
        } else {
            pooled
        }
    });
    of_rank.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_is_a_line_that_never_goes_backwards() {
        let clock = GpuClock {
            calibration: GpuCalibration::Bounded,
            first_gpu_ns: 1_770_000_000_000_000_000,
            offset_ns: -1_760_000_000_000_000_000,
            span_ns: 1_000_000,
            drift_ns: -150,
            residual_ns: 1,
        };
        assert_eq!(clock.host_ns(clock.first_gpu_ns), 10_000_000_000_000_000);
        let last = clock.host_ns(clock.first_gpu_ns + clock.span_ns);
        assert_eq!(last, 10_000_000_000_999_850);
        let hosts: Vec<u64> = (0..50_000)
            .map(|after| clock.host_ns(clock.first_gpu_ns + after))
            .collect();
        assert!(hosts.is_sorted());
        assert_eq!(GpuClock::default().host_ns(17), 17);
    }
}
