//! The project's own commands: `cargo xtask demo`, `cargo xtask test`, and further ones for CI.
//!
//! Nothing here is part of the product. It prepares a machine (Debian packages, a Python environment, published NCCL
//! libraries in the user's cache), builds the workspace, and runs it.

mod cache;
mod cargo;
mod docs;
mod error;
mod nccl;
mod packages;
mod process;
mod python;
mod verbs;

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use verbs::{
    bindings, cupti_layout, demo, dist, full, fuzz, golden, gpu_check, matrix, page, readers, release, scale, scorep,
    setup, site, test, torture,
};

/// The project's own commands
#[derive(Parser)]
#[command(
    bin_name = "cargo xtask",
    after_help = "Exit codes: 0 success, 1 a check failed, 2 wrong usage, or something is missing on this machine."
)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Demo(demo::Args),
    Dist(dist::Args),
    Test(test::Args),
    Full(full::Args),
    /// Install and fetch what demo and test need, and nothing else
    ///
    /// For machines that are only sometimes online (a login node, a container image): afterwards, demo and test need
    /// no network, except for the crates that cargo fetches (cargo fetch).
    Setup,
    Fuzz(fuzz::Args),
    Golden(golden::Args),
    Matrix(matrix::Args),
    Page(page::Args),
    Readers(readers::Args),
    Release(release::Args),
    Scorep(scorep::Args),
    Site(site::Args),
    Torture(torture::Args),
    Scale(scale::Args),
    GpuCheck(gpu_check::Args),
    /// Regenerate the checked-in bindings from the C headers (needs libclang)
    ///
    /// The headers are wrapper.h (NCCL's profiler interface) and OTF2's. CI compares the result with what is committed
    /// (git diff), so run this after a change of wrapper.h. OTF2's bindings are those of 3.0, the oldest supported
    /// release: make them on a machine that has it.
    Bindings,
    CuptiLayout(cupti_layout::Args),
}

fn main() -> ExitCode {
    let done = match Cli::parse().command {
        Command::Demo(args) => demo::run(&args),
        Command::Dist(args) => dist::run(&args),
        Command::Test(args) => test::run(&args),
        Command::Full(args) => full::run(&args),
        Command::Setup => setup::everything().map(drop),
        Command::Fuzz(args) => fuzz::run(&args),
        Command::Golden(args) => golden::run(&args),
        Command::Matrix(args) => matrix::run(args),
        Command::Page(args) => page::run(&args),
        Command::Readers(args) => readers::run(&args),
        Command::Release(args) => release::run(&args),
        Command::Scorep(args) => scorep::run(&args),
        Command::Site(args) => site::run(&args),
        Command::Torture(args) => torture::run(&args),
        Command::Scale(args) => scale::run(&args),
        Command::GpuCheck(args) => gpu_check::run(&args),
        Command::Bindings => bindings::run(),
        Command::CuptiLayout(args) => cupti_layout::run(&args),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("\ncargo xtask: {error:#}");
            ExitCode::from(error::status(&error))
        }
    }
}
