//! `nccl-otf2 hang`: finds who holds up a job, from the journals of its live or dead processes, or from its archive.

mod text;

use std::path::PathBuf;
use std::time::Duration;

use anyhow::Result;
use clap::Args;
use hang::{Kind, Report};

use crate::exit::Exit;
use crate::place;
use crate::print;
use crate::units::{seconds, time};
use crate::verdict::{AFTER_SECONDS, judge, ns};
use archive::ANCHOR;

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
same. What has none (sends and receives; from NCCL 2.29 on broadcasts, unless NCCL_ALLGATHERV_ENABLE=0) is not \
compared, and that is said.

How much it can tell depends on what is recorded. NCCL_OTF2_EVENTS=light knows who called what; standard (the \
default) also whose network transfers have ended; standard,ProxyStep also what each transfer waits for; full also \
what the GPU does. docs/HANG.md says how to read the report, docs/REFERENCE.md has the fields of --json.

NVTX ranges of NCCL and of the program, which `run` records, say in which call of NCCL each rank is, also while \
communicators are made, split or destroyed, and in which part of the program: `load_batch`.

Where NCCL reports nothing any more for --after seconds (2 at least) though processes live, and nobody is seen to wait, \
the verdict is QUIET: with what was last seen on which rank. A job that hangs outside NCCL looks so, without NVTX ranges \
one that hangs while communicators are made or split, too, and so does one that computes that long.

When a job is over, `run` and `finalize` judge it before they remove what it was judged from, and keep the verdict in \
DIR/hang.json. Later hang reads it there; without it, it judges the archive, and so it does when the anchor file is \
given. Where the archive or what is left of the recording cannot tell, the verdict is CANNOT TELL, with the reason.

Exit codes: 0 nothing hangs, 1 something hangs, or is wrong so that it will (a mismatch, a process that is gone while \
others go on), or the job is quiet, 2 wrong usage, nothing that can be read, or it cannot tell.";

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

pub(crate) fn hang(request: &Request) -> Result<Exit> {
    place::note_other_jobs(&request.path);
    let mut noted = String::new();
    loop {
        let report = judge(&request.path, request.after)?;
        let Some(pause) = request.watch.filter(|_| !report.verdict.found && report.runs()) else {
            return end(request, &report);
        };
        if report.verdict.kind != Kind::Nothing || noted != report.verdict.text {
            print::note(&report.verdict.text);
            noted = report.verdict.text;
        }
        std::thread::sleep(Duration::from_secs_f64(pause.max(0.1)));
    }
}

fn end(request: &Request, report: &Report) -> Result<Exit> {
    if request.json {
        print::json(report)?;
    } else {
        print::text(&text::text(report, request.all))?;
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
