//! The command line.

use clap::{Parser, Subcommand};

use crate::{
    check, diff, doctor, dump, export, finalize, hang, info, listing, merge, metrics, pages, report, run, stats, top,
    version, watch,
};

const AFTER_HELP: &str = "\
Start with:
  nccl-otf2 doctor
  nccl-otf2 run -o trace -- python train.py
  nccl-otf2 stats trace      what is slow, who is late
  nccl-otf2 report trace     the same as a page for a browser, with a timeline

Exit codes: 0 all is well, 1 the trace has problems (doctor: a recording would have), 2 wrong usage or a file that cannot be \
read or written, 3 slower and 4 not known whether slower (`diff --fail-if-slower`); `run` ends with the exit code of its command.";

/// Records NCCL jobs as OTF2 archives, completes archives, checks and describes them.
#[derive(Debug, Parser)]
#[command(name = "nccl-otf2", version = version::short(), long_version = version::long(),
    after_help = AFTER_HELP, max_term_width = 100)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    pub(crate) verb: Verb,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Verb {
    /// Find out what a recording would be like here, before a job is run
    Doctor(doctor::Request),
    /// Run a command and record what NCCL does in it and its child processes
    Run(run::Request),
    /// Make the archive of what processes recorded and could not write themselves
    Finalize(finalize::Request),
    /// Make an archive of what a running job has recorded so far, or last
    Dump(dump::Request),
    /// Say what is in an archive
    Info(info::Request),
    /// Say what is slow, who is late, and whether that is waiting or moving bytes
    Stats(stats::Request),
    /// Compare two runs of a program: what is slower, and whether that is more than chance
    Diff(diff::Request),
    /// Make a page for a browser: what is slow, who is late, and a timeline
    Report(report::Request),
    /// Find out whether an archive is sound
    Check(check::Request),
    /// Find out who holds up a job that hangs or was killed
    Hang(hang::Request),
    /// Show what a running job does, in the terminal: bandwidths, who is last, what is open
    Top(top::Request),
    /// Run a command, or write a file, when a job begins to hang or its operations become slow
    Watch(watch::Request),
    /// Give metrics of a running job to Prometheus, node exporter or an OpenTelemetry collector
    Metrics(metrics::Request),
    /// Print what was recorded, event by event
    Print(listing::Request),
    /// Put NCCL's archive into the trace that Score-P made of the same job
    Merge(merge::Request),
    /// Write an archive in the format of another program: Perfetto, PyTorch, TensorBoard, Parquet, Scalasca
    Export(export::Request),
    /// Write man pages and completions for bash, zsh and fish
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
