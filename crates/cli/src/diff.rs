//! `nccl-otf2 diff`: compares two runs of a program, and tells differences from chance.
//!
//! ```text
//!  analysis::analyse ─► Observed of A and of B ─► Comparison ─► tables
//! ```

use std::path::PathBuf;

use crate::command_line::Exit;
use crate::output::{Cell, NumberTable, Text};
use crate::select::Select;
use crate::{finalize, output};
use analysis::results::{Answer, Comparison, Difference, Group, Kind, Outcome, RangeChange};
use anyhow::Result;
use clap::Args;
use nccl_events::archive::path_of_ranges;

const EXAMPLES: &str = "\
Examples:
  nccl-otf2 diff monday tuesday                        what is slower on tuesday
  nccl-otf2 diff monday tuesday --function AllReduce
  nccl-otf2 diff old new --from 10s                    without the warm-up
  nccl-otf2 diff baseline candidate --fail-if-slower 5% || echo 'not merged'
  nccl-otf2 diff monday tuesday --json | jq '.groups[] | select(.outcome == \"slower\")'

Operations are compared if both runs have them: the same function, size class and kind of timing, on communicators of \
the same shape (number of ranks, their places in the job and on hosts). A collective counts once, with the mean of its \
ranks. `change` is the change of the median, `from` and `to` are its confidence interval; p99 needs some 2000 \
collectives in each run, a median at least 50, and more if they vary over the run or many groups and ranges are \
compared: then their outcome is `unclear`. Waiting is the time until the last rank arrives, transfer the time after \
that; their changes are shown if they exceed chance.

`nccl-otf2 report A --diff B` shows the comparison as a web page.

The intervals cover variation within these two runs, but not variation between runs, such as other nodes or other \
jobs on them. To see how much that is, compare two runs of the same program first.

Exit codes: 0 printed; 2 wrong usage or an archive that cannot be read. With --fail-if-slower: 0 the data shows that \
B is not slower by more than PERCENT: the interval of every group's median, with the clocks' error, ends below it. 3 \
the data shows that B is slower by more than PERCENT, in the median or p99 of any group. 4 undecided: a group's \
interval extends beyond PERCENT, operations that cannot be compared take as much of B's time, or B did not end. \
stderr gives the reason, and the smallest change that these runs can show; longer runs can show smaller ones.";

#[derive(Debug, Args)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct Request {
    /// Run to compare with: job directory, or anchor file of an archive
    #[arg(value_name = "A")]
    a: PathBuf,

    /// Run to judge
    #[arg(value_name = "B")]
    b: PathBuf,

    /// Exit with 3 if B is slower by more than this, with 4 if the runs do not show whether B is
    #[arg(long, value_name = "PERCENT", value_parser = share, allow_negative_numbers = true)]
    fail_if_slower: Option<f64>,

    /// Print at most this many rows of a table
    #[arg(long, value_name = "ROWS", default_value_t = 24)]
    limit: usize,

    #[command(flatten)]
    select: Select,

    /// Print JSON
    #[arg(long, conflicts_with = "limit")]
    json: bool,
}

/// `5%` or `5`.
fn share(text: &str) -> Result<f64, String> {
    let percent = text.trim().trim_end_matches('%').trim_end().parse::<f64>();
    let percent = percent.ok().filter(|percent| percent.is_finite() && *percent >= 0.0);
    percent.map(|percent| percent / 100.0).ok_or_else(|| "not a percentage of 0 or more, such as 5% or 0.5%".to_owned())
}

pub(crate) fn diff(request: &Request) -> Result<Exit> {
    let mut comparison = finalize::comparison(&request.a, &request.b, &request.select)?;
    comparison.limit = request.fail_if_slower.map(|share| analysis::is_slower_by(&comparison, share));
    if request.json {
        output::json(&comparison)?;
    } else {
        output::text(&text(&comparison, request.limit)?)?;
    }
    let Some(limit) = comparison.limit else {
        return Ok(Exit::Well);
    };
    Ok(match limit.answer {
        Answer::NotSlower => Exit::Well,
        Answer::Slower => {
            output::note(limit.sentence);
            Exit::Slower
        }
        Answer::NotShown => {
            output::note(limit.sentence);
            Exit::NotShown
        }
    })
}

fn text(comparison: &Comparison, limit: usize) -> Result<Text> {
    let mut text = Text::default();
    text.line(&comparison.sentence);
    for sentence in &comparison.basis {
        text.line(format_args!("  {sentence}"));
    }
    for mut sheet in sheets(comparison) {
        if !sheet.is_empty() {
            sheet.sort_and_limit(None, Some(limit))?;
            sheet.print(false, &mut text);
        }
    }
    Ok(text)
}

/// Shows a comparison as tables.
pub(crate) fn sheets(comparison: &Comparison) -> [NumberTable; 4] {
    let groups = groups(&comparison.groups);
    let ranges = ranges(&comparison.ranges);
    [groups, ranges, only("only in A", &comparison.only_a), only("only in B", &comparison.only_b)]
}

fn groups(groups: &[Group]) -> NumberTable {
    fn median(group: &Group, get: fn(&Difference) -> f64) -> Cell {
        group.median.map_or(Cell::None, |difference| Cell::Time(get(&difference)))
    }
    fn bound(group: &Group, at: usize) -> Cell {
        group.median.map_or(Cell::None, |difference| self::bound(&difference, at))
    }
    fn change(difference: Option<Difference>) -> Cell {
        difference.and_then(|difference| difference.share).map_or(Cell::None, Cell::Change)
    }
    fn time(difference: Option<Difference>) -> Cell {
        difference.map_or(Cell::None, |difference| Cell::Time(difference.difference_ns))
    }
    NumberTable::from_rows(
        "operations, B compared with A",
        groups,
        &[
            ("function", |row| Cell::Text(row.b.function.clone())),
            ("bytes", |row| Cell::Bytes(row.b.bytes_max)),
            ("ranks", |row| Cell::Count(row.b.ranks.into())),
            ("outcome", |row| Cell::Text(name(row.outcome, row.is_coarse).to_owned())),
            ("median_a", |row| median(row, |row| row.a_ns)),
            ("median_b", |row| median(row, |row| row.b_ns)),
            ("change", |row| change(row.median)),
            ("from", |row| bound(row, 0)),
            ("to", |row| bound(row, 1)),
            ("waiting", |row| time(shown(row.waiting))),
            ("transfer", |row| time(shown(row.transfer))),
            ("p99", |row| change(shown(row.p99))),
            ("count_a", |row| Cell::Count(row.a.count)),
            ("count_b", |row| Cell::Count(row.b.count)),
            ("hosts", |row| Cell::Count(row.b.hosts.into())),
            ("timing", |row| Cell::Text(row.b.timing.clone())),
            ("reason", |row| row.reason.clone().map_or(Cell::None, Cell::Text)),
        ],
    )
}

/// An end of the interval, as a share of A.
fn bound(median: &Difference, at: usize) -> Cell {
    let bound = median.interval_ns.map(|interval_ns| interval_ns[at] / median.a_ns);
    bound.filter(|bound| bound.is_finite()).map_or(Cell::None, Cell::Change)
}

fn ranges(ranges: &[RangeChange]) -> NumberTable {
    NumberTable::from_rows(
        "ranges of the program, B compared with A",
        ranges,
        &[
            ("range", |row| Cell::Text(path_of_ranges(&row.path))),
            ("outcome", |row| Cell::Text(name(row.median.outcome, row.is_coarse).to_owned())),
            ("median_a", |row| Cell::Time(row.median.a_ns)),
            ("median_b", |row| Cell::Time(row.median.b_ns)),
            ("change", |row| row.median.share.map_or(Cell::None, Cell::Change)),
            ("from", |row| bound(&row.median, 0)),
            ("to", |row| bound(&row.median, 1)),
            ("count_a", |row| Cell::Count(row.a)),
            ("count_b", |row| Cell::Count(row.b)),
            ("reason", |row| row.reason.clone().map_or(Cell::None, Cell::Text)),
        ],
    )
}

fn shown(difference: Option<Difference>) -> Option<Difference> {
    difference.filter(|difference| matches!(difference.outcome, Outcome::Faster | Outcome::Slower))
}

const fn name(outcome: Outcome, is_coarse: bool) -> &'static str {
    match outcome {
        _ if is_coarse => "not shown",
        Outcome::Faster => "faster",
        Outcome::Slower => "slower",
        Outcome::NoDifference => "no difference",
        Outcome::Unclear => "unclear",
    }
}

fn only(title: &'static str, kinds: &[Kind]) -> NumberTable {
    NumberTable::from_rows(
        title,
        kinds,
        &[
            ("function", |row| Cell::Text(row.function.clone())),
            ("bytes", |row| Cell::Bytes(row.bytes_max)),
            ("ranks", |row| Cell::Count(row.ranks.into())),
            ("count", |row| Cell::Count(row.count)),
            ("hosts", |row| Cell::Count(row.hosts.into())),
            ("timing", |row| Cell::Text(row.timing.clone())),
            ("communicators", |row| Cell::Text(row.communicators.join(", "))),
        ],
    )
}
