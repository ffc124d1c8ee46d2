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

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use plugin::Outcome;

/// Loads an NCCL profiler plugin as NCCL does and drives it.
///
/// No GPU, no NCCL: the README says what a plugin sees.
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

/// Ends what a shell did to the signals of a command in its background, which has SIGINT and SIGQUIT ignored: scripts
/// look at what a plugin does to signals.
fn reset_signals() {
    for signal in [libc::SIGINT, libc::SIGQUIT, libc::SIGTERM] {
        // SAFETY: SIG_DFL is a disposition of all of these, and no thread but this one is there yet.
        unsafe { libc::signal(signal, libc::SIG_DFL) };
    }
}
