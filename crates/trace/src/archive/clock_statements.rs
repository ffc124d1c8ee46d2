//! Statements about clocks: for the archive, for each host, for each process, for each location with GPU stamps.

use std::collections::{BTreeMap, BTreeSet};

use crate::archive::processes::Process;
use crate::part::manifest::{LocationKind, LocationOwner, Manifest};
use clocks::hosts::{Alignment, Correction, Relation};
use nccl_events::ids::index;
use nccl_events::schema::definition::property;
use nccl_events::schema::definition::{
    ClockAnchors, ClockCorrection, ClockDrift, ClockReference, ClockRelation, ClockSource, ClockUncertainty,
    ClockViolations, ClockWorstViolation, GpuClockBoundsAbove, GpuClockBoundsBelow, GpuClockBoundsOfKernels,
    GpuClockCalibration, GpuClockDrift, GpuClockLines, GpuClockResidual, LauncherRank, ProcessId,
};
use nccl_events::schema::{Anchor, Lines, Listed, Most, Statements, Sum, Value};
use nccl_events::sort::Gather;

pub(super) type Property = (&'static str, Value<String>);

/// Largest error of a process's corrected clock: the error of its host's clock plus that of its ticks against it.
pub(super) fn uncertainty_ns(process: &Process) -> Option<u64> {
    Some(process.correction.map.uncertainty?.saturating_add(process.manifest.clock.off_ns()?))
}

/// Names of the hosts of a job, by number of the boot.
#[derive(Debug, Default)]
pub(super) struct Hosts<'a>(BTreeMap<usize, &'a str>);

impl<'a> Hosts<'a> {
    pub(super) fn of(processes: &'a [Process]) -> Self {
        Self(processes.iter().map(|process| (index(process.boot), process.host().0)).gather())
    }

    fn name(&self, boot: usize) -> &'a str {
        self.0.get(&boot).copied().unwrap_or("?")
    }
}

/// A location group's statements about the clock of its process; empty if all processes share one clock.
pub(super) fn of_process(process: &Process, hosts: &Hosts<'_>) -> Vec<Property> {
    let correction = &process.correction;
    if hosts.0.len() < 2 {
        return Vec::new();
    }
    let mut properties = vec![
        property(ClockRelation, correction.relation.name().to_owned()),
        property(ClockReference, hosts.name(correction.reference).to_owned()),
        property(ClockCorrection, correction.first_ns()),
        property(ClockDrift, correction.drift_ppb),
        property(ClockViolations, correction.violations),
        property(ClockWorstViolation, correction.worst_violation_ns),
    ];
    properties.extend(uncertainty_ns(process).map(|ns| property(ClockUncertainty, ns)));
    properties
}

/// The archive's statements about clocks; none if all processes share one clock.
pub(super) fn of_archive(statements: &mut Statements, processes: &[Process], alignment: &Alignment) {
    let clocks = &alignment.clocks;
    if clocks.len() < 2 {
        return;
    }
    let uncorrected = clocks.iter().filter(|clock| clock.relation == Relation::System).count();
    // Groups of hosts that bound each other. Between groups, the system clocks are used.
    let groups: BTreeSet<usize> = clocks.iter().map(|clock| clock.reference).gather();
    statements.hosts = Listed { number: Sum(Some(clocks.len() as u64)), lines: list(processes, alignment) };
    statements.alignment_constraints = Sum(Some(alignment.constraints));
    statements.alignment_violations = Sum(Some(alignment.violations));
    statements.alignment_worst_violation_ns = Most(Some(alignment.worst_violation_ns));
    statements.alignment_groups = Sum(Some(groups.len() as u64));
    statements.alignment_uncorrected = Sum(Some(uncorrected as u64));
    if groups.len() == 1 {
        let all: Option<Vec<u64>> = processes.iter().map(uncertainty_ns).collect();
        statements.alignment_uncertainty_ns = Most(all.and_then(|all| all.into_iter().max()));
    }
}

/// A line for each host: `node7: bounded by 210 constraints to node3, corrected by -1200 ns, drift 12 ppb, …`.
fn list(processes: &[Process], alignment: &Alignment) -> Lines {
    let hosts = Hosts::of(processes);
    let lines = hosts.0.iter().filter_map(|(&boot, name)| {
        let clock = alignment.clocks.get(boot)?;
        Some(format!("{name}: {}", line(clock, hosts.name(clock.reference))))
    });
    Lines::of(lines)
}

fn line(clock: &Correction, reference: &str) -> String {
    let violations = match clock.violations {
        0 => "0 violations".to_owned(),
        number => format!("{number} violations by up to {} ns", clock.worst_violation_ns),
    };
    let constraints = clock.constraints;
    match (clock.relation, clock.map.uncertainty) {
        (Relation::Reference, _) => {
            format!("reference, {constraints} constraints, {violations}")
        }
        (Relation::Bounded, Some(uncertainty)) => format!(
            "bounded by {constraints} constraints to {reference}, corrected by {} ns, drift {} ppb, \
             uncertainty {uncertainty} ns, {violations}",
            clock.first_ns(),
            clock.drift_ppb,
        ),
        _ => format!(
            "system clock uncorrected, {constraints} constraints, corrected by {} ns, {violations}",
            clock.first_ns(),
        ),
    }
}

/// A location group's statements about the identity and the clocks of its process.
pub(crate) fn identity(manifest: &Manifest) -> Vec<Property> {
    let process = &manifest.process;
    let mut properties = Vec::new();
    if process.pid != 0 {
        properties.push(property(ProcessId, process.pid.into()));
    }
    if let Some(rank) = process.environment.rank {
        properties.push(property(LauncherRank, rank.into()));
    }
    if !manifest.anchors.is_empty() {
        properties.push(property(ClockSource, manifest.clock.source.clone()));
        properties.push(property(ClockAnchors, Anchor::text(&manifest.anchors)));
    }
    properties
}

/// The properties of a location whose times can come from a GPU; empty if the GPU gave no stamps.
pub(crate) fn of_location(manifest: &Manifest, location: &LocationKind) -> Vec<Property> {
    let (comm, rank) = match *location {
        LocationKind::Communicator { comm, rank, .. }
        | LocationKind::Channel { owner: LocationOwner::Rank { comm, rank, .. }, .. } => (comm, rank),
        _ => return Vec::new(),
    };
    let mut clocks = manifest.gpu_clocks.iter();
    let of_rank = clocks.find(|definition| (definition.comm, definition.rank) == (comm, rank));
    let Some(clock) = of_rank.map(|definition| &definition.clock) else {
        return Vec::new();
    };
    let mut properties = vec![
        property(GpuClockCalibration, clock.calibration.name().to_owned()),
        property(GpuClockDrift, clock.drift_ppb),
        property(GpuClockLines, clock.lines),
        property(GpuClockBoundsBelow, clock.bounds.0),
        property(GpuClockBoundsAbove, clock.bounds.1),
    ];
    properties.extend(clock.error_ns().map(|residual_ns| property(GpuClockResidual, residual_ns)));
    // Archives without kernels keep their old set of properties.
    properties.extend((clock.kernel_bounds > 0).then(|| property(GpuClockBoundsOfKernels, clock.kernel_bounds)));
    properties
}
