//! `nccl-otf2 stats`: shows what is slow, who is late, and whether time went into waiting or moving bytes.
//!
//! ```text
//!  analysis::analyse ─► Report ─► tables    a sheet for each question
//! ```

use std::path::PathBuf;

use crate::command_line::Exit;
use crate::output::{Bar, Text};
use crate::select::Select;
use crate::stats::columns::COLUMNS;
use crate::stats::tables::TableKind;
use crate::{archives, finalize, output};
use analysis::results::{CauseKind, Finding, Report};
use anyhow::{Result, bail};
use clap::{Args, ValueEnum as _};
use settings::shell_word;

mod columns;
mod tables;

const EXAMPLES: &str = "\
Examples:
  nccl-otf2 stats trace                               the verdict, and a table for each question
  nccl-otf2 stats trace --by ranks --sort awaited     who is waited for
  nccl-otf2 stats trace --by pairs --sort slowdown    which link is slow
  nccl-otf2 stats trace --by nic --sort slowdown      which network interface is slow
  nccl-otf2 stats trace --by operations --function AllReduce --comm world
  nccl-otf2 stats trace --from 20s --to 30s           only that time
  nccl-otf2 stats trace --by phase --level 2          by part of the program (NVTX ranges)
  nccl-otf2 stats trace --by step --sort time         the slowest steps of the program
  nccl-otf2 stats trace --by path                     the critical path
  nccl-otf2 stats trace --by operations --csv > operations.csv
  nccl-otf2 stats trace --by operations --baseline baseline.txt   compared with nccl-tests
  nccl-otf2 stats trace --json | jq .verdict

The first line is the verdict. A rank is called late, and a pair of ranks or a channel slow, only if chance and the \
clocks' stated error do not explain it. Shares of lost time are shares of the time of all ranks in operations: for \
each rank, the time in which at least one operation ran, without warm-up: the first collective of each function on a \
communicator, if more follow. Waiting is the time from a rank's arrival at a collective to the last arrival, transfer \
the time from there to the end; time that the clocks or the timing cannot split is `unclear`. Lost times are summed \
over all ranks; those of several causes overlap and do not add up. The report says whether a late rank calls, launches \
or begins late if that explains half of the time in which others waited for it.

For a pair or channel, `latency` and `rate_fit` come from a regression of time on bytes over all steps, weighted by \
1/t², so that large messages do not decide the latency; with R² below 0.5 or fewer than three points neither is \
shown. Noise only adds time, so `latency_least` and `rate_least` use only the shortest time for each size. `rate` is \
bytes divided by the time with at least one step in flight. `slowdown` is the time of the link's steps divided by \
that of as many steps of the better third of comparable links; `slow_steps` counts steps that are far longer than \
nearly all of those. `lost` is the time that all ranks would save if the link were as fast as comparable links; only \
links that are slow beyond chance have it.

--baseline takes the output of nccl-tests (text, or the JSON of -J) or another archive. `of_baseline` is the bus \
bandwidth of the transfer, or of the whole operation if arrivals cannot be compared, divided by that of the baseline: \
the same function on as many ranks on each host (for an archive, on a communicator of the same shape), interpolated \
between the two nearest sizes. Data types are not compared: if several were measured at a size, the fastest counts. \
`nccl-otf2 export --format nccl-tests` writes the commands that measure a baseline.

Exit codes: 0 printed, 2 wrong usage or an archive that cannot be read.

--json prints the whole report, --csv one table with plain numbers: times in ns, \
sizes in bytes, rates in bytes per second.";

#[derive(Debug, Args)]
#[command(after_long_help = format!("{EXAMPLES}\n\n{COLUMNS}"))]
pub(crate) struct Request {
    /// Job directory, or anchor file of an archive
    #[arg(value_name = "DIR|traces.otf2")]
    path: PathBuf,

    /// Print only this table, with all rows and columns
    #[arg(long, value_enum, value_name = "TABLE")]
    by: Option<TableKind>,

    /// Sort by this column, largest first
    #[arg(long, value_name = "COLUMN")]
    sort: Option<String>,

    /// Print at most this many rows of a table (without --by: 12)
    #[arg(long, value_name = "ROWS")]
    limit: Option<usize>,

    /// With --by phase: show at most this many levels of ranges, and count deeper calls in the range around them
    #[arg(long, value_name = "LEVELS", value_parser = clap::value_parser!(u32).range(1..))]
    level: Option<u32>,

    /// Name of the range that is a step, such as "step #" [default: the outermost range that repeats]
    #[arg(long, value_name = "RANGE")]
    step: Option<String>,

    /// Compare bus bandwidths with this archive or this output of nccl-tests
    #[arg(long, value_name = "DIR|FILE")]
    baseline: Option<PathBuf>,

    #[command(flatten)]
    select: Select,

    /// Print JSON: the whole report, all tables
    #[arg(long)]
    json: bool,

    /// Print one table as comma-separated values (without --by: operations)
    #[arg(long)]
    csv: bool,
}

const SHORT: usize = 12;

pub(crate) fn stats(request: &Request) -> Result<Exit> {
    if request.json && (request.by.is_some() || request.sort.is_some() || request.limit.is_some() || request.csv) {
        bail!(
            "--json prints the whole report, all tables: leave out --by, --sort, --limit and --csv (one table for \
             programs: --by TABLE --csv, or --json | jq .ranks)"
        );
    }
    let trace = archives::open_with_kinds(&request.path)?;
    let filter = analysis::Filter { step: request.step.clone(), ..request.select.filter(&trace)? };
    let bar = Bar::new();
    let has_path = request.json || request.by == Some(TableKind::Path);
    let mut report = match has_path {
        true => finalize::with_path(&trace, &filter, &bar)?.0.report,
        false => finalize::analyse(&trace, &filter, &bar)?.report,
    };
    drop(bar);
    if let Some(path) = &request.baseline {
        finalize::add_baseline(&mut report, path)?;
    }
    if let Some(step) = request.step.as_deref().filter(|_| report.steps.is_none()) {
        bail!("no thread has a range {step:?}; --step takes the name of one range, and `--by phase` shows the names");
    }
    if let Some(levels) = request.level {
        report.phases = tables::up_to(report.phases, levels);
    }
    if !request.select.rank.is_empty() {
        report.verdict.basis.push(finalize::OF_ALL_RANKS.to_owned());
    }
    request.select.refuse_nothing(&trace, finalize::matched(&report))?;
    if request.json {
        output::json(&report)?;
    } else if request.csv {
        let mut sheet =
            tables::sheet(&report, request.by.unwrap_or(TableKind::Operations), &request.select.ranks(), true);
        sheet.sort_and_limit(request.sort.as_deref(), request.limit)?;
        output::exact(&sheet.csv()?)?;
    } else {
        output::text(&text(&report, request)?)?;
    }
    Ok(Exit::Well)
}

/// The command that shows most of what the verdict is about.
fn next_command(report: &Report, path: &str) -> String {
    match (report.verdict.finding, report.causes.first().map(|cause| cause.kind)) {
        (Finding::Unfinished, _) => format!("hang {path}"),
        (Finding::Causes, Some(CauseKind::SlowNic | CauseKind::SlowPair | CauseKind::SlowConnection)) => {
            format!("stats {path} --by pairs --sort slowdown")
        }
        (Finding::Causes, Some(CauseKind::SlowChannel)) => format!("stats {path} --by channels --sort slowdown"),
        (Finding::Pauses, _) => format!("stats {path} --by anomalies"),
        (Finding::Unclear | Finding::Nothing, _) => format!("info {path}"),
        _ => format!("report {path}"),
    }
}

fn text(report: &Report, request: &Request) -> Result<Text> {
    let mut text = Text::default();
    text.headline(&report.verdict.line, report.verdict.finding == Finding::Unfinished);
    if request.by.is_some() && !request.select.rank.is_empty() {
        text.sentence(finalize::OF_ALL_RANKS);
    }
    if request.by.is_none() {
        for sentence in &report.verdict.basis {
            text.sentence(sentence);
        }
        text.next(format_args!("nccl-otf2 {}", next_command(report, &shell_word(&request.path))));
    }
    let shown: Vec<TableKind> = match request.by {
        Some(by) => vec![by],
        None => TableKind::value_variants().to_vec(),
    };
    let ranks = request.select.ranks();
    let mut is_known = false;
    for by in shown {
        let mut sheet = tables::sheet(report, by, &ranks, request.by.is_some());
        if let Some(sort) = request.sort.as_deref().filter(|sort| request.by.is_none() && !sheet.has(sort)) {
            is_known |= tables::is_column(report, sort);
            sheet.sort_and_limit(None, Some(request.limit.unwrap_or(SHORT)))?;
        } else {
            is_known = true;
            sheet.sort_and_limit(request.sort.as_deref(), request.limit.or(request.by.is_none().then_some(SHORT)))?;
        }
        if request.by.is_some() || !sheet.is_empty() {
            sheet.print(request.by.is_some(), &mut text);
        }
    }
    if !is_known {
        bail!(
            "no table has a column {:?}; `--by TABLE` prints one with its columns",
            request.sort.as_deref().unwrap_or_default()
        );
    }
    Ok(text)
}
