//! Checks whether an archive matches its own statements and what readers rely on.
//!
//! ```text
//!  rules         the table: number, severity, sentence (`check --rules`); the findings, counted by rule
//!  definitions   references, groups, communicators, the anchor's numbers; every location has complete files with as
//!                many events as stated, and there are no others
//!  location      one location at a time: order, nesting, pairs, references of events
//!  between_locations checks that need several locations, each checker with its open state: collectives, messages and
//!                members of each communicator; user ranges around calls, and calls shown twice; events by kind
//!  causality     cause before effect between hosts; channels, kernels and copies: within their operations, with their
//!                launches, on the right GPU
//!  clocks        the clocks that readers compute: of locations, processes and hosts; the archive's statements on these
//!  accounts      the archive's own account: seen, written and lost; ranks that do not call the same
//! ```
//!
//! It reads records itself: the tables of `analysis` assume a sound archive, and `check` finds what is not sound.

#![forbid(unsafe_code)]

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::path::PathBuf;

use crate::between_locations::BetweenLocations;
use crate::location::Location;
use crate::rules::Findings;
use analysis::{Trace, is_nccl};
use nccl_events::Progress;
use otf2::Archive;
use schemars::JsonSchema;
use serde::Serialize;

mod accounts;
mod between_locations;
mod causality;
mod clocks;
mod definitions;
mod location;
mod rules;

pub use crate::rules::{Broken, Finding, Rule, Scope, Severity};

/// Field names are those in the JSON of `nccl-otf2 check`.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Report {
    pub anchor: String,
    pub processes: u64,
    pub locations: u64,
    pub events: u64,
    pub faults: u64,
    pub remarks: u64,
    /// The first 20 findings of each rule.
    pub findings: Vec<Finding>,
    /// By number of a broken rule.
    pub rules: BTreeMap<&'static str, Broken>,
    /// Rules that need the statements of this project's writer, if another writer made the archive; and in archives of
    /// more than 5 million events those of calls, which `nccl-otf2 hang` judges.
    pub not_applicable: Vec<&'static str>,
    #[serde(skip)]
    pub unlisted: Vec<(Rule, u64)>,
    /// Whether files are missing, damaged or replaced.
    #[serde(skip)]
    pub is_damaged: bool,
}

/// Checks an archive. `other_jobs`: the directories of other jobs that recorded into its directory.
pub fn check(anchor: PathBuf, archive: Archive, other_jobs: &[String], progress: &dyn Progress) -> Report {
    let is_of_nccl = is_nccl(&archive);
    let mut judges_calls = is_of_nccl;
    let name = anchor.display().to_string();
    let mut findings = Findings::default();
    let (mut processes, mut locations, mut events) = (0, 0, 0);
    match Trace::read_unchecked(anchor, archive) {
        Err(error) => findings.general(Rule::Definitions, error.to_string()),
        Ok(trace) => {
            processes = trace.processes().count() as u64;
            locations = trace.definitions.locations.len() as u64;
            judges_calls &= hang::is_judged_unasked(&trace);
            events = examine(&trace, judges_calls, other_jobs, progress, &mut findings);
        }
    }
    let is_applicable = |rule: &Rule| match rule {
        rule if rule.is_of_calls() => judges_calls,
        rule => rule.scope() == Scope::Any || is_of_nccl,
    };
    let not_applicable = Rule::ALL.iter().filter(|rule| !is_applicable(rule)).map(|rule| rule.number()).collect();
    Report {
        anchor: name,
        processes,
        locations,
        events,
        faults: findings.number(Severity::Fault),
        remarks: findings.number(Severity::Remark),
        rules: findings.rules(),
        not_applicable,
        unlisted: findings.unlisted(),
        is_damaged: findings.has(&[Rule::Definitions, Rule::AsWritten, Rule::File, Rule::EventCount, Rule::Events]),
        findings: findings.listed,
    }
}

/// Runs all checks that need readable definitions; returns how many events were read.
fn examine(
    trace: &Trace,
    judges_calls: bool,
    other_jobs: &[String],
    progress: &dyn Progress,
    findings: &mut Findings,
) -> u64 {
    definitions::check_definitions(trace, findings);
    definitions::strays(trace, findings);
    let written = trace.archive.check_definitions(&trace.definitions);
    if let Err(error) = &written {
        findings.general(Rule::AsWritten, error.to_string());
    }
    let mut between = BetweenLocations::new(trace);
    let mut total = 0;
    progress.begin("locations", trace.definitions.locations.len() as u64);
    // Ranks' locations have the lowest numbers of their group, which is the process's or a GPU's: both precede the
    // GPU's channels and streams.
    let mut locations: Vec<_> = trace.definitions.locations.iter().collect();
    nccl_events::sort::sort_by_key(&mut locations, |(location, definition)| {
        (trace.process(definition.group), definition.group, **location)
    });
    let mut current = None;
    for (location, definition) in locations {
        progress.step();
        let (location, process) = (*location, trace.process(definition.group));
        if current.replace(process) != Some(process) {
            between.next_process(findings);
        }
        if !definitions::check_files(trace, location, definition, findings, written.is_ok()) {
            between.unreadable.insert(location);
            continue;
        }
        between.next_location(location, findings);
        let mut own = Location::new(trace, location, findings);
        let read = trace.archive.for_each_event(&[location], |_, event| {
            own.event(event);
            between.event(location, event, own.findings);
            ControlFlow::Continue(())
        });
        match read {
            Ok(events) => {
                own.end();
                total += events;
            }
            Err(error) => {
                let rule = match error {
                    otf2::Error::TimeGoesBack { .. } => Rule::TimeOrder,
                    _ => Rule::Events,
                };
                findings.at((trace, location), None, rule, error.to_string());
                between.unreadable.insert(location);
            }
        }
    }
    progress.end();
    // What cannot be read is said above.
    let remarks = if judges_calls { hang::remarks(trace, progress).unwrap_or_default() } else { Vec::new() };
    between.end(&remarks, findings);
    accounts::check_calls(&remarks, findings);
    if is_nccl(&trace.archive) {
        accounts::check_counts(trace, other_jobs, findings);
    }
    total
}
