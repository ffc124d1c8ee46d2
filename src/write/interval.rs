//! Which interval an operation is shown with: what ran, never how long it took to enqueue
//! (`docs/MAPPING.md` §3).

use serde::{Deserialize, Serialize};

use super::assembly::Assembly;
use super::correlate::{Activity, Correlation};
use super::gpu_clock::GpuClock;
use super::place::index;
use crate::journal::record::Fields;

/// What an operation's interval was measured by: attribute `nccl.timing`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Timing {
    /// Kernel channels on the GPU's timer.
    KernelChannel,
    /// Kernel channels without GPU time: when the host heard of them.
    KernelChannelHost,
    /// Kernel launch to last proxy operation.
    Proxy,
    /// Only the enqueueing is known.
    Enqueue,
}

impl Timing {
    /// All, in order.
    pub const ALL: [Self; 4] = [
        Self::KernelChannel,
        Self::KernelChannelHost,
        Self::Proxy,
        Self::Enqueue,
    ];

    /// The attribute's value.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::KernelChannel => "kernelch",
            Self::KernelChannelHost => "kernelch-host",
            Self::Proxy => "proxy",
            Self::Enqueue => "enqueue",
        }
    }
}

/// When an operation ran.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Interval {
    /// From.
    pub start: u64,
    /// To; the last time seen when it is unfinished.
    pub end: u64,
    /// How that is known.
    pub timing: Timing,
    /// Whether it never ended.
    pub unfinished: bool,
}

fn measured(assembly: &Assembly, activity: &Activity, clock: GpuClock) -> Option<Interval> {
    let operation = assembly.operation(activity.operation)?;
    let launched = assembly
        .operation(activity.launch)
        .filter(|_| activity.launch_is_own)
        .map_or(operation.start, |launch| {
            launch.end().unwrap_or(launch.start)
        });
    let (start, end, timing) = match *activity {
        Activity { gpu: Some(gpu), .. } => (
            clock.host_ns(gpu.0),
            clock.host_ns(gpu.1),
            Timing::KernelChannel,
        ),
        Activity {
            kernel_host: Some((start, end)),
            ..
        } => (start, end, Timing::KernelChannelHost),
        Activity {
            proxy_last: Some(last),
            ..
        } => (launched.min(last), last, Timing::Proxy),
        _ if activity.unfinished => (launched, launched, Timing::Proxy),
        _ => (
            operation.start,
            operation.end().unwrap_or(operation.start),
            Timing::Enqueue,
        ),
    };
    let end = if activity.unfinished {
        assembly.span.1.max(start)
    } else {
        end
    };
    Some(Interval {
        start,
        end,
        timing,
        unfinished: activity.unfinished,
    })
}

/// The launch plan (one kernel) an operation belongs to, as far as known.
fn plan(fields: &Fields) -> u64 {
    match *fields {
        Fields::Coll { parent_group, .. } | Fields::P2p { parent_group, .. } => parent_group,
        _ => 0,
    }
}

/// The intervals of all activities, by place of the activity.
///
/// The kernels of a communicator run one after the other, so an operation that was launched while an
/// earlier kernel still ran began when that one ended. Only the kernels' own times say so directly.
#[must_use]
pub fn intervals(
    assembly: &Assembly,
    correlation: &Correlation,
    clocks: &[GpuClock],
) -> Vec<Option<Interval>> {
    let mut intervals: Vec<Option<Interval>> = Vec::with_capacity(correlation.activities.len());
    let mut order: Vec<(u32, u64, usize)> = Vec::new();
    for (at, activity) in correlation.activities.iter().enumerate() {
        let context = assembly
            .operation(activity.operation)
            .and_then(|operation| assembly.find_context(operation.context));
        let clock = context.and_then(|at| clocks.get(index(at)));
        let interval = measured(assembly, activity, clock.copied().unwrap_or_default());
        if let (Some(context), Some(interval)) = (context, interval) {
            order.push((context, interval.start, at));
        }
        intervals.push(interval);
    }
    order.sort_unstable();
    let mut communicator = None;
    let (mut plan_now, mut plan_end, mut earlier_end) = (0, 0, 0);
    for (context, _, at) in order {
        let operation = correlation
            .activities
            .get(at)
            .and_then(|activity| assembly.operation(activity.operation));
        let (Some(operation), Some(Some(interval))) = (operation, intervals.get_mut(at)) else {
            continue;
        };
        if communicator != Some(context) {
            communicator = Some(context);
            (plan_now, plan_end, earlier_end) = (0, 0, 0);
        }
        if plan(&operation.fields) != plan_now || plan_now == 0 {
            plan_now = plan(&operation.fields);
            earlier_end = plan_end.max(earlier_end);
        }
        if interval.timing == Timing::Proxy {
            let start = interval.start.max(earlier_end);
            if start < interval.end {
                interval.start = start;
            } else if interval.unfinished {
                interval.start = interval.end;
            }
        }
        plan_end = plan_end.max(interval.end);
    }
    intervals
}
