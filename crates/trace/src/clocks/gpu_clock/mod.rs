//! GPU globaltimer to host time, by bounds, for each GPU.
//!
//! ```text
//!   host:  KernelLaunch start ────────────────┐            ┌──── the callback that brings the stamp
//!                             ≤ kernel runs ≤ │  on GPU: g │ ≤
//!   so:    launch − g  ≤  offset(g)  ≤  callback − g        for every stamp g
//! ```
//!
//! Where CUPTI or CUDA events tell when the kernel ran, that is closer: kernel start − g ≤ offset(g) for its first stamp,
//! offset(g) ≤ kernel end − g for its last.
//!
//! The offset is a straight line in g that keeps all bounds ([`mod@line`]): the timer drifts. Only stamps that can
//! be trusted take part ([`stamps`]). Ranks on one GPU put their bounds together; where these contradict
//! each other (the guess which ranks share a GPU was wrong) each rank has a clock of its own. Bounds of one rank that
//! no line keeps are kept by several lines, joined ([`mod@bent`]); such as contradict each other even so leave the upper one,
//! and the archive says so.

mod bent;
pub(crate) mod line;
pub mod stamps;

use nccl_events::event;
use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use self::line::Bounds;
use crate::links::comm::Comms;
use crate::links::correlate::Correlation;
use crate::tables::assembly::{Assembly, Operation};
use crate::tables::place::index;
use nccl_events::Body;
use nccl_events::{Kind, state};

/// How a GPU's clock was found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum GpuCalibration {
    /// No stamps.
    #[default]
    None,
    /// Between lower and upper bounds; no mapped stamp is further off than the residual.
    Bounded,
    /// Between lower and upper bounds, by several lines: the timer changed its pace. The same residual.
    Bent,
    /// Stamps, but no launch to bound them from below.
    UpperOnly,
    /// The bounds contradict each other by the residual; the upper one is used.
    Inconsistent,
}

impl GpuCalibration {
    /// All that a clock of a GPU with stamps can be.
    pub const ALL: [Self; 4] = [
        Self::Bounded,
        Self::Bent,
        Self::UpperOnly,
        Self::Inconsistent,
    ];

    /// The name in properties.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::None => "NONE",
            Self::Bounded => "BOUNDED",
            Self::Bent => "BENT",
            Self::UpperOnly => "UPPER_ONLY",
            Self::Inconsistent => "INCONSISTENT",
        }
    }
}

/// A point of a clock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Knot {
    /// The stamp.
    pub gpu_ns: u64,
    /// What to add to it to get CLOCK_MONOTONIC ns.
    pub offset_ns: i64,
}

/// The clock of a communicator rank's GPU: straight lines from knot to knot.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct GpuClock {
    /// How it was found.
    pub calibration: GpuCalibration,
    /// By stamps. One alone is a constant offset; the first and the last line go on beyond their ends.
    pub knots: Vec<Knot>,
    /// How far off a mapped stamp can be, see [`GpuCalibration`]; 0 where unknown.
    pub residual_ns: u64,
    /// How many bounds from below and from above it was found by.
    pub bounds: (u64, u64),
    /// How many of those are times of kernels that CUPTI or CUDA events told.
    pub kernel_bounds: u64,
    /// How much further off those were allowed to be than their clock is known, to fit what callbacks say.
    pub kernel_slack_ns: u64,
    /// There were such, but they contradict what callbacks say, and were not used.
    pub kernels_contradict: bool,
}

impl GpuClock {
    /// By how many ns in a second the host's clock is faster than the GPU's timer, from the first knot to the last.
    #[must_use]
    pub fn drift_ppb(&self) -> i64 {
        let (Some(first), Some(last)) = (self.knots.first(), self.knots.last()) else {
            return 0;
        };
        let drift = i128::from(last.offset_ns) - i128::from(first.offset_ns);
        let span = i128::from(last.gpu_ns) - i128::from(first.gpu_ns);
        let ppb = (drift * 1_000_000_000).checked_div(span).unwrap_or(0);
        i64::try_from(ppb).unwrap_or(0)
    }

    /// The two knots of the line that a stamp is on; the same twice where there is one only.
    fn line(&self, gpu_ns: u64) -> Option<(Knot, Knot)> {
        let after = self.knots.partition_point(|knot| knot.gpu_ns <= gpu_ns);
        let last = self.knots.len().checked_sub(1)?;
        let to = after.clamp(last.min(1), last);
        let from = to.saturating_sub(1);
        Some((*self.knots.get(from)?, *self.knots.get(to)?))
    }

    /// The host time of a GPU stamp.
    #[must_use]
    pub fn host_ns(&self, gpu_ns: u64) -> u64 {
        let (from, to) = self.line(gpu_ns).unwrap_or_default();
        let since = i128::from(gpu_ns) - i128::from(from.gpu_ns);
        let drift = match i128::from(to.gpu_ns) - i128::from(from.gpu_ns) {
            0 => 0,
            span => {
                let drift = i128::from(to.offset_ns) - i128::from(from.offset_ns);
                (drift * since).div_euclid(span)
            }
        };
        let host = i128::from(gpu_ns) + i128::from(from.offset_ns) + drift;
        u64::try_from(host.max(0)).unwrap_or(u64::MAX)
    }
}

/// The bounds of one communicator rank by what its trusted stamps say.
fn collect(assembly: &Assembly, correlation: &Correlation) -> Vec<Bounds> {
    let mut bounds = vec![Bounds::default(); assembly.contexts.len()];
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
    let mut of_gpu: BTreeMap<u32, Bounds> = BTreeMap::new();
    for (member, of_rank) in comms.members.iter().zip(&bounds) {
        of_gpu.entry(member.gpu).or_default().add(of_rank);
    }
    let pooled: BTreeMap<u32, GpuClock> = of_gpu
        .iter()
        .map(|(&gpu, bounds)| (gpu, bounds.clock()))
        .collect();
    let of_rank = comms.members.iter().zip(&bounds).map(|(member, own)| {
        let pooled = pooled.get(&member.gpu).cloned().unwrap_or_default();
        match pooled.calibration {
            _ if own.is_empty() => GpuClock::default(),
            GpuCalibration::Inconsistent => own.clock(),
            // Two GPUs taken for one are no reason to bend: only a rank that bends alone is.
            GpuCalibration::Bent => match own.clock() {
                own if own.calibration == GpuCalibration::Bent => pooled,
                own => own,
            },
            _ => pooled,
        }
    });
    of_rank.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_is_a_line_that_never_goes_backwards() {
        const FIRST: u64 = 1_770_000_000_000_000_000;
        let clock = GpuClock {
            calibration: GpuCalibration::Bounded,
            knots: vec![
                Knot {
                    gpu_ns: FIRST,
                    offset_ns: -1_760_000_000_000_000_000,
                },
                Knot {
                    gpu_ns: FIRST + 1_000_000,
                    offset_ns: -1_760_000_000_000_000_150,
                },
            ],
            residual_ns: 1,
            bounds: (2, 2),
            ..GpuClock::default()
        };
        assert_eq!(clock.host_ns(FIRST), 10_000_000_000_000_000);
        assert_eq!(clock.host_ns(FIRST + 1_000_000), 10_000_000_000_999_850);
        assert_eq!(clock.drift_ppb(), -150_000);
        let hosts: Vec<u64> = (0..50_000)
            .map(|after| clock.host_ns(FIRST + after))
            .collect();
        assert!(hosts.is_sorted());
        assert_eq!(GpuClock::default().host_ns(17), 17);
    }

    #[test]
    fn each_stamp_is_on_the_line_of_its_knots() {
        let knot = |gpu_ns, offset_ns| Knot { gpu_ns, offset_ns };
        let clock = GpuClock {
            knots: vec![knot(1_000, 10), knot(2_000, 20), knot(3_000, 0)],
            ..GpuClock::default()
        };
        let expected = [
            (0, 0),
            (1_000, 1_010),
            (1_500, 1_515),
            (2_000, 2_020),
            (2_500, 2_510),
            (3_000, 3_000),
            // The last line goes on.
            (4_000, 3_980),
        ];
        for (gpu_ns, host_ns) in expected {
            assert_eq!(clock.host_ns(gpu_ns), host_ns, "{gpu_ns}");
        }
        let one = GpuClock {
            knots: vec![knot(1_000, 10)],
            ..GpuClock::default()
        };
        assert_eq!(
            [0, 1_000, 5_000].map(|gpu_ns| one.host_ns(gpu_ns)),
            [10, 1_010, 5_010]
        );
    }
}
