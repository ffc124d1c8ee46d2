//! `plugin-host endure`.

use std::path::PathBuf;

use plugin_host::endure::{self, Options};

use super::{Outcome, PluginArguments};

/// Call a plugin until somebody ends this process, and write down which callbacks have returned.
///
/// One rank of a job: each thread has a communicator of its own, with the same thread of the other ranks, and does
/// one all-reduce after the other. The numbers of callbacks that have returned are in a file that outlives the process at
/// whatever instant it is killed, for each thread and kind of event. The same file says how the process is to end: who
/// kills it can also ask for an abort, an exit or an orderly end.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    plugin: PluginArguments,

    /// The file to count in; made here.
    #[arg(long, value_name = "FILE")]
    ledger: PathBuf,

    /// Number of threads.
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u8).range(1..=64))]
    threads: u8,

    /// The rank of this process in each communicator.
    #[arg(long, default_value_t = 0)]
    rank: i32,

    /// The size of each communicator.
    #[arg(long, default_value_t = 1)]
    ranks: i32,

    /// How long a thread rests after an operation, in microseconds.
    #[arg(long, default_value_t = 100)]
    rest_us: u64,
}

pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<Outcome> {
    let plugin = arguments.plugin.load()?;
    endure::run(
        &plugin,
        &Options {
            ledger: &arguments.ledger,
            threads: arguments.threads,
            rank: arguments.rank,
            ranks: arguments.ranks,
            rest: std::time::Duration::from_micros(arguments.rest_us),
        },
    )?;
    Ok(Outcome::Well)
}
