//! `nccl-otf2 check`: checks whether an archive is sound.

use std::path::PathBuf;

use crate::command_line::Exit;
use crate::output::{Bar, Side, Table, Text};
use crate::{archives, output};
use analysis::units::plural;
use anyhow::{Context as _, Result};
use check::{Report, Rule, Scope, Severity};
use clap::Args;
use otf2::Archive;
use schemars::JsonSchema;
use serde::Serialize;

const EXAMPLES: &str = "\
Examples:
  nccl-otf2 check trace
  nccl-otf2 check --json trace/traces.otf2 | jq '.findings[].rule'
  nccl-otf2 check --rules

A fault means that the archive is wrong: readers may show wrong data or fail. A remark is something that the archive \
itself states: unfinished operations, events that could not be recorded, ranks that were not recorded.

Exit codes: 0 no faults, 1 faults (with --strict also remarks), 2 no archive, or wrong usage.";

#[derive(Debug, Args)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct Request {
    /// Job directory, or anchor file of an archive
    #[arg(value_name = "DIR|traces.otf2", required_unless_present = "rules")]
    path: Option<PathBuf>,

    /// List the rules and check nothing
    #[arg(long, conflicts_with_all = ["path", "strict"])]
    rules: bool,

    /// Fail on remarks as well
    #[arg(long)]
    strict: bool,

    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Serialize, JsonSchema)]
pub(crate) struct Json<'a> {
    format: u32,
    #[serde(flatten)]
    report: &'a Report,
}

pub(crate) fn check(request: &Request) -> Result<Exit> {
    let Some(path) = &request.path else {
        print_rules(request.json)?;
        return Ok(Exit::Well);
    };
    let anchor = archives::anchor(path)?;
    let archive = Archive::open(&anchor).context("cannot open the archive")?;
    let remedy = archives::remedy_of(&anchor);
    let other_jobs = archives::other_jobs_beside(&anchor);
    let report = check::check(anchor, archive, &other_jobs, &Bar::new());
    if request.json {
        output::json(&Json { format: 2, report: &report })?;
    } else {
        output::text(&text(&report))?;
    }
    if report.is_damaged {
        remedy.iter().for_each(output::note);
    }
    let fails = report.faults > 0 || request.strict && report.remarks > 0;
    Ok(if fails { Exit::Problems } else { Exit::Well })
}

#[derive(Serialize, JsonSchema)]
struct RuleRow {
    number: &'static str,
    severity: Severity,
    scope: Scope,
    sentence: &'static str,
}

fn print_rules(as_json: bool) -> Result<()> {
    if as_json {
        let rules = Rule::ALL.iter().map(|rule| RuleRow {
            number: rule.number(),
            severity: rule.severity(),
            scope: rule.scope(),
            sentence: rule.sentence(),
        });
        return output::json(&rules.collect::<Vec<_>>());
    }
    let mut table = Table::new(&["rule", "severity", "archives", "what holds"].map(|name| (name, Side::Left)));
    for rule in Rule::ALL {
        let cells = [rule.number(), rule.severity().name(), rule.scope().name(), rule.sentence()];
        table.row(cells.map(str::to_owned).into());
    }
    let mut text = Text::default();
    table.print(&mut text);
    output::text(&text)
}

fn text(report: &Report) -> Text {
    let mut text = Text::default();
    for finding in &report.findings {
        text.line(finding);
    }
    for (rule, more) in &report.unlisted {
        text.line(format_args!("{}: {} more of {}", rule.severity().name(), more, rule.number()));
    }
    if !report.not_applicable.is_empty() {
        text.line(format_args!(
            "not applicable, because this project did not make the archive: {}",
            report.not_applicable.join(", ")
        ));
    }
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
    text.line(format_args!("{}: {faults}{remarks} ({what})", report.anchor));
    text
}
