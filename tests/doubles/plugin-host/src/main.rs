//! `plugin-host`: loads a profiler plugin as NCCL does and drives it.

mod cli;

use std::process::ExitCode;

use clap::Parser as _;

fn main() -> ExitCode {
    plugin_host::signals::reset();
    cli::run(cli::Arguments::parse())
}
