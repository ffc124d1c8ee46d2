//! `nccl-otf2 check`: is an archive what it says, and what readers rely on?
//!
//! ```text
//!  rules         the table: number, severity, sentence (`docs/REFERENCE.md` §8)
//!  definitions   references, groups, communicators, the anchor's numbers
//!  files         every location has whole files with as many events as promised, and there are no others
//!  location      one location at a time: order, nesting, pairs, references of events
//!  across        what needs several locations, each checker with the state that is still open:
//!    collectives, messages, members    of each communicator
//!    causes      what a host did before what others did later
//!    gpu_work    channels, kernels and copies: within their operations, with their launches, on the right GPU
//!    written       events in the archive, counted by kind
//!  clocks        the clocks that readers make: of locations, of processes, of hosts, and what the archive says of them
//!  account       the archive's own account: seen, written and lost; ranks that do not call the same
//! ```
//!
//! It reads records itself: tables of `analysis` have what a sound archive means, and `check` finds what is not sound.

mod account;
mod across;
mod clocks;
mod definitions;
mod files;
mod findings;
mod listing;
mod location;
mod rules;
mod subject;

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use analysis::Trace;
use anyhow::{Context as _, Result};
use clap::Args;
use otf2::Archive;
use serde::Serialize;
use trace::Progress as _;

use crate::archive::is_nccl;
use crate::exit::Exit;
use crate::place;
use crate::print::{self, Text};
use crate::progress::Bar;
use crate::units::plural;

use across::Across;
use findings::{Finding, Findings};
use location::Location;
use rules::{Rule, Scope};
use subject::Subject;

const EXAMPLES: &str = "\
Examples:
  nccl-otf2 check trace
  nccl-otf2 check --json trace/traces.otf2 | jq '.findings[].rule'
  nccl-otf2 check --rules

Faults say that the archive is wrong: a reader may show wrong things, or fail. Remarks say what the archive \
itself admits: operations that had not ended, events that could not be recorded, ranks that nobody recorded.

Exit codes: 0 no faults, 1 faults (with --strict also remarks), 2 no archive, or wrong usage.

--json prints an object:
  format    version of this description: 2
  anchor, processes, locations
  events    that were read
  faults, remarks
            how many
  findings  severity (fault, remark), rule (number), location (id), name, time_ns,
            message; 20 of each rule at most
  rules     by number of a broken rule: severity, count and sentence
  not_applicable
            numbers of the rules that are not for this archive: those that need the statements of
            this project's writer
--rules --json prints an array: number, severity, scope (any, nccl), sentence.
New fields may be added; `format` changes when one changes or goes.";

/// What to check.
#[derive(Debug, Args)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct Request {
    /// A job's directory or the anchor file of an archive
    #[arg(value_name = "DIR|traces.otf2", required_unless_present = "rules")]
    path: Option<PathBuf>,

    /// List the rules, check nothing
    #[arg(long, conflicts_with_all = ["path", "strict"])]
    rules: bool,

    /// Fail on remarks, too
    #[arg(long)]
    strict: bool,

    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// The result.
#[derive(Debug, Serialize)]
struct Report<'a> {
    format: u32,
    anchor: String,
    processes: u64,
    locations: u64,
    events: u64,
    faults: u64,
    remarks: u64,
    findings: &'a [Finding],
    rules: serde_json::Value,
    not_applicable: Vec<&'static str>,
}

/// Checks an archive.
pub(crate) fn check(request: &Request) -> Result<Exit> {
    let Some(path) = &request.path else {
        listing::print(request.json)?;
        return Ok(Exit::Well);
    };
    let anchor = place::anchor(path)?;
    let archive = Archive::open(&anchor).context("cannot open the archive")?;
    let mut findings = Findings::default();
    let mut report = Report {
        format: 2,
        anchor: anchor.display().to_string(),
        processes: 0,
        locations: 0,
        events: 0,
        faults: 0,
        remarks: 0,
        findings: &[],
        rules: serde_json::Value::Null,
        not_applicable: not_applicable(&archive),
    };
    let remedy = place::remedy_of(&anchor);
    match Trace::read_unchecked(anchor, archive) {
        Err(error) => findings.general(Rule::Definitions, error.to_string()),
        Ok(trace) => {
            report.processes = trace.processes().count() as u64;
            report.locations = trace.definitions.locations.len() as u64;
            report.events = examine(&trace, &mut findings);
        }
    }
    report.faults = findings.faults();
    report.remarks = findings.remarks();
    report.findings = findings.listed();
    report.rules = findings.rules();
    if request.json {
        print::json(&report)?;
    } else {
        print::text(&text(&report, &findings))?;
    }
    if findings.has(&[Rule::Definitions, Rule::AsWritten, Rule::File, Rule::EventCount, Rule::Events]) {
        remedy.iter().for_each(print::note);
    }
    let fails = report.faults > 0 || request.strict && report.remarks > 0;
    Ok(if fails { Exit::Problems } else { Exit::Well })
}

/// The rules that are not for an archive.
fn not_applicable(archive: &Archive) -> Vec<&'static str> {
    let is_nccl = is_nccl(archive);
    let rules = Rule::ALL.iter();
    let others = rules.filter(|rule| rule.scope() == Scope::Nccl && !is_nccl);
    others.map(|rule| rule.number()).collect()
}

/// Everything that can be checked once the definitions can be read; returns how many events were read.
fn examine(trace: &Trace, findings: &mut Findings) -> u64 {
    definitions::check(trace, findings);
    files::strays(trace, findings);
    let written = trace.archive.check_definitions(&trace.definitions);
    if let Err(error) = &written {
        findings.general(Rule::AsWritten, error.to_string());
    }
    let subject = Subject { trace, said: &trace.said };
    let mut across = Across::of(subject);
    let mut total = 0;
    let bar = Bar::new();
    bar.begin("locations", trace.definitions.locations.len() as u64);
    // The locations of ranks have the lowest numbers of their group, and are in the process's or a GPU's: both come
    // before the GPU's channels and streams.
    let mut locations: Vec<_> = trace.definitions.locations.iter().collect();
    locations.sort_by_key(|(location, it)| (trace.process(it.group), it.group, **location));
    let mut current = None;
    for (location, definition) in locations {
        bar.step();
        let (location, process) = (*location, trace.process(definition.group));
        if current.replace(process) != Some(process) {
            across.next_process();
        }
        if !files::check(trace, location, definition, findings, written.is_ok()) {
            across.cannot_be_read(location);
            continue;
        }
        across.next_location(location, findings);
        let mut own = Location::new(trace, location, findings);
        let read = trace.archive.for_each_event(&[location], |_, event| {
            own.event(&event);
            across.event(location, &event, own.findings);
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
                across.cannot_be_read(location);
            }
        }
    }
    drop(bar);
    across.end(findings);
    if is_nccl(&trace.archive) {
        account::check(trace, findings);
    }
    total
}

fn text(report: &Report<'_>, findings: &Findings) -> Text {
    let mut text = Text::default();
    for finding in report.findings {
        text.line(finding);
    }
    for (rule, more) in findings.unlisted() {
        text.line(format_args!("{}: {} more of {}", rule.severity().name(), more, rule.number()));
    }
    if !report.not_applicable.is_empty() {
        text.line(format_args!(
            "not applicable, the archive was not made by this project: {}",
            report.not_applicable.join(", ")
        ));
    }
    let anchor = Path::new(&report.anchor).display();
    let what = format!(
        "{}, {}, {}",
        plural(report.processes, "process", "processes"),
        plural(report.locations, "location", "locations"),
        plural(report.events, "event", "events"),
    );
    let faults = match report.faults {
        0 => "no faults".to_owned(),
        faults => plural(faults, "fault", "faults"),
    };
    let remarks = match report.remarks {
        0 => String::new(),
        remarks => format!(", {}", plural(remarks, "remark", "remarks")),
    };
    text.line(format_args!("{anchor}: {faults}{remarks} ({what})"));
    text
}
