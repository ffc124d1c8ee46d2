//! Derives constraints between hosts from the traffic in the parts: both ends of a message, all ranks of a collective.
//! The constraints give one clock for all hosts. Also the statements about clocks: of the archive, of hosts and
//! processes, and of locations with GPU stamps.

use std::collections::{BTreeMap, BTreeSet};

use crate::job::processes::Process;
use crate::part::manifest::{LocationKind, Manifest};
use crate::part::traffic::{Key, Traffic};
use clocks::hosts::{Alignment, Constraint, Correction, Reading, Relation, align};
use model::communicators::CommIdentity;
use nccl_events::ids::{index, index_u32};
use nccl_events::schema::attribute::Anchor;
use nccl_events::schema::carriers::Value;
use nccl_events::schema::definition::{
    ClockAnchors, ClockCorrection, ClockDrift, ClockReference, ClockRelation, ClockSource, ClockUncertainty,
    ClockViolations, ClockWorstViolation, GpuClockBoundsAbove, GpuClockBoundsBelow, GpuClockBoundsOfKernels,
    GpuClockCalibration, GpuClockDrift, GpuClockLines, GpuClockResidual, LauncherRank, LauncherSize, ProcessId,
    Release, property,
};
use nccl_events::schema::{Lines, Listed, Most, Statements, Sum};
use nccl_events::sort::Gather;

/// In a collective on more hosts than this, each host is compared with the first only, not with all.
const MOST_ALL_TO_ALL: usize = 8;

/// An operation of the job: communicator, function (both numbered for the job), sequence, repetition.
type JobKey = (u32, u32, u64, u64);

/// Gives job-wide numbers to communicators and functions that parts have in common.
#[derive(Default)]
struct Names<'a> {
    comms: BTreeMap<(CommIdentity, u64, u32, u32), u32>,
    functions: BTreeMap<&'a str, u32>,
}

impl<'a> Names<'a> {
    /// Turns a part's key into the job's; `None` for a communicator that only this part knows.
    fn key(&mut self, process: &'a Process, key: Key) -> Option<JobKey> {
        let manifest = &process.manifest;
        let comm = manifest.comms.get(index(key.comm))?;
        if comm.identity == CommIdentity::Part {
            return None;
        }
        let function = manifest.traffic.functions.get(index(key.function))?;
        let next = index_u32(self.comms.len());
        let identity = (comm.identity, comm.id, comm.ranks, comm.repetition);
        let comm = *self.comms.entry(identity).or_insert(next);
        let next = index_u32(self.functions.len());
        let function = *self.functions.entry(function).or_insert(next);
        Some((comm, function, key.sequence, key.repetition))
    }
}

fn constraints(processes: &[Process]) -> Vec<Constraint> {
    let mut names = Names::default();
    let mut constraints = passages(processes, &mut names);
    constraints.extend(messages(processes, &mut names));
    constraints
}

/// When the last rank on a host entered, and when the first left.
#[derive(Clone, Copy)]
struct Presence {
    boot: usize,
    entered: Option<u64>,
    left: Option<u64>,
}

/// Constraints from collectives: nobody leaves before everybody who is waited for has entered.
fn passages<'a>(processes: &'a [Process], names: &mut Names<'a>) -> Vec<Constraint> {
    let mut rows: Vec<(JobKey, usize, u64, u64)> = Vec::new();
    for process in processes {
        for passage in &process.manifest.traffic.passages {
            let Some(key) = names.key(process, passage.key) else {
                continue;
            };
            let reading = |ns| if ns == 0 { 0 } else { process.system_ns(ns) };
            let times = (reading(passage.entered_ns), reading(passage.left_ns));
            rows.push((key, index(process.boot), times.0, times.1));
        }
    }
    nccl_events::sort::sort(&mut rows);
    let mut constraints = Vec::new();
    for collective in rows.chunk_by(|a, b| a.0 == b.0) {
        let hosts: Vec<Presence> = collective
            .chunk_by(|a, b| a.1 == b.1)
            .map(|host_readings| Presence {
                boot: host_readings.first().map_or(0, |row| row.1),
                entered: host_readings.iter().map(|row| row.2).filter(|&ns| ns > 0).max(),
                left: host_readings.iter().map(|row| row.3).filter(|&ns| ns > 0).min(),
            })
            .collect();
        let centres = if hosts.len() > MOST_ALL_TO_ALL { 1 } else { hosts.len() };
        for (at, one) in hosts.iter().take(centres).enumerate() {
            for other in hosts.iter().skip(at + 1) {
                constraints.extend(between(*one, *other));
                constraints.extend(between(*other, *one));
            }
        }
    }
    constraints
}

fn between(enters: Presence, leaves: Presence) -> Option<Constraint> {
    Some(Constraint {
        earlier: Reading { boot: enters.boot, ns: enters.entered? },
        later: Reading { boot: leaves.boot, ns: leaves.left? },
    })
}

/// Constraints from messages: nothing is received before it was sent.
fn messages<'a>(processes: &'a [Process], names: &mut Names<'a>) -> Vec<Constraint> {
    type Message = (JobKey, u32, u32, (i32, i32));
    let mut rows: Vec<(Message, bool, usize, u64)> = Vec::new();
    for process in processes {
        for end in &process.manifest.traffic.ends {
            if let Some(key) = names.key(process, end.key) {
                let message = (key, end.from, end.to, end.part);
                rows.push((message, end.is_send, index(process.boot), process.system_ns(end.ns)));
            }
        }
    }
    nccl_events::sort::sort(&mut rows);
    let mut constraints = Vec::new();
    for message in rows.chunk_by(|a, b| a.0 == b.0) {
        // A message with other than two ends was matched wrongly.
        if let [(_, false, to, received), (_, true, from, sent)] = *message
            && from != to
        {
            constraints.push(Constraint {
                earlier: Reading { boot: from, ns: sent },
                later: Reading { boot: to, ns: received },
            });
        }
    }
    constraints
}

/// Puts the clocks of all hosts on one scale, as far as the constraints allow.
pub(crate) fn align_clocks(processes: &mut [Process]) -> Alignment {
    let mut spans = vec![(u64::MAX, 0); processes.iter().map(|process| index(process.boot) + 1).max().unwrap_or(0)];
    if spans.len() < 2 {
        return Alignment::default();
    }
    for process in &*processes {
        let (first, last) = process.manifest.span_ns;
        if process.has_events()
            && let Some(span) = spans.get_mut(index(process.boot))
        {
            span.0 = span.0.min(process.system_ns(first));
            span.1 = span.1.max(process.system_ns(last));
        }
    }
    let alignment = align(&spans, constraints(processes));
    for process in processes {
        process.correction = alignment.clocks.get(index(process.boot)).cloned().unwrap_or_default();
        // The traffic is no longer needed; with ten thousand parts it is the larger half of memory.
        process.manifest.traffic = Traffic::default();
    }
    alignment
}

pub(crate) type Property = (&'static str, Value<String>);

/// Largest error of a process's corrected clock: the error of its host's clock plus that of its ticks against it.
pub(crate) fn uncertainty_ns(process: &Process) -> Option<u64> {
    Some(process.correction.map.uncertainty?.saturating_add(process.manifest.clock.off_ns()?))
}

/// Names of the hosts of a job, by number of the boot.
#[derive(Debug, Default)]
pub(crate) struct Hosts<'a>(BTreeMap<usize, &'a str>);

impl<'a> Hosts<'a> {
    pub(crate) fn new(processes: &'a [Process]) -> Self {
        Self(processes.iter().map(|process| (index(process.boot), process.host().0)).gather())
    }

    fn name(&self, boot: usize) -> &'a str {
        self.0.get(&boot).copied().unwrap_or("?")
    }
}

/// A location group's statements about the clock of its process; empty if all processes share one clock.
pub(crate) fn process_properties(process: &Process, hosts: &Hosts<'_>) -> Vec<Property> {
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
pub(crate) fn add_clock_statements(statements: &mut Statements, processes: &[Process], alignment: &Alignment) {
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
    let hosts = Hosts::new(processes);
    let lines = hosts.0.iter().filter_map(|(&boot, name)| {
        let clock = alignment.clocks.get(boot)?;
        Some(format!("{name}: {}", line(clock, hosts.name(clock.reference))))
    });
    Lines::from_entries(lines)
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
    if let Some(size) = process.environment.size {
        properties.push(property(LauncherSize, size.into()));
    }
    if !process.nccl_version.is_empty() {
        properties.push(property(Release, process.nccl_version.clone()));
    }
    if !manifest.anchors.is_empty() {
        properties.push(property(ClockSource, manifest.clock.source.clone()));
        properties.push(property(ClockAnchors, Anchor::text(&manifest.anchors)));
    }
    properties
}

/// The properties of a location whose times can come from a GPU; empty if the GPU gave no stamps.
pub(crate) fn gpu_clock_properties(manifest: &Manifest, location: &LocationKind) -> Vec<Property> {
    let LocationKind::Communicator { comm, rank, .. } = *location else {
        return Vec::new();
    };
    let mut clocks = manifest.gpu_clocks.iter();
    let rank_clock = clocks.find(|definition| (definition.comm, definition.rank) == (comm, rank));
    let Some(clock) = rank_clock.map(|definition| &definition.clock) else {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::processes::processes;
    use crate::part::manifest::Manifest;
    use crate::part::traffic::{End, Passage};
    use model::job::CommDefinition;

    const KEY: Key = Key { comm: 0, function: 0, sequence: 3, repetition: 0 };

    /// A part on its own host, whose wall clock is 1000 ns ahead of CLOCK_MONOTONIC.
    fn part(host: usize, identity: CommIdentity, traffic: Traffic) -> Manifest {
        let mut manifest = Manifest { part: format!("part{host:02}"), traffic, ..Manifest::default() };
        manifest.process.boot_id = format!("boot{host:02}");
        manifest.clock.first_monotonic_ns = 1;
        manifest.clock.first_realtime_ns = 1001;
        manifest.comms.push(CommDefinition {
            identity,
            id: 7,
            ranks: 2,
            repetition: 0,
            ranks_seen: 2,
            name: String::new(),
            nodes: 2,
        });
        manifest
    }

    fn passes(entered_ns: u64, left_ns: u64) -> Traffic {
        Traffic {
            functions: vec!["AllReduce".to_owned()],
            passages: vec![Passage { key: KEY, entered_ns, left_ns }],
            ends: Vec::new(),
        }
    }

    /// Constraints as pairs of boot and time, from and to.
    fn found_constraints(parts: Vec<Manifest>) -> Vec<((usize, u64), (usize, u64))> {
        let parts = parts.into_iter().map(|part| (part.part.clone().into(), part));
        let constraints = constraints(&processes(parts.collect())).into_iter();
        let mut found: Vec<_> = constraints
            .map(|one| {
                let (earlier, later) = (one.earlier, one.later);
                ((earlier.boot, earlier.ns), (later.boot, later.ns))
            })
            .collect();
        found.sort_unstable();
        found
    }

    #[test]
    fn everybody_enters_before_anybody_leaves() {
        let parts = |identity| vec![part(0, identity, passes(10, 20)), part(1, identity, passes(15, 0))];
        // The second did not record when it left.
        assert_eq!(found_constraints(parts(CommIdentity::Id)), [((1, 1015), (0, 1020))]);
        // Communicators without an identity are not the same.
        assert_eq!(found_constraints(parts(CommIdentity::Part)), []);
    }

    #[test]
    fn many_hosts_are_compared_with_the_first() {
        let found = found_constraints((0..20).map(|host| part(host, CommIdentity::Id, passes(10, 20))).collect());
        assert_eq!(found.len(), 2 * 19);
        assert!(found.iter().all(|(from, to)| from.0 == 0 || to.0 == 0));
    }

    #[test]
    fn a_message_has_two_ends() {
        let end = |is_send, ns| Traffic {
            functions: vec!["message".to_owned()],
            passages: Vec::new(),
            ends: vec![End { key: KEY, from: 0, to: 1, part: (0, 2), is_send, ns }],
        };
        let both = || vec![part(0, CommIdentity::Id, end(true, 10)), part(1, CommIdentity::Id, end(false, 30))];
        assert_eq!(found_constraints(both()), [((0, 1010), (1, 1030))]);
        // With two receivers, one of them was matched wrongly.
        let mut parts = both();
        parts.push(part(2, CommIdentity::Id, end(false, 40)));
        assert_eq!(found_constraints(parts), []);
    }
}
