//! Everything `info` says, as it is for programs.

use std::collections::BTreeMap;

use analysis::{Completeness, Trace};
use serde::Serialize;

use super::communicators::{self, Communicators, Messages};
use super::gpus::Gpus;
use super::operations::{self, Operations};
use super::places::{Host, Process, places};
use super::recording::Recording;
use crate::place;

/// The report; its fields are documented in the help of `info`.
#[derive(Debug, Serialize)]
pub(crate) struct Report {
    pub(crate) format: u32,
    pub(crate) anchor: String,
    pub(crate) creator: String,
    pub(crate) nccl_versions: Vec<String>,
    pub(crate) profiler_tables: Vec<String>,
    pub(crate) plugin_versions: Vec<String>,
    pub(crate) event_sets: Vec<String>,
    pub(crate) commands: Vec<String>,
    pub(crate) job: Vec<String>,
    pub(crate) other_jobs: Vec<String>,
    pub(crate) start_ns: Option<u64>,
    pub(crate) duration_ns: u64,
    pub(crate) locations: u64,
    pub(crate) events: u64,
    pub(crate) hosts: Vec<Host>,
    pub(crate) processes: Vec<Process>,
    pub(crate) communicators: Vec<communicators::Row>,
    pub(crate) operations: Vec<operations::Row>,
    pub(crate) messages: Vec<Messages>,
    pub(crate) completeness: Completeness,
    pub(crate) blind_spots: Vec<String>,
    pub(crate) gpus: Gpus,
    pub(crate) clock: BTreeMap<String, String>,
    pub(crate) recording: Recording,
}

impl Report {
    pub(crate) fn of(trace: &Trace, operations: Operations<'_>, communicators: Communicators) -> Self {
        let archive = &trace.archive;
        let said = &trace.said;
        let clock = trace.definitions.clock.as_ref();
        let clocks = archive.properties().iter().filter_map(|(name, value)| {
            let name = name.strip_prefix("NCCL::")?;
            let is_clock = name.starts_with("CLOCK::") || name.starts_with("GPU_CLOCK::");
            is_clock.then(|| (name.replace("::", ".").to_ascii_lowercase(), value.clone()))
        });
        let (hosts, processes) = places(trace);
        let (communicators, messages) = communicators.finish();
        Self {
            format: 1,
            anchor: trace.anchor.display().to_string(),
            creator: archive.creator().to_owned(),
            nccl_versions: said.version.shown(),
            profiler_tables: said.table.shown(),
            plugin_versions: said.plugin_version.shown(),
            event_sets: said.events.shown(),
            commands: said.command.shown(),
            job: said.job.shown(),
            other_jobs: place::others(&trace.anchor),
            start_ns: trace.start_ns(),
            duration_ns: clock.map_or(0, |clock| clock.trace_length),
            locations: trace.definitions.locations.len() as u64,
            events: trace.events(),
            hosts,
            processes,
            communicators,
            operations: operations.finish(),
            messages,
            completeness: Completeness::of(said),
            blind_spots: said.blind_spots.shown(),
            gpus: Gpus::of(said),
            clock: clocks.collect(),
            recording: Recording::of(said),
        }
    }
}
