//! GPU work: within the operations that it timed, with its launches, on locations of the right GPU.

use std::collections::{BTreeMap, BTreeSet};

use analysis::{Fields, Instance, Role, Step, Trace};
use nccl_events::Kind;
use nccl_events::archive::{LocationKind, Timing};
use otf2::{LocationGroupRef, LocationGroupType, LocationRef};

use crate::findings::Findings;
use crate::rules::Rule;

struct Operation {
    start: u64,
    end: u64,
    /// `None` if communicators are threads.
    gpu: Option<LocationGroupRef>,
    timing: Option<Timing>,
}

/// The work of GPUs, process by process: threads and communicators precede channels and streams.
pub(super) struct GpuWork<'a> {
    trace: &'a Trace,
    operations: BTreeMap<u64, Operation>,
    launches: BTreeSet<u64>,
    /// The largest residual of GPU clocks; `None` if the archive states nothing about them.
    residual_ns: Option<u64>,
    channels: u64,
    kernels: u64,
    copies: u64,
    without_launch: u64,
}

impl<'a> GpuWork<'a> {
    pub(super) fn of(trace: &'a Trace) -> Self {
        let is_any =
            trace.statements.gpu_clocks().any(|(ranks, _)| ranks > 0) || !trace.statements.gpu_clock_list.is_empty();
        Self {
            trace,
            operations: BTreeMap::new(),
            launches: BTreeSet::new(),
            residual_ns: is_any.then(|| super::causality::gpu_residual_ns(&trace.statements)),
            channels: 0,
            kernels: 0,
            copies: 0,
            without_launch: 0,
        }
    }

    pub(super) fn next_process(&mut self) {
        self.operations.clear();
        self.launches.clear();
    }

    pub(super) fn step(&mut self, location: LocationRef, step: &Step<'a>, findings: &mut Findings) {
        let Step::Left(instance) = step else {
            return;
        };
        let Fields { event, timing, .. } = instance.fields;
        match (instance.role, event) {
            (Some(Role::Operation(_)), Some(id)) => {
                let operation = Operation { start: instance.start, end: instance.end, gpu: self.gpu(location), timing };
                self.operations.insert(id, operation);
            }
            // A channel with implausible GPU times is shown with the host's times instead.
            (Some(Role::Work(Kind::KernelCh)), _) if instance.fields.is_suspicious != Some(true) => {
                self.channel(location, instance, findings);
            }
            (None, _) if self.trace.location_kind(location) == Some(LocationKind::Stream) => {
                self.work(location, instance, findings);
                return;
            }
            _ => {}
        }
        self.launches.extend(instance.fields.external_correlation);
    }

    fn gpu(&self, location: LocationRef) -> Option<LocationGroupRef> {
        let group = self.trace.group(location);
        let known = self.trace.definitions.location_groups.get(&group)?;
        (known.group_type == LocationGroupType::Accelerator).then_some(group)
    }

    fn operation(&self, instance: &Instance<'_>) -> Option<&Operation> {
        self.operations.get(&instance.fields.parent?)
    }

    fn channel(&mut self, location: LocationRef, channel: &Instance<'_>, findings: &mut Findings) {
        let timed_by_it = |operation: &&Operation| operation.timing == Some(Timing::KernelChannel);
        let Some(Operation { start, end, .. }) = self.operation(channel).filter(timed_by_it) else {
            return;
        };
        let residual_ns = self.residual_ns.unwrap_or(0);
        if channel.start < start.saturating_sub(residual_ns) || channel.end > end.saturating_add(residual_ns) {
            let message = format!(
                "a channel runs from {} to {}, its operation from {start} to {end}, \
                 and the residual of the GPU clocks is {residual_ns} ns",
                channel.start, channel.end
            );
            findings.at((self.trace, location), Some(channel.start), Rule::InsideParent, message);
        }
        self.channels += 1;
    }

    fn work(&mut self, location: LocationRef, work: &Instance<'_>, findings: &mut Findings) {
        let external = work.fields.external_correlation.unwrap_or(0);
        if self.trace.is_copy(work.region) {
            self.copies += 1;
        } else {
            self.kernels += 1;
            // Copies need no launch: some collectives are copied without kernels.
            let is_known = external == 0 || self.launches.contains(&external);
            self.without_launch += u64::from(!is_known);
        }
        let Some(operation) = self.operation(work) else {
            return;
        };
        let mut find = |rule, message: String| {
            findings.at((self.trace, location), Some(work.start), rule, message);
        };
        if operation.timing == Some(Timing::Cupti) && (work.start < operation.start || work.end > operation.end) {
            let message = format!(
                "it runs from {} to {}, its operation from {} to {}",
                work.start, work.end, operation.start, operation.end
            );
            find(Rule::KernelTime, message);
        }
        if let (Some(gpu), Some(expected)) = (self.gpu(location), operation.gpu)
            && gpu != expected
        {
            let [gpu, expected] = [gpu, expected].map(|group| self.trace.group_name(group));
            find(Rule::KernelGpu, format!("it is on {gpu}, its operation on {expected}"));
        }
    }

    /// Compares with the archive's counts. Unreadable locations cannot be counted.
    pub(super) fn end(&self, is_all_read: bool, findings: &mut Findings) {
        if self.channels > 0 && self.residual_ns.is_none() {
            let message =
                format!("{} kernel channels are on GPU times, and nothing is said of GPU clocks", self.channels);
            findings.general(Rule::GpuResidual, message);
        }
        if !is_all_read {
            return;
        }
        let counts = &self.trace.statements.gpu_counts;
        let kernels = [
            counts.kernels_joined,
            counts.kernels_of_graphs,
            counts.kernels_of_graphs_unknown,
            counts.kernels_without_launch,
            counts.kernels_other,
        ];
        for (what, found, written) in [
            ("kernels", self.kernels, kernels.into_iter().fold(0, u64::saturating_add)),
            ("copies", self.copies, counts.copies_shown),
            ("kernels whose launch is not there", self.without_launch, counts.kernels_without_launch),
        ] {
            if found != written {
                findings.general(Rule::GpuWork, format!("{written} {what} were written, {found} are in the archive"));
            }
        }
    }
}
