//! `nccl-otf2`: records NCCL jobs as OTF2 archives, completes archives, checks, describes and prints them.
//!
//! One module per verb, each thin over the libraries: `trace` makes archives, `otf2`
//! reads them.
//!
//! | exit code | meaning |
//! |---|---|
//! | 0 | all is well |
//! | 1 | the trace has problems; of `doctor`: nothing would be recorded, or not what is asked for |
//! | 2 | wrong usage, a filter that matches nothing, or a file that cannot be read or written |
//! | 3 | of `diff --fail-if-slower`: slower |
//! | 4 | of `diff --fail-if-slower`: the runs do not show whether it is slower |
//! | the command's | of `run`; 128 + signal when a signal ended it |

#![forbid(unsafe_code)]

mod archive;
mod arguments;
mod calendar;
mod check;
mod diff;
mod doctor;
mod dump;
mod exit;
mod export;
mod finalize;
mod hang;
mod info;
mod listing;
mod merge;
mod metrics;
mod place;
mod present;
mod print;
mod progress;
mod report;
mod run;
mod select;
mod sheet;
mod staging;
mod stats;
mod summary;
mod table;
mod top;
mod units;
mod verdict;
mod version;
mod watch;

use std::process::ExitCode;

use anyhow::Result;
use clap::Parser as _;
use rustix::fs::Mode;
use rustix::process::umask;

use arguments::{Arguments, Verb};
use exit::Exit;

fn main() -> ExitCode {
    // Files may have a limit (`ulimit -f`): what is written beyond fails with an error that says so.
    journal::file_size::fail_in_this_process();
    let arguments = match Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(error) => return arguments::refuse(&error),
    };
    // What the tool makes is for its user only; what commands of the user make is as they want it.
    if !matches!(arguments.verb, Verb::Run(_) | Verb::Watch(_)) {
        let _of_the_shell = umask(Mode::RWXG | Mode::RWXO);
    }
    match act(&arguments.verb) {
        Ok(exit) => exit.into(),
        Err(error) => {
            print::error(&error);
            place::remedy(&error).iter().for_each(print::note);
            Exit::CannotDo.into()
        }
    }
}

fn act(verb: &Verb) -> Result<Exit> {
    match verb {
        Verb::Doctor(request) => doctor::doctor(request),
        Verb::Run(request) => run::run(request),
        Verb::Finalize(request) => finalize::finalize(request),
        Verb::Dump(request) => dump::dump(request),
        Verb::Info(request) => info::info(request),
        Verb::Stats(request) => stats::stats(request),
        Verb::Diff(request) => diff::diff(request),
        Verb::Report(request) => report::report(request),
        Verb::Check(request) => check::check(request),
        Verb::Hang(request) => hang::hang(request),
        Verb::Top(request) => top::top(request),
        Verb::Watch(request) => watch::watch(request),
        Verb::Metrics(request) => metrics::metrics(request),
        Verb::Print(request) => listing::print(request),
        Verb::Merge(request) => merge::merge(request),
        Verb::Export(request) => export::export(request),
    }
}
