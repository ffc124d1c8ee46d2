//! `nccl-otf2`: records NCCL jobs as OTF2 archives, completes archives, checks, describes and prints them.
//!
//! One module per verb, each a thin layer over the libraries; the verb `print` is `listing`, `listing_archive` and
//! `listing_output`. The modules `archives`, `command_line`, `output`, `plugin`, `plugin_slot`, `print` and `select`
//! hold code that verbs share.

#![forbid(unsafe_code)]

use std::io::ErrorKind;
use std::process::ExitCode;

use crate::command_line::Exit;
use anyhow::Result;
use clap::error::{ContextKind, ContextValue, ErrorKind as ArgumentError};
use clap::{CommandFactory as _, FromArgMatches as _, Parser, Subcommand};
use rustix::fs::Mode;
use rustix::process::umask;

mod archives;
mod check;
mod command_line;
mod diff;
mod doctor;
mod dump;
mod export;
mod finalize;
mod flight_recorder;
mod hang;
mod info;
mod listing;
mod listing_archive;
mod listing_output;
mod merge;
mod metrics;
mod output;
mod pages;
mod plugin;
mod plugin_slot;
pub(crate) mod print;
mod report;
mod run;
mod select;
mod stacks;
mod stats;
mod top;
mod watch;

fn main() -> ExitCode {
    // With a file size limit (`ulimit -f`), writing beyond it then fails with an error that says so.
    journal::host::fail_writes_beyond_limit();
    journal::host::give_back_in_this_process();
    let matches = match pages::with_option(Arguments::command()).try_get_matches() {
        Ok(matches) => matches,
        Err(error) => return refuse(error),
    };
    if let Some(schema) = pages::requested_schema(&matches) {
        return output::schema(&schema).map_or_else(end, |()| Exit::Well.into());
    }
    let arguments = match Arguments::from_arg_matches(&matches) {
        Ok(arguments) => arguments,
        Err(error) => return refuse(error),
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
fn refuse(mut error: clap::Error) -> ExitCode {
    // Nobody means a directory that is called like an option: the tip to name it behind `--` misleads.
    if let Some(ContextValue::StyledStrs(mut tips)) = error.remove(ContextKind::Suggested) {
        tips.retain(|tip| !tip.to_string().starts_with("to pass "));
        error.insert(ContextKind::Suggested, ContextValue::StyledStrs(tips));
    }
    if let Some(tip) = for_two_runs(&error) {
        error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![tip.into()]));
    }
    match error.print() {
        Err(source) if !error.use_stderr() && source.kind() != ErrorKind::BrokenPipe => {
            end(anyhow::Error::new(source).context("cannot write to stdout"))
        }
        _ => ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(2)),
    }
}

/// What compares two runs, for a user who gives both to a verb of one.
fn for_two_runs(error: &clap::Error) -> Option<&'static str> {
    let Some(ContextValue::String(argument)) = error.get(ContextKind::InvalidArg) else { return None };
    if error.kind() != ArgumentError::UnknownArgument || argument.starts_with('-') {
        return None;
    }
    match std::env::args().nth(1).as_deref() {
        Some("stats") => Some("to compare two runs, use 'nccl-otf2 diff A B'"),
        Some("report") => Some("to compare two runs, use 'nccl-otf2 report A --diff B'"),
        _ => None,
    }
}

fn end(error: anyhow::Error) -> ExitCode {
    output::error(&error);
    archives::remedy(&error).iter().for_each(output::note);
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
        Verb::Pages(request) => pages::pages(request, &pages::with_option(Arguments::command())),
    }
}

const AFTER_HELP: &str = "\
Start with:
  nccl-otf2 doctor
  nccl-otf2 run -o trace -- python train.py
  nccl-otf2 stats trace      what is slow, who is late
  nccl-otf2 report trace     the same as a web page, with a timeline

Exit codes: 0 success, 1 the trace has problems (doctor: the environment has), 2 wrong usage or a file that cannot be \
read or written, 3 slower, 4 undecided (`diff --fail-if-slower`); `run` exits with the code of its command.";

/// Record NCCL jobs as OTF2 archives; find what is slow, who is late and why a job hangs.
#[derive(Debug, Parser)]
#[command(name = "nccl-otf2", version = command_line::short(), long_version = command_line::long(),
    after_help = AFTER_HELP, max_term_width = 100)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    pub(crate) verb: Verb,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Verb {
    /// Check the environment before recording a job
    Doctor(doctor::Request),
    /// Run a command and record NCCL in it and its child processes
    Run(run::Request),
    /// Make the archive of a job whose processes could not write it themselves
    Finalize(finalize::Request),
    /// Make an archive of what a running job has recorded so far
    Dump(dump::Request),
    /// Summarise an archive: processes, communicators, operations, what is missing
    Info(info::Request),
    /// Show what is slow and who is late, and whether ranks waited or moved bytes
    Stats(stats::Request),
    /// Compare two runs of a program: what is slower, and by more than chance
    Diff(diff::Request),
    /// Make a web page: what is slow, who is late, and a timeline
    Report(report::Request),
    /// Check an archive for faults
    Check(check::Request),
    /// Find out which rank holds up a job that hangs or was killed
    Hang(hang::Request),
    /// Show a running job in the terminal: bandwidths, who is last, open operations
    Top(top::Request),
    /// Run a command or write a file when a job hangs or its operations become slow
    Watch(watch::Request),
    /// Export metrics of a running job to Prometheus or an OpenTelemetry collector
    Metrics(metrics::Request),
    /// Print the recorded events
    Print(listing::Request),
    /// Merge NCCL's archive into the Score-P trace of the same job
    Merge(merge::Request),
    /// Convert an archive for Perfetto, PyTorch, TensorBoard, Parquet, Scalasca, …
    Export(export::Request),
    /// Write man pages, JSON Schemas, and completions for bash, zsh and fish
    #[command(hide = true)]
    Pages(pages::Request),
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    /// Groups of option names with one meaning: each name is understood wherever another of its group is.
    const SYNONYMS: &[&[&str]] = &[&["out", "output"], &["after", "hang-after"]];

    #[test]
    fn an_option_has_the_same_names_in_all_verbs() {
        let command = Arguments::command();
        let verbs: Vec<_> = command.get_subcommands().collect();
        assert!(verbs.len() > 10);
        let mut options = 0;
        for (verb, option) in verbs.iter().flat_map(|verb| verb.get_opts().map(move |option| (verb, option))) {
            let names = option.get_long_and_visible_aliases().unwrap_or_default();
            for synonyms in SYNONYMS.iter().filter(|synonyms| names.iter().any(|name| synonyms.contains(name))) {
                for name in *synonyms {
                    assert!(names.contains(name), "{} {names:?}: not --{name}", verb.get_name());
                }
                options += 1;
            }
            if names.contains(&"out") {
                assert_eq!(option.get_short(), Some('o'), "{}", verb.get_name());
            }
        }
        assert!(options >= 6, "{options}");
    }
}
