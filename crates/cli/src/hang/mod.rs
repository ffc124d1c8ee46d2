//! `nccl-otf2 hang`: who holds up a job, from the journals of its processes, running or dead.
//!
//! ```text
//!  parts/*/journal ─ read ─► job (plain data) ─ judge ─► blockages, suspects ─ report ─► text, JSON
//! ```

mod ending;
mod job;
mod judge;
mod operation;
mod read;
mod report;
mod sequence;
mod stored;
mod tail;
#[cfg(test)]
mod tests;

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Result;
use clap::Args;
use journal::part::JOURNAL;
use trace::part_directories;

use crate::exit::Exit;
use crate::place::{self, ANCHOR};
use crate::print;
use crate::progress::Bar;
use crate::units::{seconds, time};
use job::Job;
use report::text::text;

pub(crate) use ending::{Ending, judged, put_first};
pub(crate) use report::rows::{FILE, Kind, Report};

/// From how long a wait counts as a hang, where nobody says otherwise.
const AFTER_SECONDS: f64 = 10.0;

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

When a job is over, `run` and `finalize` judge it before they remove what it was judged from, and keep the verdict in \
DIR/hang.json. Later hang reads it there; without it, it judges the archive, and so it does when the anchor file is \
given. Where the archive or what is left of the recording cannot tell, the verdict is CANNOT TELL, with the reason.

Exit codes: 0 nothing hangs, 1 something hangs, or is wrong so that it will (a mismatch, a process that is gone while \
others go on), or the job is quiet, 2 wrong usage, nothing that can be read, or it cannot tell.";

/// What to look at.
#[derive(Debug, Args)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct Request {
    /// The job's directory, or the anchor file of an archive, which is then judged by itself
    #[arg(value_name = "DIR|traces.otf2")]
    path: PathBuf,

    /// Count only who has waited for this long as hanging
    #[arg(long, visible_alias = "hang-after", value_name = "SECONDS", default_value_t = AFTER_SECONDS, value_parser = seconds)]
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

/// Says who holds up a job.
///
/// # Errors
///
/// When there is nothing to read, or stdout cannot be written.
pub(crate) fn hang(request: &Request) -> Result<Exit> {
    place::say_others(&request.path);
    let mut noted = String::new();
    loop {
        let report = judge(&request.path, request.after)?;
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

/// Judges a job from its journals; where they are removed, from what was kept of the verdict, or from the archive.
///
/// # Errors
///
/// When there is nothing to read.
pub(crate) fn judge(path: &Path, after: f64) -> Result<Report> {
    if path.is_file() {
        return of_archive(path, after);
    }
    let path = place::directory(path);
    if !place::has_parts(path)? && place::anchor(path).is_ok() {
        return of_archive(path, after);
    }
    let directory = place::job(path)?;
    let has_archive = place::anchor(directory).is_ok();
    let parts = part_directories(directory)?;
    let has_journal = |part: &PathBuf| part.join(JOURNAL).is_dir();
    if has_archive && !parts.iter().any(has_journal) {
        return match stored::read(directory)? {
            Some(report) => Ok(report),
            None => of_archive(directory, after),
        };
    }
    let report = look(directory, after)?;
    // Some journals are removed: the archive has what their processes did.
    if has_archive && report.verdict.kind == Kind::Unknown && !parts.iter().all(has_journal) {
        return of_archive(directory, after);
    }
    Ok(report)
}

/// Judges what the processes of a job have recorded so far.
fn look(directory: &Path, after: f64) -> Result<Report> {
    let bar = Bar::new();
    let job = read::job(directory, &bar)?;
    Ok(report(directory, &job, after))
}

/// Judges what an archive has of a job.
fn of_archive(path: &Path, after: f64) -> Result<Report> {
    let job = read::archive::archive(path, &Bar::new())?;
    Ok(report(path, &job, after))
}

fn report(path: &Path, job: &Job, after: f64) -> Report {
    report::report(&path.display().to_string(), job, ns(after))
}

fn ns(seconds: f64) -> u64 {
    u64::try_from(Duration::from_secs_f64(seconds).as_nanos()).unwrap_or(u64::MAX)
}

fn end(request: &Request, report: &Report) -> Result<Exit> {
    if request.json {
        print::json(report)?;
    } else {
        print::text(&text(report, request.all))?;
    }
    if report.after_ns != ns(request.after) {
        print::note(format_args!(
            "the verdict was made with --after {} when the job was over, and is kept; to judge the \
             archive by another: `nccl-otf2 hang --after {} {}`",
            time(report.after_ns),
            request.after,
            place::directory(&request.path).join(ANCHOR).display()
        ));
    }
    Ok(match report.verdict.kind {
        Kind::Unknown => Exit::CannotDo,
        _ if report.verdict.found => Exit::Problems,
        _ => Exit::Well,
    })
}
