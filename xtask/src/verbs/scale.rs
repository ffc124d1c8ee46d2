//! `cargo xtask scale`: what it takes to make the archive of a large job.

use std::path::PathBuf;

use anyhow::Result;

use crate::cargo;
use crate::process;

/// Make the archive of a synthetic job as large as one likes, and measure it
///
/// Says how long writing the archive took and how much memory. What is made is removed. The figures are in
/// docs/GUIDE.md.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Unify N parts of four communicators each: all, tensor, pipeline, data
    #[arg(long, value_name = "N", conflicts_with_all = ["ranks", "events"], value_parser = clap::value_parser!(u32).range(1..))]
    parts: Option<u32>,
    /// Instead: finalize the journals of N processes
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..))]
    ranks: u32,
    /// Of so many NCCL events each
    #[arg(long, value_name = "N", default_value_t = 1_000_000, value_parser = clap::value_parser!(u32).range(1..))]
    events: u32,
    /// Where there is room
    #[arg(long, value_name = "DIR", default_value_os_t = std::env::temp_dir())]
    dir: PathBuf,
}

/// Runs the command.
pub(crate) fn run(args: &Args) -> Result<()> {
    process::heading("scale");
    let mut bench = cargo::command("bench");
    bench.args(["--package", "nccl-profiler-otf2", "--bench", "scale", "--"]);
    match args.parts {
        Some(parts) => bench.args(["parts", &parts.to_string()]),
        None => bench.args(["journals", &args.ranks.to_string(), &args.events.to_string()]),
    };
    process::run(bench.arg(&args.dir))
}
