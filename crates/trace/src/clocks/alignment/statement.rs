//! What an archive says of its clocks: for all, for each host, for each process.

use std::collections::{BTreeMap, BTreeSet};

use super::{Alignment, Correction, Relation};
use crate::archive::job::Process;
use crate::tables::place::index;

/// A value of a property of a process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    /// Text.
    Text(String),
    /// A signed number.
    Signed(i64),
    /// A number.
    Unsigned(u64),
}

/// How far the corrected clock of a process can be off: of its host's, and of its ticks against that.
#[must_use]
pub fn uncertainty_ns(process: &Process) -> Option<u64> {
    let own = &process.sidecar.clock;
    let host = process.correction.uncertainty_ns?;
    Some(host.saturating_add(own.residual_ns.max(own.uncertainty_ns)))
}

/// The hosts of a job, by number of the boot.
#[derive(Debug, Default)]
pub struct Hosts<'a>(BTreeMap<u32, &'a str>);

impl<'a> Hosts<'a> {
    /// Those of these processes.
    #[must_use]
    pub fn of(processes: &'a [Process]) -> Self {
        let processes = processes.iter();
        Self(
            processes
                .map(|process| (process.boot, process.host().0))
                .collect(),
        )
    }

    fn name(&self, boot: u32) -> &'a str {
        self.0.get(&boot).copied().unwrap_or("?")
    }
}

/// What a process's location group says of its clock: nothing where all processes share one.
#[must_use]
pub fn of_process(process: &Process, hosts: &Hosts<'_>) -> Vec<(&'static str, Value)> {
    let correction = &process.correction;
    if hosts.0.len() < 2 {
        return Vec::new();
    }
    let mut said = vec![
        (
            "NCCL::CLOCK::RELATION",
            Value::Text(correction.relation.name().to_owned()),
        ),
        (
            "NCCL::CLOCK::REFERENCE",
            Value::Text(hosts.name(correction.reference).to_owned()),
        ),
        (
            "NCCL::CLOCK::CORRECTION_NS",
            Value::Signed(correction.first_ns()),
        ),
        (
            "NCCL::CLOCK::DRIFT_PPB",
            Value::Signed(correction.drift_ppb),
        ),
        (
            "NCCL::CLOCK::VIOLATIONS",
            Value::Unsigned(correction.violations),
        ),
        (
            "NCCL::CLOCK::WORST_VIOLATION_NS",
            Value::Unsigned(correction.worst_violation_ns),
        ),
    ];
    if let Some(uncertainty) = uncertainty_ns(process) {
        said.push(("NCCL::CLOCK::UNCERTAINTY_NS", Value::Unsigned(uncertainty)));
    }
    said
}

/// What the archive says: nothing where all processes share a clock.
#[must_use]
pub fn of_archive(processes: &[Process], alignment: &Alignment) -> Vec<(String, String)> {
    if alignment.clocks.len() < 2 {
        return Vec::new();
    }
    let clocks = alignment.clocks.iter();
    let believed = clocks.filter(|clock| clock.relation == Relation::Believed);
    // Groups of hosts that bound each other: where there is more than one, the system is believed between them.
    let references = alignment.clocks.iter().map(|clock| clock.reference);
    let groups: BTreeSet<u32> = references.collect();
    let known = processes.iter().filter_map(uncertainty_ns);
    let mut said = vec![
        ("HOSTS", alignment.clocks.len().to_string()),
        ("CONSTRAINTS", alignment.constraints.to_string()),
        ("VIOLATIONS", alignment.violations.to_string()),
        (
            "WORST_VIOLATION_NS",
            alignment.worst_violation_ns.to_string(),
        ),
        ("GROUPS", groups.len().to_string()),
        ("BELIEVED", believed.count().to_string()),
    ];
    if groups.len() == 1 {
        let uncertainty = known.max().unwrap_or(0);
        said.push(("UNCERTAINTY_NS", uncertainty.to_string()));
    }
    said.push(("LIST", list(processes, alignment)));
    let said = said.into_iter();
    said.map(|(name, value)| (format!("NCCL::CLOCK::ALIGNMENT::{name}"), value))
        .collect()
}

/// A line for each host, as in `node7: bounded by 210 constraints to node3, corrected by -1200 ns, drift 12 ppb,
/// uncertainty 900 ns, 0 violations`.
fn list(processes: &[Process], alignment: &Alignment) -> String {
    let hosts = Hosts::of(processes);
    let lines = hosts.0.iter().filter_map(|(&boot, name)| {
        let clock = alignment.clocks.get(index(boot))?;
        Some(format!(
            "{name}: {}",
            line(clock, hosts.name(clock.reference))
        ))
    });
    lines.collect::<Vec<String>>().join("\n")
}

fn line(clock: &Correction, reference: &str) -> String {
    let violations = match clock.violations {
        0 => "0 violations".to_owned(),
        number => format!(
            "{number} violations by up to {} ns",
            clock.worst_violation_ns
        ),
    };
    let constraints = clock.constraints;
    match (clock.relation, clock.uncertainty_ns) {
        (Relation::Reference, _) => {
            format!("reference, {constraints} constraints, {violations}")
        }
        (Relation::Bounded, Some(uncertainty)) => format!(
            "bounded by {constraints} constraints to {reference}, corrected by {} ns, drift {} ppb, uncertainty {uncertainty} ns, {violations}",
            clock.first_ns(),
            clock.drift_ppb,
        ),
        _ => format!(
            "system clock believed, {constraints} constraints, corrected by {} ns, {violations}",
            clock.first_ns(),
        ),
    }
}
