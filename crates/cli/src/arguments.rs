//! The command line as it is typed.

use clap::{Parser, Subcommand};

use crate::check::Request as Check;
use crate::diff::Request as Diff;
use crate::doctor::Request as Doctor;
use crate::dump::Request as Dump;
use crate::export::Request as Export;
use crate::finalize::Request as Finalize;
use crate::hang::Request as Hang;
use crate::info::Request as Info;
use crate::listing::Request as Print;
use crate::merge::Request as Merge;
use crate::metrics::Request as Metrics;
use crate::report::Request as Report;
use crate::run::Request as Run;
use crate::stats::Request as Stats;
use crate::top::Request as Top;
use crate::version;
use crate::watch::Request as Watch;

const AFTER_HELP: &str = "\
Start with:
  nccl-otf2 doctor
  nccl-otf2 run -o trace -- python train.py
  nccl-otf2 info trace

Exit codes: 0 all is well, 1 the trace has problems (doctor: a recording would have), 2 wrong usage or a file that cannot be \
read or written, 3 slower (`diff --fail-if-slower`); `run` ends with the exit code of its command.";

/// Records NCCL jobs as OTF2 archives, completes archives, checks and describes them.
#[derive(Debug, Parser)]
#[command(name = "nccl-otf2", version = version::short(), long_version = version::long(),
    after_help = AFTER_HELP, max_term_width = 100)]
pub(crate) struct Arguments {
    /// What to do.
    #[command(subcommand)]
    pub(crate) verb: Verb,
}

/// The verbs.
#[derive(Debug, Subcommand)]
pub(crate) enum Verb {
    /// Find out what a recording would be like here, before a job is run
    Doctor(Doctor),
    /// Run a command and record what NCCL does in it and its child processes
    Run(Run),
    /// Make the archive of what processes recorded and could not write themselves
    Finalize(Finalize),
    /// Make an archive of what a running job has recorded so far, or last
    Dump(Dump),
    /// Say what is in an archive
    Info(Info),
    /// Say what is slow, who is late, and whether that is waiting or moving bytes
    Stats(Stats),
    /// Compare two runs of a program: what is slower, and whether that is more than chance
    Diff(Diff),
    /// Make a page for a browser: what is slow, who is late, and a timeline
    Report(Report),
    /// Find out whether an archive is sound
    Check(Check),
    /// Find out who holds up a job that hangs or was killed
    Hang(Hang),
    /// Show what a running job does, in the terminal: bandwidths, who is last, what is open
    Top(Top),
    /// Run a command, or write a file, when a job begins to hang or its operations become slow
    Watch(Watch),
    /// Give metrics of a running job to Prometheus, node exporter or an OpenTelemetry collector
    Metrics(Metrics),
    /// Print what was recorded, event by event
    Print(Print),
    /// Put NCCL's archive into the trace that Score-P made of the same job
    Merge(Merge),
    /// Write an archive in the format of another program: Perfetto, Scalasca
    Export(Export),
}
