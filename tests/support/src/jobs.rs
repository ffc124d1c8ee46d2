//! Jobs whose exports are read back by the target programs.

use std::fs;
use std::fs::File;
use std::hash::{BuildHasher as _, BuildHasherDefault, DefaultHasher};
use std::path::Path;
use std::process::Command;
use std::time::UNIX_EPOCH;

use crate::built;
use crate::machine::{RELEASE, four_gpu_stream, nccl_library, python_with, two_process_streams};
use crate::process::{LIMIT, Running, run, run_within, start};
use crate::scratch::Scratch;
use crate::synthetic::{self, Job, play};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SharedJob {
    /// A recorded stream, replayed: two processes.
    TwoProcesses,
    /// A recorded stream, replayed: a process with four GPUs.
    FourGpus,
    /// Real NCCL on the GPU's double, as `cargo xtask demo` runs it.
    Demo,
    /// Real NCCL in a Python program of two processes with ranges.
    Ranges,
    /// A made-up job of 96 ranks on two hosts.
    Synthetic,
}

/// All jobs that this machine can make, one after the other, with their archives in [`Scratch::out`].
pub fn jobs() -> impl Iterator<Item = (SharedJob, Scratch)> {
    let all = [SharedJob::TwoProcesses, SharedJob::FourGpus, SharedJob::Demo, SharedJob::Ranges, SharedJob::Synthetic];
    all.into_iter().filter_map(|which| {
        let scratch = Scratch::new();
        match which {
            SharedJob::Demo | SharedJob::Ranges => copy_of_stored(which, &scratch)?,
            _ => make(which, &scratch)?,
        }
        Some((which, scratch))
    })
}

/// Jobs of real NCCL take seconds: each is made once for a build of what records it, in `target/debug/jobs`.
fn copy_of_stored(which: SharedJob, scratch: &Scratch) -> Option<()> {
    let store = built::profile_folder().join("jobs");
    fs::create_dir_all(&store).expect("a directory");
    let lock = File::create(store.join(format!("{which:?}.lock"))).expect("a lock");
    lock.lock().expect("locked");
    let recorders = [built::plugin(), built::nccl_otf2(), built::nccl_host(), built::fake_gpu()];
    let newest = recorders.iter().map(|file| file.metadata().and_then(|file| file.modified()).expect("built")).max();
    let newest = newest.and_then(|time| time.duration_since(UNIX_EPOCH).ok()).unwrap_or_default();
    let (job, build) = (store.join(format!("{which:?}")), store.join(format!("{which:?}.build")));
    // The recorders, and the text that says which job it is.
    let job_text = include_str!("jobs.rs").to_owned() + include_str!("../../nvtx/job.py");
    let key =
        format!("{} {:016x}", newest.as_nanos(), BuildHasherDefault::<DefaultHasher>::default().hash_one(job_text));
    let is_current = fs::read_to_string(&build).is_ok_and(|text| text == key);
    if !is_current {
        let _missing = fs::remove_dir_all(&job);
        make(which, scratch)?;
        copy(&scratch.out(), &job);
        fs::write(build, key).expect("written");
        return Some(());
    }
    copy(&job, &scratch.out());
    Some(())
}

fn copy(from: &Path, to: &Path) {
    let _copied = run(Command::new("cp").arg("-r").args([from, to])).with_code(0);
}

fn make(which: SharedJob, scratch: &Scratch) -> Option<()> {
    let recorded = |mut command: Command| {
        let _ended = run_within(LIMIT, &mut command).with_code(0);
    };
    match which {
        SharedJob::TwoProcesses => recorded(scratch.replay(&two_process_streams())),
        SharedJob::FourGpus => recorded(scratch.replay(&[four_gpu_stream()?])),
        SharedJob::Demo => {
            let words = ["--procs", "2", "--threads", "2", "--ops", "all", "--exact"];
            recorded(scratch.run_nccl("2.32.3", &[], &words)?);
        }
        SharedJob::Ranges => ranges(scratch, &["steps", "threads"])?,
        SharedJob::Synthetic => {
            let job = Job { ranks: 96, channels: 1, instances: 8, error_ns: Some(Some(500)), ..Job::healthy(16) };
            let _anchor = synthetic::write(&scratch.out(), &job, &play(&job));
        }
    }
    Some(())
}

/// Records a job of `tests/nvtx/job.py` that does these parts.
pub fn ranges(scratch: &Scratch, parts: &[&str]) -> Option<()> {
    let plugin = built::plugin();
    let ranks = start_program(scratch, RELEASE, parts, |rank| {
        rank.env("NCCL_PROFILER_PLUGIN", &plugin).env("NVTX_INJECTION64_PATH", &plugin);
    });
    for rank in ranks? {
        let _ended = rank.wait(LIMIT).with_code(0);
    }
    Some(())
}

/// Starts the two ranks of `tests/nvtx/job.py`, on the GPU's double.
pub fn start_program(
    scratch: &Scratch,
    release: &str,
    parts: &[&str],
    with: impl Fn(&mut Command),
) -> Option<Vec<Running>> {
    let (library, python) = (nccl_library(release)?, python_with("nvtx")?);
    let rank = |rank: u32| {
        let mut command = scratch.command(&python);
        command.arg("-B").arg(built::root().join("tests/nvtx/job.py")).arg(&library);
        command.arg(rank.to_string()).arg(scratch.path()).args(parts);
        command.envs(c_double::NCCL_ON_FAKE_GPU.iter().copied()).env("LD_PRELOAD", built::fake_gpu());
        command.env("RANK", rank.to_string()).env("WORLD_SIZE", "2");
        with(&mut command);
        start(&mut command)
    };
    Some([0, 1].map(rank).into())
}
