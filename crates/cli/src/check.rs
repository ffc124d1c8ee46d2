//! `nccl-otf2 check`: is an archive what it says, and what readers rely on?
//!
//! ```text
//!  definitions   references, groups, communicators, the anchor's numbers
//!  files         every location has whole files with as many events as promised
//!  rows          one location at a time: order, nesting, pairs, references of events
//!  exchanges     across locations: collectives and messages of each communicator
//!  completeness  the archive's own account of what was seen, written and lost
//! ```

mod completeness;
mod definitions;
mod exchanges;
mod files;
mod findings;
mod row;

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use clap::Args;
use nccl_profiler_otf2::write::progress::Progress as _;
use otf2::Archive;
use serde::Serialize;

use crate::archive::Trace;
use crate::completeness::Completeness;
use crate::exit::Exit;
use crate::place;
use crate::print;
use crate::progress::Bar;
use crate::units::plural;

use exchanges::Exchanges;
use findings::{Finding, Findings, Rule};
use row::Row;

const EXAMPLES: &str = "\
Examples:
  nccl-otf2 check trace
  nccl-otf2 check --json trace/traces.otf2 | jq '.findings[].rule'

Faults say that the archive is wrong: a reader may show wrong things, or fail. Remarks say what the archive \
itself admits: operations that had not ended, events that could not be recorded, ranks that nobody recorded.

Exit codes: 0 no faults, 1 faults (with --strict also remarks), 2 no archive, or wrong usage.

--json prints an object:
  format    version of this description: 1
  anchor, processes, locations
  events    that were read
  faults, remarks
            how many
  findings  severity (fault, remark), rule, location (id), name, time_ns,
            message; 20 of each rule at most
  rules     by rule: severity and count
New fields may be added; `format` changes when one changes or goes.";

/// What to check.
#[derive(Debug, Args)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct Request {
    /// A job's directory or the anchor file of an archive
    #[arg(value_name = "DIR|traces.otf2")]
    path: PathBuf,

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
}

/// Checks an archive.
///
/// # Errors
///
/// When there is none.
pub(crate) fn check(request: &Request) -> Result<Exit> {
    let anchor = place::anchor(&request.path)?;
    let archive = Archive::open(&anchor).context("cannot open the archive")?;
    let mut findings = Findings::default();
    let mut report = Report {
        format: 1,
        anchor: anchor.display().to_string(),
        processes: 0,
        locations: 0,
        events: 0,
        faults: 0,
        remarks: 0,
        findings: &[],
        rules: serde_json::Value::Null,
    };
    match archive.definitions() {
        Err(error) => findings.add(Rule::Definitions, None, None, error.to_string()),
        Ok(definitions) => {
            let trace = Trace {
                anchor,
                archive,
                definitions,
            };
            report.processes = trace.processes() as u64;
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
        print::result(&text(&report, &findings))?;
    }
    let fails = report.faults > 0 || request.strict && report.remarks > 0;
    Ok(if fails { Exit::Problems } else { Exit::Well })
}

/// Everything that can be checked once the definitions can be read; returns how many events were read.
fn examine(trace: &Trace, findings: &mut Findings) -> u64 {
    definitions::check(trace, findings);
    let account = Completeness::of(&trace.archive);
    let mut exchanges = Exchanges::of(trace);
    let mut total = 0;
    let bar = Bar::new();
    bar.begin("locations", trace.definitions.locations.len() as u64);
    for (location, definition) in trace.locations() {
        bar.step();
        if !files::check(trace, location, definition, findings) {
            exchanges.cannot_be_read(location);
            continue;
        }
        let mut row = Row::new(trace, location, findings);
        let read = trace.archive.for_each_event(&[location], |_, event| {
            row.event(&event);
            exchanges.event(location, &event);
            ControlFlow::Continue(())
        });
        match read {
            Ok(events) => {
                row.end();
                total += events;
            }
            Err(error) => {
                let name = trace.location_name(location);
                findings.add(
                    Rule::Events,
                    Some((location, name)),
                    None,
                    error.to_string(),
                );
                exchanges.cannot_be_read(location);
            }
        }
    }
    drop(bar);
    exchanges.check(trace, &account, findings);
    completeness::check(&account, findings);
    total
}

fn text(report: &Report<'_>, findings: &Findings) -> String {
    let mut lines: Vec<String> = report.findings.iter().map(ToString::to_string).collect();
    lines.extend(findings.unlisted().map(|(rule, more)| {
        format!(
            "{}: {} more of {}",
            rule.severity().name(),
            more,
            rule.name()
        )
    }));
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
    lines.push(format!("{anchor}: {faults}{remarks} ({what})"));
    lines.push(String::new());
    lines.join("\n")
}
