//! `cargo xtask torture`: kills the processes of jobs at random instants, again and again.

use anyhow::Result;

use crate::cargo::{self, Profile};
use crate::process;

/// Kill processes of jobs at random times and verify that no record is lost
///
/// The processes call the plugin as NCCL does and count each callback that has returned in a file that outlives them.
/// Some are killed while they record, some while they write, some abort, some exit without finalize. `nccl-otf2
/// finalize` must end, and the archive must have every callback that had returned. For each ten kills there is a round
/// of flight recordings whose maintenance thread is late, and one of sessions that begin while others end; for each
/// forty, a round in which copies and links of running jobs' journals are finalized. The same driver runs shortly among
/// the tests (tests/torture).
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Stop after this many kills
    #[arg(long, value_name = "N", default_value_t = 1000)]
    kills: u64,
    /// Seed of the random numbers; a failing job prints the seed that reproduces it
    #[arg(long, value_name = "S", default_value_t = 1)]
    seed: u64,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    cargo::build(Profile::Debug, &["nccl-profiler-otf2", "nccl-otf2", "plugin-host"])?;
    process::heading("torture");
    let mut test = cargo::command("test");
    test.args(["--package", "nccl-otf2-recorder", "--test", "torture", "--", "--nocapture"]);
    test.env("NCCL_OTF2_TEST_KILLS", args.kills.to_string());
    test.env("NCCL_OTF2_TEST_SEED", args.seed.to_string());
    process::run(&mut test)
}
