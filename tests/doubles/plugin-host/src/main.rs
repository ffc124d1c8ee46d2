//! `plugin-host`: loads a profiler plugin as NCCL does and drives it.

mod bench;
mod descriptor;
mod endure;
mod interface;
mod layout;
mod nccl;
mod plugin;
mod replay;
mod script;
mod strings;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use interface::Version;
use plugin::Plugin;

/// Loads an NCCL profiler plugin as NCCL does and drives it.
///
/// No GPU, no NCCL: the plugin is opened with dlopen (RTLD_NOW, RTLD_LOCAL), its highest table ncclProfiler_v7 …
/// v1 is called, and a mask, a logger and descriptors are passed as NCCL passes them. Works with any profiler
/// plugin.
///
/// Exit status: 0 all is well, 1 the plugin did something wrong, 2 usage or input or output failed.
#[derive(Parser)]
#[command(version, max_term_width = 110)]
struct Arguments {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand)]
enum Verb {
    Replay(replay::Arguments),
    Script(script::Arguments),
    Bench(bench::Arguments),
    Endure(endure::Arguments),
}

/// What came out.
pub(crate) enum Outcome {
    /// The plugin did all it should.
    Well,
    /// The plugin did something wrong, and it has been said.
    Wrong,
}

fn main() -> ExitCode {
    reset_signals();
    let outcome = match Arguments::parse().verb {
        Verb::Replay(arguments) => replay::run(&arguments),
        Verb::Script(arguments) => script::run(&arguments),
        Verb::Bench(arguments) => bench::run(&arguments),
        Verb::Endure(arguments) => endure::run(&arguments),
    };
    match outcome {
        Ok(Outcome::Well) => ExitCode::SUCCESS,
        Ok(Outcome::Wrong) => ExitCode::from(1),
        Err(error) => {
            eprintln!("plugin-host: {error:#}");
            ExitCode::from(2)
        }
    }
}

/// Which plugin, and which of its tables.
#[derive(clap::Args, Clone)]
pub(crate) struct PluginArguments {
    /// The plugin's library.
    #[arg(long, value_name = "PLUGIN.so")]
    plugin: PathBuf,

    /// Call this table instead of the highest that there is.
    #[arg(long, value_name = "1-7", value_parser = Version::parse)]
    table: Option<Version>,
}

impl PluginArguments {
    fn load(&self) -> anyhow::Result<Plugin> {
        load(&self.plugin, self.table)
    }
}

fn load(path: &std::path::Path, table: Option<Version>) -> anyhow::Result<Plugin> {
    // A name without a slash would be searched for in the system's folders.
    let path = std::path::absolute(path)?;
    // SAFETY: the user named this file as the profiler plugin to run.
    unsafe { Plugin::load(&path, table) }
}

/// Ends what a shell did to the signals of a command in its background, which has SIGINT and SIGQUIT ignored: scripts
/// look at what a plugin does to signals.
fn reset_signals() {
    for signal in [libc::SIGINT, libc::SIGQUIT, libc::SIGTERM] {
        // SAFETY: SIG_DFL is a disposition of all of these, and no thread but this one is there yet.
        unsafe { libc::signal(signal, libc::SIG_DFL) };
    }
}
