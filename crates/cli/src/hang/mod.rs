//! `nccl-otf2 hang`: who holds up a job, from the journals of its processes, running or dead.
//!
//! ```text
//!  parts/*/journal ─ read ─► job (plain data) ─ judge ─► blockages, suspects ─ report ─► text, JSON
//! ```

mod job;
mod judge;
mod operation;
mod read;
mod report;
mod sequence;
mod tail;
#[cfg(test)]
mod tests;

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Result;
use clap::Args;

use crate::exit::Exit;
use crate::place;
use crate::print;
use crate::progress::Bar;
use report::text::text;

pub(crate) use report::rows::{Kind, Report};

const EXAMPLES: &str = "\
Reads what the processes of a job have recorded so far, without asking them: they may run, hang, or have been \
killed. The first line is the verdict: who holds up the job, and why. Then, for every communicator where somebody \
waits: the last complete and the first incomplete collective, which ranks have entered it and which have not, and \
where each rank is.

  nccl-otf2 hang trace                  a job that hangs now, or was killed
  nccl-otf2 hang trace --after 300      only what lasts for five minutes
  nccl-otf2 hang trace --watch 60       look every minute, end when something hangs
  nccl-otf2 hang trace --json | jq -r .verdict.text

In a healthy job, too, ranks wait for the last one: only who has waited for --after seconds is counted as hanging, \
unless it can never go on (a process is gone, ranks call different things). Of a process that is gone the time ends \
with its last record. Run it on a host of the job: there it can tell which processes run.

Of a flight recording the beginnings are gone: NCCL's own numbers (sequence) then tell which calls of the ranks are the \
same. What has none (sends and receives, broadcasts in NCCL 2.29 and 2.30) is not compared, and that is said.

How much it can tell depends on what is recorded. NCCL_OTF2_EVENTS=light knows who called what; standard (the \
default) also whose network transfers have ended; standard,ProxyStep also what each transfer waits for; full also \
what the GPU does. docs/GUIDE.md says how to read the report, docs/REFERENCE.md has the fields of --json.

Where NCCL reports nothing any more for --after seconds (2 at least) though processes live, and nobody is seen to wait, \
the verdict is QUIET: with what was last seen on which rank. A job that hangs while communicators are made or split, or \
outside NCCL, looks so, and so does one that computes that long.

Exit codes: 0 nothing hangs, 1 something hangs, or is wrong so that it will (a mismatch, a process that is gone while \
others go on), or the job is quiet, 2 wrong usage, or nothing that can be read.";

/// What to look at.
#[derive(Debug, Args)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct Request {
    /// The job's directory
    #[arg(value_name = "DIR")]
    directory: PathBuf,

    /// Count only who has waited for this long as hanging
    #[arg(long, value_name = "SECONDS", default_value_t = 10.0, value_parser = seconds)]
    after: f64,

    /// Look again every so often, until something hangs or no process runs any more
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    watch: Option<f64>,

    /// Show all ranks and all communicators
    #[arg(long)]
    all: bool,

    /// Print the report as JSON, as `docs/REFERENCE.md` §9 describes
    #[arg(long)]
    json: bool,
}

/// Reads a number of seconds.
pub(crate) fn seconds(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(seconds) if (0.0..1e9).contains(&seconds) => Ok(seconds),
        _ => Err("a number of seconds, such as 10 or 0.5".to_owned()),
    }
}

/// Says who holds up a job.
///
/// # Errors
///
/// When there is nothing to read, or stdout cannot be written.
pub(crate) fn hang(request: &Request) -> Result<Exit> {
    let directory = place::job(&request.directory)?;
    let mut noted = String::new();
    loop {
        let report = look(directory, request.after)?;
        let Some(pause) = request.watch else {
            return end(request, &report);
        };
        if report.verdict.found || !report.runs() {
            return end(request, &report);
        }
        if report.verdict.kind != Kind::Nothing || noted != report.verdict.text {
            print::note(&report.verdict.text);
            noted.clone_from(&report.verdict.text);
        }
        std::thread::sleep(Duration::from_secs_f64(pause.max(0.1)));
    }
}

/// Judges what the processes of a job have recorded so far.
///
/// # Errors
///
/// When there is nothing to read.
pub(crate) fn look(directory: &Path, after: f64) -> Result<Report> {
    let bar = Bar::new();
    let job = read::job(directory, &bar)?;
    let after_ns = Duration::from_secs_f64(after).as_nanos();
    let after_ns = u64::try_from(after_ns).unwrap_or(u64::MAX);
    Ok(report::report(&directory.display().to_string(), &job, after_ns))
}

fn end(request: &Request, report: &Report) -> Result<Exit> {
    if request.json {
        print::json(report)?;
    } else {
        print::result(&text(report, request.all))?;
    }
    Ok(if report.verdict.found { Exit::Problems } else { Exit::Well })
}
