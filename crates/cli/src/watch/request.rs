//! The arguments of `watch`: what to watch for, and what to do then.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use crate::units::seconds;

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
collectives (docs/REFERENCE.md, `watch`). It need not read it. It has --command-limit seconds, then it and what \
it started are killed, but for processes of other users and those that cleared their environment; watching continues \
meanwhile. stderr says how it ended. A verdict is new when its kind, or the first suspect's reason or process, is one that was not \
reported since the last time that nothing was found. Who watches anew reports what hangs then once more.

Collectives of a communicator, function, size (by powers of two), timing and algorithm are slow when their median \
algorithm bandwidth of an interval is lower than the median of the last 60 intervals by --slow-factor, and lower than \
nine tenths of these, --slow-intervals times one after the other. Intervals without such collectives do not count. Only \
timings that measure work count, so not `enqueue`. The report names whom others waited for.

It waits for the job to begin, and runs until SIGTERM or SIGINT, or with --until-end until no process runs. Run it on \
a host of the job: there it can tell which processes run. At most a tenth of the time is spent reading: of long \
recordings the looks are further apart than --interval. docs/MONITORING.md has a systemd unit and a Kubernetes sidecar.

Exit codes: 0 ended by a signal, or nothing found, 1 with --once and --until-end: something is found at the end, 2 wrong \
usage; with --once also nothing that can be read, or what is recorded cannot tell.";

#[derive(Debug, Args)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct Request {
    /// The job's directory
    #[arg(value_name = "DIR", value_parser = crate::place::job_argument)]
    pub(super) directory: PathBuf,

    /// Run this when something hangs, or is wrong so that it will: exit code 1 of `hang`
    #[arg(long, value_name = "COMMAND")]
    pub(super) on_hang: Option<String>,

    /// Run this when collectives become slow
    #[arg(long, value_name = "COMMAND", conflicts_with = "once")]
    pub(super) on_slow: Option<String>,

    /// Run this when nothing hangs any more, and when nothing is slow any more
    #[arg(long, value_name = "COMMAND")]
    pub(super) on_clear: Option<String>,

    /// Write each report to this file, replacing it, or as a new file to this directory
    #[arg(long, value_name = "FILE|DIR")]
    pub(super) write: Option<PathBuf>,

    /// Look this often
    #[arg(long, value_name = "SECONDS", default_value_t = 10.0, value_parser = seconds)]
    pub(super) interval: f64,

    /// Count only who has waited for this long as hanging
    #[arg(long, visible_alias = "after", value_name = "SECONDS", default_value_t = 10.0, value_parser = seconds)]
    pub(super) hang_after: f64,

    /// Report slow collectives, with or without --on-slow
    #[arg(long, conflicts_with = "once")]
    pub(super) slow: bool,

    /// Slow is a bandwidth that is lower than usual by this factor
    #[arg(long, value_name = "FACTOR", default_value_t = 2.0)]
    pub(super) slow_factor: f64,

    /// Report what is slow in this many intervals in a row
    #[arg(long, value_name = "INTERVALS", default_value_t = 3)]
    pub(super) slow_intervals: usize,

    /// How many intervals it takes to know what is usual
    #[arg(long, value_name = "INTERVALS", default_value_t = 10)]
    pub(super) slow_past: usize,

    /// Kill a command that takes longer
    #[arg(long, value_name = "SECONDS", default_value_t = 60.0, value_parser = seconds)]
    pub(super) command_limit: f64,

    /// End when no process of the job runs any more
    #[arg(long, conflicts_with = "once")]
    pub(super) until_end: bool,

    /// Look once, and end when the commands have ended
    #[arg(long)]
    pub(super) once: bool,

    /// Print reports as JSON, one a line
    #[arg(long)]
    pub(super) json: bool,
}

impl Request {
    pub(super) fn interval(&self) -> Duration {
        Duration::from_secs_f64(self.interval.max(0.1))
    }
}
