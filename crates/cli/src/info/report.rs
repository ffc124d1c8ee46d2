//! The report of `info`: tables for people and programs, and the JSON report.

use std::collections::BTreeMap;

use analysis::{Clock, Completeness, Trace};
use nccl_events::schema::Statements;
use nccl_events::sort::Gather;
use otf2::{LocationGroupRef, LocationRef};
use schemars::JsonSchema;
use serde::Serialize;

use super::communicators::{self, Messages};
use super::operations;
use crate::place;

/// The help of `info` documents the fields.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Tables {
    pub(crate) events: u64,
    pub(crate) hosts: Vec<Host>,
    pub(crate) processes: Vec<Process>,
    pub(crate) communicators: Vec<communicators::Row>,
    pub(crate) operations: Vec<operations::Row>,
    pub(crate) messages: Vec<Messages>,
    pub(crate) completeness: Completeness,
}

#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Host {
    name: String,
    processes: u64,
}

#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Process {
    pub(crate) name: String,
    pub(crate) host: String,
    pub(crate) gpus: Vec<String>,
    /// Including the locations of its GPUs.
    pub(crate) locations: u64,
    pub(crate) events: u64,
}

pub(crate) fn places(trace: &Trace, events: &BTreeMap<LocationRef, u64>) -> (Vec<Host>, Vec<Process>) {
    let mut hosts: BTreeMap<String, u64> = BTreeMap::new();
    let mut processes: BTreeMap<LocationGroupRef, Process> = BTreeMap::new();
    for reference in trace.processes() {
        let host = trace.host(reference).and_then(|node| trace.node_name(node)).unwrap_or_default().to_owned();
        *hosts.entry(host.clone()).or_insert(0) += 1;
        let name = trace.group_name(reference).to_owned();
        processes.insert(reference, Process { name, host, gpus: Vec::new(), locations: 0, events: 0 });
    }
    for (reference, group) in &trace.definitions.location_groups {
        if let Some(process) = processes.get_mut(&group.creator) {
            process.gpus.push(trace.group_name(*reference).to_owned());
        }
    }
    for (reference, location) in &trace.definitions.locations {
        if let Some(process) = processes.get_mut(&trace.process(location.group)) {
            process.locations += 1;
            process.events += events.get(reference).copied().unwrap_or(0);
        }
    }
    let hosts = hosts.into_iter().map(|(name, processes)| Host { name, processes });
    (hosts.collect(), processes.into_values().collect())
}

/// What `info --json` prints.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Report<'a> {
    format: u32,
    anchor: String,
    creator: &'a str,
    nccl_versions: Vec<String>,
    profiler_tables: Vec<String>,
    plugin_versions: Vec<String>,
    event_sets: Vec<String>,
    /// The steps that were to be recorded (`NCCL_OTF2_STEPS`).
    steps: Vec<String>,
    commands: Vec<String>,
    job: Vec<String>,
    /// Recordings of other jobs in the same directory.
    other_jobs: Vec<String>,
    /// Since 1970.
    start_ns: Option<u64>,
    duration_ns: u64,
    locations: usize,
    /// What the NCCL releases of the job do not report.
    blind_spots: Vec<String>,
    gpus: Gpus,
    /// The archive's properties about clocks.
    clock: BTreeMap<String, &'a str>,
    recording: Recording,
    #[serde(flatten)]
    tables: &'a Tables,
}

/// How GPU work was recorded.
#[derive(Serialize, JsonSchema)]
struct Gpus {
    backends: Vec<String>,
    notices: Vec<String>,
    /// Numbers other than 0, named as in `docs/REFERENCE.md` §7 but in lower case.
    numbers: BTreeMap<String, u64>,
    clocks: Vec<String>,
}

#[derive(Serialize, JsonSchema)]
struct Recording {
    /// Flight recordings.
    flight: Option<Flight>,
    /// When recording was switched off and on, where and by what.
    switches: Vec<String>,
    /// Transfers for ranks of other processes.
    pxn: Option<Pxn>,
}

#[derive(Serialize, JsonSchema)]
struct Flight {
    processes: u64,
    complete_from_ns: u64,
    lines: Vec<String>,
}

#[derive(Serialize, JsonSchema)]
struct Pxn {
    transfers: u64,
    counted: u64,
    unresolved: u64,
    lines: Vec<String>,
}

impl<'a> Report<'a> {
    pub(crate) fn of(trace: &'a Trace, tables: &'a Tables) -> Self {
        let (archive, statements) = (&trace.archive, &trace.statements);
        let clock = archive.properties().iter().filter_map(|(name, value)| {
            let name = name.strip_prefix("NCCL::")?;
            let is_clock = name.starts_with("CLOCK::") || name.starts_with("GPU_CLOCK::");
            is_clock.then(|| (name.replace("::", ".").to_ascii_lowercase(), value.as_str()))
        });
        Self {
            format: 1,
            anchor: trace.anchor.display().to_string(),
            creator: archive.creator(),
            nccl_versions: statements.version.shown(),
            profiler_tables: statements.table.shown(),
            plugin_versions: statements.plugin_version.shown(),
            event_sets: statements.events.shown(),
            steps: statements.steps.shown(),
            commands: statements.command.shown(),
            job: statements.job.shown(),
            other_jobs: place::others(&trace.anchor),
            start_ns: trace.start_ns(),
            duration_ns: Clock::of(trace).length_ns(trace),
            locations: trace.definitions.locations.len(),
            blind_spots: statements.blind_spots.shown(),
            gpus: gpus(statements),
            clock: clock.gather(),
            recording: recording(statements),
            tables,
        }
    }
}

fn gpus(statements: &Statements) -> Gpus {
    let others = [
        ("devices", statements.gpu_devices.get()),
        ("clocks.residual_ns", statements.gpu_clocks_residual_ns.get()),
        ("clocks.uncertainty_ns", statements.gpu_clocks_uncertainty_ns.get()),
    ];
    let numbers = statements.gpu_counts.named().chain(others).filter(|(_, number)| *number > 0);
    Gpus {
        backends: statements.gpu_backend.shown(),
        notices: statements.gpu_notices.shown(),
        numbers: numbers.map(|(name, number)| (name.to_ascii_lowercase(), number)).gather(),
        clocks: statements.gpu_clocks_list.shown(),
    }
}

fn recording(statements: &Statements) -> Recording {
    Recording {
        flight: statements.flight_processes.0.map(|processes| Flight {
            processes,
            complete_from_ns: statements.flight_complete_from.get(),
            lines: statements.flight_list.shown(),
        }),
        switches: statements.measurement_list.shown(),
        pxn: statements.pxn_transfers.0.map(|transfers| Pxn {
            transfers,
            counted: statements.pxn_counted.get(),
            unresolved: statements.pxn_unresolved.get(),
            lines: statements.pxn_list.shown(),
        }),
    }
}
