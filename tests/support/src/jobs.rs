//! Jobs whose exports are read back by the target programs.

use std::process::Command;

use crate::machine::{four_gpu_stream, two_process_streams};
use crate::process::{LIMIT, run_within};
use crate::scratch::Scratch;
use crate::synthetic::{self, Job, play};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Which {
    /// A recorded stream, replayed: two processes.
    TwoProcesses,
    /// A recorded stream, replayed: a process with four GPUs.
    FourGpus,
    /// Real NCCL on the GPU's double, as `cargo xtask demo` runs it.
    Demo,
    /// A made-up job of 256 ranks on two hosts.
    Synthetic,
}

/// All jobs that this machine can make, one after the other, with their archives in [`Scratch::out`].
pub fn jobs() -> impl Iterator<Item = (Which, Scratch)> {
    let all = [Which::TwoProcesses, Which::FourGpus, Which::Demo, Which::Synthetic];
    all.into_iter().filter_map(|which| {
        let scratch = Scratch::new();
        make(which, &scratch)?;
        Some((which, scratch))
    })
}

fn make(which: Which, scratch: &Scratch) -> Option<()> {
    let recorded = |mut command: Command| {
        let _ended = run_within(LIMIT, command.env("NCCL_OTF2_METRICS", "all")).with_code(0);
    };
    match which {
        Which::TwoProcesses => recorded(scratch.replay(&two_process_streams())),
        Which::FourGpus => recorded(scratch.replay(&[four_gpu_stream()?])),
        Which::Demo => {
            let words = ["--procs", "2", "--threads", "2", "--ops", "all", "--exact"];
            recorded(scratch.run_nccl("2.32.3", &[], &words)?);
        }
        Which::Synthetic => {
            let job = Job { ranks: 256, channels: 1, instances: 8, error_ns: Some(Some(500)), ..Job::healthy(16) };
            let _anchor = synthetic::write(&scratch.out(), &job, &play(&job));
        }
    }
    Some(())
}
