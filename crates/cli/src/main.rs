//! `nccl-otf2`: records NCCL jobs as OTF2 archives, completes archives, checks, describes and prints them.
//!
//! One module per verb, each a thin layer over the libraries; the modules below hold code that verbs share.

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
mod journals;
mod json_schema;
mod listing;
mod merge;
mod metrics;
mod pages;
mod place;
mod plugin;
mod present;
mod print;
mod progress;
mod report;
mod run;
mod running;
mod select;
mod sheet;
mod slot;
mod staging;
mod statistics;
mod stats;
mod summary;
mod table;
mod top;
mod units;
mod verdict;
mod version;
mod watch;

use std::io::ErrorKind;
use std::process::ExitCode;

use anyhow::Result;
use clap::{CommandFactory as _, FromArgMatches as _};
use rustix::fs::Mode;
use rustix::process::umask;

use arguments::{Arguments, Verb};
use exit::Exit;

fn main() -> ExitCode {
    // With a file size limit (`ulimit -f`), writing beyond it then fails with an error that says so.
    journal::host::fail_in_this_process();
    journal::host::give_back_in_this_process();
    let matches = match json_schema::with_option(Arguments::command()).try_get_matches() {
        Ok(matches) => matches,
        Err(error) => return refuse(&error),
    };
    if let Some(schema) = json_schema::asked(&matches) {
        return print::schema(&schema).map_or_else(end, |()| Exit::Well.into());
    }
    let arguments = match Arguments::from_arg_matches(&matches) {
        Ok(arguments) => arguments,
        Err(error) => return refuse(&error),
    };
    // The tool's own outputs are private to its user; files of the user's commands and pages follow the user's umask.
    if !matches!(arguments.verb, Verb::Run(_) | Verb::Watch(_) | Verb::Pages(_)) {
        let _of_the_shell = umask(Mode::RWXG | Mode::RWXO);
    }
    match act(&arguments.verb) {
        Ok(exit) => exit.into(),
        Err(error) => end(error),
    }
}

/// Also prints what `--help` and `--version` ask for, which clap passes as an error.
fn refuse(error: &clap::Error) -> ExitCode {
    match error.print() {
        Err(source) if !error.use_stderr() && source.kind() != ErrorKind::BrokenPipe => {
            end(anyhow::Error::new(source).context("cannot write to stdout"))
        }
        _ => ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(2)),
    }
}

fn end(error: anyhow::Error) -> ExitCode {
    print::error(&error);
    place::remedy(&error).iter().for_each(print::note);
    Exit::CannotDo.into()
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
        Verb::Pages(request) => pages::pages(request, &json_schema::with_option(Arguments::command())),
    }
}
