//! `nccl-otf2 watch`: what `hang` says of a running job, and its slow operations, as events.
//!
//! ```text
//!  hang::look ─► Report ───► hangs: is it new? ─┬─► outputs: stdout, a file, a command
//!  live::Live ─► Snapshot ─► slow: is it new? ──┘
//! ```

mod commands;
mod hangs;
mod outputs;
mod slow;

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use clap::Args;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use crate::exit::Exit;
use crate::hang::{Report, look, seconds};
use crate::place;
use crate::print;
use hangs::Hangs;
use live::{Live, Options};
use outputs::{Event, Outputs};
use slow::{Limits, Slow};

const EXAMPLES: &str = "\
Looks every --interval seconds at what the processes of a job have recorded, without asking them, and reports each \
verdict of `nccl-otf2 hang` once, until it clears: a line on stdout, and what --on-hang and --write ask for. With \
--on-slow or --slow it reports collectives that have become slow in the same way.

  nccl-otf2 watch trace --on-hang 'mail -s \"job hangs\" me@example.org'
  nccl-otf2 watch trace --on-hang 'scancel \"$SLURM_JOB_ID\"' --hang-after 300
  nccl-otf2 watch trace --on-hang ./page.sh --on-clear ./all-clear.sh --write /run/nccl-otf2/
  nccl-otf2 watch trace --on-slow 'curl -d @- https://example.org/slow' --slow-factor 1.5
  nccl-otf2 watch trace --once --on-hang ./page.sh      from cron

A command is run by /bin/sh, with the report as JSON on its stdin: that of `nccl-otf2 hang --json`, or of slow \
collectives (docs/REFERENCE.md, `watch`). It need not read it. It has --command-limit seconds, then it and what it started are killed; watching goes on meanwhile. How it ended is \
said on stderr. A verdict is new when its kind, or the first suspect's reason or process, is one that was not \
reported since the last time that nothing was found. Who watches anew reports what hangs then once more.

Collectives of a communicator, function, size (by powers of two), timing and algorithm are slow when their median \
algorithm bandwidth of an interval is lower than the median of the last 60 intervals by --slow-factor, and lower than \
nine tenths of these, --slow-intervals times one after the other. Intervals without such collectives do not count. Only \
timings that measure work count, so not `enqueue`. The report names whom others waited for.

It waits for the job to begin, and goes on until SIGTERM or SIGINT, or with --until-end until no process runs. Run it on \
a host of the job: there it can tell which processes run. At most a tenth of the time is spent reading: of long \
recordings the looks are further apart than --interval. docs/GUIDE.md has a systemd unit and a Kubernetes sidecar.

Exit codes: 0 ended by a signal, or nothing found, 1 with --once and --until-end: something is found at the end, 2 wrong \
usage; with --once also nothing that can be read.";

/// What to do when.
#[derive(Debug, Args)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct Request {
    /// The job's directory
    #[arg(value_name = "DIR")]
    directory: PathBuf,

    /// Run this when something hangs, or is wrong so that it will: exit code 1 of `hang`
    #[arg(long, value_name = "COMMAND")]
    on_hang: Option<String>,

    /// Run this when collectives become slow
    #[arg(long, value_name = "COMMAND", conflicts_with = "once")]
    on_slow: Option<String>,

    /// Run this when nothing hangs any more, and when nothing is slow any more
    #[arg(long, value_name = "COMMAND")]
    on_clear: Option<String>,

    /// Write each report to this file, replacing it, or as a new file to this directory
    #[arg(long, value_name = "FILE|DIR")]
    write: Option<PathBuf>,

    /// Look this often
    #[arg(long, value_name = "SECONDS", default_value_t = 10.0, value_parser = seconds)]
    interval: f64,

    /// Count only who has waited for this long as hanging
    #[arg(long, value_name = "SECONDS", default_value_t = 10.0, value_parser = seconds)]
    hang_after: f64,

    /// Report slow collectives, with or without --on-slow
    #[arg(long, conflicts_with = "once")]
    slow: bool,

    /// Slow is a bandwidth that is lower than usual by this factor
    #[arg(long, value_name = "FACTOR", default_value_t = 2.0)]
    slow_factor: f64,

    /// In so many intervals, one after the other
    #[arg(long, value_name = "INTERVALS", default_value_t = 3)]
    slow_intervals: usize,

    /// What is usual is known after so many intervals
    #[arg(long, value_name = "INTERVALS", default_value_t = 10)]
    slow_past: usize,

    /// Kill a command that takes longer
    #[arg(long, value_name = "SECONDS", default_value_t = 60.0, value_parser = seconds)]
    command_limit: f64,

    /// End when no process of the job runs any more
    #[arg(long, conflicts_with = "once")]
    until_end: bool,

    /// Look once, and end when the commands have ended
    #[arg(long)]
    once: bool,

    /// Print reports as JSON, one a line
    #[arg(long)]
    json: bool,
}

/// How long signals and commands wait to be looked at.
const STEP: Duration = Duration::from_millis(50);

/// What became of a verdict.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Change {
    Found,
    Cleared,
}

/// Watches a job.
///
/// # Errors
///
/// With `--once`, when there is nothing to read.
pub(crate) fn watch(request: &Request) -> Result<Exit> {
    let is_over = Arc::new(AtomicBool::new(false));
    for signal in [SIGTERM, SIGINT, SIGHUP] {
        signal_hook::flag::register(signal, Arc::clone(&is_over)).context("cannot catch signals")?;
    }
    let (hangs, outputs, noted) = (Hangs::default(), Outputs::new(request), String::new());
    let mut watcher = Watcher { request, is_over, hangs, follower: Follower::new(request), outputs, noted };
    if request.once {
        let report = watcher.look()?;
        watcher.wait_for_commands();
        return Ok(exit(&report));
    }
    loop {
        let began = Instant::now();
        match watcher.look() {
            Ok(report) if request.until_end && !report.runs() => {
                watcher.wait_for_commands();
                return Ok(exit(&report));
            }
            Ok(_) => {}
            Err(error) => watcher.note_once(&error),
        }
        let took = began.elapsed();
        // Whole journals are read: a tenth of the time is enough for it.
        let pause = request.interval().saturating_sub(took).max(took * 9);
        if !watcher.wait_until(Instant::now() + pause) {
            watcher.outputs.commands.end();
            return Ok(Exit::Well);
        }
    }
}

impl Request {
    fn interval(&self) -> Duration {
        Duration::from_secs_f64(self.interval.max(0.1))
    }
}

/// Follows the job, to see how fast it is.
struct Follower {
    live: Live,
    slow: Slow,
    /// When the interval began.
    began: Instant,
}

impl Follower {
    fn new(request: &Request) -> Option<Self> {
        let Request { slow_factor: factor, slow_intervals: intervals, slow_past: past, .. } = *request;
        let is_wanted = request.slow || request.on_slow.is_some();
        is_wanted.then(|| Self {
            live: Live::new(&request.directory, Options::default()),
            slow: Slow::new(Limits { factor, intervals, past }),
            began: Instant::now(),
        })
    }
}

fn exit(report: &Report) -> Exit {
    if report.verdict.found { Exit::Problems } else { Exit::Well }
}

struct Watcher<'a> {
    request: &'a Request,
    is_over: Arc<AtomicBool>,
    hangs: Hangs,
    follower: Option<Follower>,
    outputs: Outputs<'a>,
    noted: String,
}

impl Watcher<'_> {
    fn look(&mut self) -> Result<Report> {
        let report = look(place::job(&self.request.directory)?, self.request.hang_after)?;
        if let Some(change) = self.hangs.change(&report) {
            self.outputs.report(change, Event::Hang, &report, &report.verdict.text);
        }
        Ok(report)
    }

    /// Reads on, and judges the interval when it is over. Whether there is more to read.
    fn follow(&mut self) -> bool {
        let Some(follower) = &mut self.follower else { return false };
        let is_behind = follower.live.poll().is_behind;
        if follower.began.elapsed() >= self.request.interval() {
            follower.began = Instant::now();
            let change = follower.slow.change(&self.request.directory, &follower.live.snapshot());
            if let Some((change, report)) = change {
                self.outputs.report(change, Event::Slow, &report, &report.verdict.text);
            }
        }
        is_behind
    }

    /// Says why nothing could be read, but not again and again.
    fn note_once(&mut self, error: &anyhow::Error) {
        let reasons = print::reasons(error);
        if self.noted != reasons {
            print::note(format_args!("{reasons}; looking again"));
            self.noted = reasons;
        }
    }

    /// Whether it shall go on then.
    fn wait_until(&mut self, then: Instant) -> bool {
        while !self.is_over.load(Ordering::SeqCst) {
            let _some_run = self.outputs.commands.attend();
            let is_behind = self.follow();
            let left = then.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return true;
            }
            if !is_behind {
                std::thread::sleep(left.min(STEP));
            }
        }
        false
    }

    fn wait_for_commands(&mut self) {
        while self.outputs.commands.attend() {
            if self.is_over.load(Ordering::SeqCst) {
                return self.outputs.commands.end();
            }
            std::thread::sleep(STEP);
        }
    }
}
