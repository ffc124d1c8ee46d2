//! `nccl-otf2 merge`: merges NCCL's archive into the trace that Score-P made of the same job.

use std::path::{Path, PathBuf};

use crate::command_line::Exit;
use crate::finalize::Staging;
use crate::output::{Bar, Side, Table, Text};
use crate::{archives, finalize, output};
use analysis::units::plural;
use anyhow::{Result, bail};
use archive::ANCHOR;
use clap::{Args, ValueEnum};
use merge::{Mapping, Plan, Readers, Report, SETTINGS, WrittenArchive};
use schemars::JsonSchema;
use serde::Serialize;

const EXAMPLES: &str = "\
Examples:
  nccl-otf2 merge --dry-run scorep-20261121_1200_1234 trace
  nccl-otf2 merge scorep-20261121_1200_1234 trace -o merged
  nccl-otf2 merge scorep-of-rank-* trace -o merged
  nccl-otf2 merge --for scalasca scorep-20261121_1200_1234 trace -o analysis
  nccl-otf2 merge --map 3=0 --map node7:4711=1 scorep-20261121_1200_1234 trace -o merged

Name Score-P's experiment directory (recorded with SCOREP_ENABLE_TRACING=true) and the directory of NCCL's archive, \
of the same run of a job. Score-P's events and definitions are not changed; NCCL's locations are added to Score-P's \
processes and hosts, and their times are converted to Score-P's clock. NCCL calls are inserted between Score-P's \
events of the same thread if Score-P identifies the thread and the regions of both nest. Processes are matched by \
host and process id, else by rank: the launcher's, or NCCL's in a communicator as large as MPI_COMM_WORLD.

Exit codes: 0 merged, 2 not merged, or wrong usage.";

#[derive(Debug, Args)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct Request {
    /// Score-P's experiment directory and NCCL's archives of the same job, or their anchor files.
    /// With one Score-P trace for each process (as under torchrun), name all of these traces
    #[arg(value_name = "ARCHIVE", required = true, num_args = 2..)]
    archives: Vec<PathBuf>,

    /// Directory to create; it must not exist
    #[arg(short, long, visible_alias = "output", value_name = "DIR", required_unless_present = "dry_run")]
    out: Option<PathBuf>,

    /// Match a process of NCCL's archive to one of Score-P's, each a rank or HOST:PROCESS_ID; may be repeated
    #[arg(long, value_name = "NCCL=SCOREP")]
    map: Vec<Mapping>,

    /// Show how processes are matched and whether the clocks fit; write nothing
    #[arg(long)]
    dry_run: bool,

    /// Ignore the clocks: place NCCL's first event this many seconds after the beginning of
    /// Score-P's trace. A guess, for traces whose clocks have nothing in common
    #[arg(long, value_name = "SECONDS", value_parser = seconds_from_0)]
    align_start: Option<f64>,

    /// Tool to write for; for scalasca, NCCL's operations become MPI's where the host waits for them
    #[arg(long = "for", value_enum, value_name = "TOOL", default_value = "vampir")]
    tool: Tool,

    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Tool {
    /// Vampir and all other readers of OTF2
    Vampir,
    /// Scalasca's analyser, scout
    Scalasca,
}

fn seconds_from_0(text: &str) -> Result<f64, String> {
    let seconds = text.parse().ok().filter(|seconds: &f64| seconds.is_finite() && *seconds >= 0.0);
    seconds.ok_or_else(|| format!("{text:?} is not a number of seconds from 0 on"))
}

#[derive(Serialize, JsonSchema)]
pub(crate) struct Json<'a> {
    format: u32,
    /// The anchor that was written; null with `--dry-run`, like `locations` and `events`.
    archive: Option<String>,
    #[serde(flatten)]
    report: &'a Report<'a>,
    locations: Option<u64>,
    events: Option<u64>,
}

pub(crate) fn merge(request: &Request) -> Result<Exit> {
    let out = request.out.as_ref().filter(|_| !request.dry_run);
    if let Some(out) = out {
        finalize::refuse_existing(out)?;
    }
    let readers = match request.tool {
        Tool::Vampir => Readers::All,
        Tool::Scalasca => Readers::Scalasca,
    };
    let anchors = request.archives.iter().map(|path| anchor(path)).collect::<Result<Vec<PathBuf>>>()?;
    if readers == Readers::Scalasca {
        anchors.iter().for_each(|anchor| archives::note_other_jobs(anchor));
    }
    let plan = Plan::open(&anchors, &request.map, request.align_start, readers)?;
    let report = plan.report();
    let written = match out {
        None => None,
        Some(out) => {
            let staging = Staging::create(out)?;
            let written = plan.write(staging.path(), &Bar::new())?;
            staging.put_in_place()?;
            if readers == Readers::Scalasca && report.has_calls_twice {
                output::note(
                    "NCCL calls were shown to Score-P while the job ran: the report will have them besides the \
                    operations, under the same names (NCCL_OTF2_SCOREP=off avoids this)",
                );
            }
            for communicator in &written.left_out {
                output::note(format_args!("left out: {communicator}"));
            }
            Some((out.join(ANCHOR).display().to_string(), written))
        }
    };
    if request.json {
        output::json(&Json {
            format: 1,
            archive: written.as_ref().map(|(anchor, _)| anchor.clone()),
            report: &report,
            locations: written.as_ref().map(|(_, written)| written.locations),
            events: written.as_ref().map(|(_, written)| written.events),
        })?;
    } else {
        output::text(&text(&report, written.as_ref()))?;
    }
    Ok(Exit::Well)
}

fn anchor(path: &Path) -> Result<PathBuf> {
    if path.try_exists().is_ok_and(|is_there| !is_there) {
        let shown = path.display();
        bail!("{shown}: no such file or directory; name Score-P's experiment directory and that of NCCL's archive");
    }
    let anchor = archives::anchor(path);
    if anchor.is_err() && path.join(SETTINGS).exists() {
        bail!("{}: Score-P wrote no trace here; set SCOREP_ENABLE_TRACING=true", path.display());
    }
    anchor
}

fn text(report: &Report<'_>, written: Option<&(String, WrittenArchive)>) -> Text {
    let table = Table::from_rows(
        &report.pairs,
        &[
            ("NCCL", Side::Left, |pair| pair.nccl.name.clone()),
            ("Score-P", Side::Left, |pair| pair.scorep.to_string()),
            ("by", Side::Left, |pair| pair.by.to_string()),
            ("locations", Side::Right, |pair| pair.nccl.locations.to_string()),
            ("events", Side::Right, |pair| pair.nccl.events.to_string()),
            ("begins after", Side::Right, |pair| pair.begins_after_ns.map_or_else(|| "-".to_owned(), seconds)),
        ],
    );
    let mut text = Text::default();
    table.print(&mut text);
    if report.without_nccl > 0 {
        let number = plural(report.without_nccl, "process", "processes");
        text.line(format_args!("{number} of Score-P's trace did not record NCCL"));
    }
    text.line(match report.clock {
        "guess" => "clocks: GUESSED (--align-start): the offset between NCCL's and Score-P's events was not measured",
        _ => "clocks: aligned by readings of both clocks in each process",
    });
    if let Some(calls) = &report.calls {
        let threads = |number| plural(number, "thread", "threads");
        text.line(format_args!("calls: on Score-P's locations of {}", threads(calls.on_score_p_locations as u64)));
        for own in &calls.own_locations {
            text.line(format_args!("calls: on NCCL's own locations of {}: {}", threads(own.threads), own.reason));
        }
    }
    match written {
        None => text.line("nothing was written (--dry-run)"),
        Some((anchor, written)) => text.line(format_args!(
            "{anchor}: {}, {}, all read back",
            plural(written.locations, "location", "locations"),
            plural(written.events, "event", "events"),
        )),
    }
    text
}

#[expect(clippy::cast_precision_loss, reason = "for people: milliseconds")]
fn seconds(ns: i64) -> String {
    format!("{:.3} s", ns as f64 / 1e9)
}
