//! `nccl-otf2 report`: shows an archive as a single page for browsers.

use std::fs;
use std::path::{Path, PathBuf};

use crate::command_line::Exit;
use crate::finalize::{make_parent, refuse_irreplaceable};
use crate::output::{Bar, Text, VerdictLine};
use crate::select::Select;
use crate::{archives, command_line, finalize, output};
use analysis::results::Outcome;
use anyhow::{Result, ensure};
use clap::Args;
use report_page::{Options, WrittenReport};
use schemars::JsonSchema;
use serde::Serialize;

const EXAMPLES: &str = "\
Examples:
  nccl-otf2 report trace
  nccl-otf2 report trace -o tuesday.html --title 'before the upgrade'
  nccl-otf2 report trace --full
  nccl-otf2 report trace --baseline baseline.txt
  nccl-otf2 report trace --from 20s --to 30s --rank 3 -o part.html
  nccl-otf2 report monday --diff tuesday -o tuesday.html
  nccl-otf2 report monday --diff tuesday --from 10s --function AllReduce

The page says what is slow, who is late, and whether ranks waited or moved bytes, followed by tables, plots and a \
timeline. It is a single file that loads nothing from a network and opens in any browser of 2023 or later.

A page has at most 10 MB, or --size. If an archive has more events than fit, the page has all events of the times \
that matter (the end and unfinished operations, collectives that late ranks held up, anomalies, the slowest steps, \
the beginning, and some times in between), and the longest events of each row for all other times: it says which \
times are complete, and how much of a view is missing. For the other times the timeline also shows each rank's shares \
of transfer and waiting. Long tables keep the rows with the most lost time, and say how many are left out. --from, \
--to and --rank select a part of the job, of which more events fit. --full puts all events into a folder beside the \
page, which loads them as needed; keep the two together. --full needs memory for all events.

With --diff the page shows the result of `nccl-otf2 diff DIR OTHER`: what is slower or faster in OTHER, whether by \
more than chance, how much of it is waiting and how much transfer, what could not be compared, and both runs side by \
side.";

#[derive(Debug, Args)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct Request {
    /// Job directory, or anchor file of an archive
    #[arg(value_name = "DIR|traces.otf2")]
    path: PathBuf,

    /// Compare with this run, and show what differs in it
    #[arg(long, value_name = "OTHER", conflicts_with_all = ["full", "size"])]
    diff: Option<PathBuf>,

    /// Compare bus bandwidths with this archive or this output of nccl-tests
    #[arg(long, value_name = "DIR|FILE", conflicts_with = "diff")]
    baseline: Option<PathBuf>,

    /// File to write; an existing page is replaced [default: report.html, with --diff diff.html, beside the archive]
    #[arg(short, long, visible_alias = "out", value_name = "FILE")]
    output: Option<PathBuf>,

    /// Keep all events, in files beside the page if they do not fit into it
    #[arg(long)]
    full: bool,

    /// Maximum size of the page in MB; 0 makes a page without events
    #[arg(long, value_name = "MB", default_value_t = 10)]
    size: usize,

    /// Title of the page [default: the name of the archive's directory]
    #[arg(long, value_name = "TEXT")]
    title: Option<String>,

    /// Print the result as JSON
    #[arg(long)]
    json: bool,

    #[command(flatten, next_help_heading = "Filters (--comm and --function: only with --diff)")]
    select: Select,
}

#[derive(Serialize, JsonSchema)]
pub(crate) struct Summary {
    page: String,
    bytes: usize,
    /// Instances of regions in the archive, of the time and ranks asked for.
    events: usize,
    events_in_page: usize,
    /// The folder of events beside the page; null without one.
    folder: Option<String>,
    files: usize,
    /// The first line of the page.
    verdict: VerdictLine,
}

#[derive(Serialize, JsonSchema)]
pub(crate) struct DiffSummary {
    page: String,
    bytes: usize,
    outcome: Outcome,
    verdict: VerdictLine,
}

pub(crate) fn report(request: &Request) -> Result<Exit> {
    let tool = format!("nccl-otf2 {}", command_line::short());
    request.output.as_deref().map_or(Ok(()), refuse_irreplaceable)?;
    if let Some(other) = &request.diff {
        return report_comparison(request, other, &tool);
    }
    ensure!(
        request.select.is_of_page(),
        "--comm and --function need --diff: a page of one run always shows all communicators and functions"
    );
    let trace = archives::open_with_kinds(&request.path)?;
    let output = request.output.clone().unwrap_or_else(|| trace.anchor.with_file_name(archives::PAGE));
    refuse_irreplaceable(&output)?;
    make_parent(&output)?;
    let bar = Bar::new();
    let filter = request.select.filter(&trace)?;
    let (mut analysis, hang) = finalize::with_path(&trace, &filter, &bar)?;
    if let Some(path) = &request.baseline {
        finalize::add_baseline(&mut analysis.report, path)?;
    }
    request.select.refuse_nothing(&trace, finalize::matched(&analysis.report))?;
    if !request.select.rank.is_empty() {
        analysis.report.verdict.basis.push(finalize::OF_ALL_RANKS.to_owned());
    }
    let verdict = VerdictLine { line: analysis.report.verdict.line.clone() };
    let title = request.title.clone().unwrap_or_else(|| title_of(&trace.anchor));
    let most_bytes = request.size.saturating_mul(1_000_000);
    let options =
        Options { output: &output, title: &title, tool: &tool, most_bytes, filter: &filter, keeps_all: request.full };
    let WrittenReport { bytes, events, events_in_page, folder, files } =
        report_page::write(&trace, analysis, hang.as_ref(), options, &bar)?;
    drop(bar);
    let (page, folder) = (output.display().to_string(), folder.map(|folder| folder.display().to_string()));
    let more = match &folder {
        Some(folder) => format!(", and {files} {} in {folder}", if files == 1 { "file" } else { "files" }),
        None if events_in_page == 0 && events > 0 => {
            format!("; it has none of {events} events: a larger `--size` keeps the most important ones, `--full` all")
        }
        None if events_in_page < events => {
            format!("; it has {events_in_page} of {events} events, the most important ones: `--full` keeps all")
        }
        None => String::new(),
    };
    let summary = Summary { page, bytes, events, events_in_page, folder, files, verdict };
    if request.json {
        output::json(&summary)?;
    } else {
        output::text(&text(&summary.verdict.line, &summary.page, bytes, &more))?;
    }
    Ok(Exit::Well)
}

fn report_comparison(request: &Request, other: &Path, tool: &str) -> Result<Exit> {
    let comparison = finalize::comparison(&request.path, other, &request.select)?;
    let beside = Path::new(&comparison.runs[0].run.anchor).with_file_name("diff.html");
    let output = request.output.clone().unwrap_or(beside);
    refuse_irreplaceable(&output)?;
    make_parent(&output)?;
    let title = request.title.clone().unwrap_or_else(|| format!("{} and {}", request.path.display(), other.display()));
    let bytes = report_page::write_comparison(&comparison, &output, &title, tool)?;
    let (page, outcome) = (output.display().to_string(), comparison.outcome);
    let summary = DiffSummary { page, bytes, outcome, verdict: VerdictLine { line: comparison.sentence } };
    if request.json {
        output::json(&summary)?;
    } else {
        output::text(&text(&summary.verdict.line, &summary.page, bytes, ""))?;
    }
    Ok(Exit::Well)
}

fn text(verdict: &str, page: &str, bytes: usize, more: &str) -> Text {
    let mut text = Text::default();
    text.line(verdict);
    text.paragraph(format_args!("{page}: {} kB{more}", bytes.div_ceil(1000)));
    text
}

/// The name of the archive's directory: the anchor file is always called `traces.otf2`.
fn title_of(anchor: &Path) -> String {
    let absolute = fs::canonicalize(anchor).unwrap_or_else(|_| anchor.to_owned());
    absolute.parent().and_then(Path::file_name).unwrap_or(anchor.as_os_str()).to_string_lossy().into_owned()
}
