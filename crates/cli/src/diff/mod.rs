//! `nccl-otf2 diff`: compares two runs of a program, and tells differences from chance.
//!
//! ```text
//!  analysis::analyse ─► Observed of A and of B ─► Comparison ─► tables
//! ```

mod tables;

use std::path::PathBuf;

use analysis::results::{Answer, Comparison};
use anyhow::Result;
use clap::Args;

use crate::exit::Exit;
use crate::print::{self, Text};
use crate::select::Select;
use crate::statistics;

const EXAMPLES: &str = "\
Examples:
  nccl-otf2 diff monday tuesday                        what is slower on tuesday
  nccl-otf2 diff monday tuesday --function AllReduce
  nccl-otf2 diff old new --from 10s                    without the warm-up
  nccl-otf2 diff baseline candidate --fail-if-slower 5% || echo 'not merged'
  nccl-otf2 diff monday tuesday --json | jq '.groups[] | select(.outcome == \"slower\")'

Operations are compared where both runs have them: communicators of the same shape (number of ranks, their places in \
the job and on hosts), function, size class, and the same kind of timing. A collective counts once, with the mean of \
its ranks. `change` is that of the median, `from` and `to` its interval; p99 needs some 2000 collectives in \
each run, a median 50. Waiting is the time to the last rank's arrival, transfer what follows; their changes are shown where the \
data shows that they are no chance.

`nccl-otf2 report A --diff B` makes a page of the same.

The intervals hold what varies during these two runs. What differs from run to run, such as nodes and other jobs, is \
not in them: compare two runs of the same program first, to see how much that is.

Exit codes: 0 printed; 2 wrong usage or an archive that cannot be read. With --fail-if-slower 0 means that the data \
shows that B is not slower by more than this: the interval of every group's median, with the clocks' error, ends below. \
3 slower: the data shows it, in the median or p99 of any group, and by more than this. 4 the data shows neither: a \
group's interval reaches further, what cannot be compared takes as much of B's time, or B did not end. stderr says which, and what \
change the runs show; longer runs show smaller ones.

--json prints everything (docs/REFERENCE.md, `diff --json`).";

#[derive(Debug, Args)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct Request {
    /// The run to compare with: a job's directory or the anchor file of an archive
    #[arg(value_name = "A")]
    a: PathBuf,

    /// The run to judge
    #[arg(value_name = "B")]
    b: PathBuf,

    /// Exit with 3 if B is slower by more than this, with 4 if the runs do not show whether it is
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
    percent.map(|percent| percent / 100.0).ok_or_else(|| "is a part such as 5% or 0.5%, not below 0".to_owned())
}

pub(crate) fn diff(request: &Request) -> Result<Exit> {
    let mut comparison = statistics::comparison(&request.a, &request.b, &request.select)?;
    comparison.limit = request.fail_if_slower.map(|share| analysis::is_slower_by(&comparison, share));
    if request.json {
        print::json(&comparison)?;
    } else {
        print::text(&text(&comparison, request.limit)?)?;
    }
    let Some(limit) = comparison.limit else {
        return Ok(Exit::Well);
    };
    Ok(match limit.answer {
        Answer::NotSlower => Exit::Well,
        Answer::Slower => {
            print::note(limit.sentence);
            Exit::Slower
        }
        Answer::NotShown => {
            print::note(limit.sentence);
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
    for mut sheet in tables::sheets(comparison) {
        if !sheet.is_empty() {
            sheet.arrange(None, Some(limit))?;
            sheet.print(false, &mut text);
        }
    }
    Ok(text)
}
