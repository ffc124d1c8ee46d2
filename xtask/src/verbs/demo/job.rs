//! The job that the demo records: `nccl-host` under `nccl-otf2 run`.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, ensure};

use crate::cargo::Tools;
use crate::error::missing;
use crate::nccl;
use crate::process;

const RANKS: usize = 4;
/// Rank 0's sends to rank 1 take this many µs longer: five times as long, yet less is lost than by the late rank.
const SLOW_PAIR: &str = "0,1,1000";

/// A library that a job would find on this machine.
pub(super) fn installed(names: &[&str]) -> Option<PathBuf> {
    gpu_check::first(&gpu_check::folders(Some(Path::new("python3"))), names)
}

pub(super) enum Devices {
    Fake(String),
    /// This many GPUs, and the CUDA runtime if it was found.
    Real {
        devices: usize,
        runtime: Option<PathBuf>,
    },
}

impl Devices {
    pub(super) fn choose(fake: bool, real: bool) -> Result<Self> {
        let devices = gpu_check::devices();
        match devices {
            _ if fake => Ok(Self::Fake("as asked for".into())),
            0 if real => Err(missing("--real: this machine shows no GPU (/dev/nvidia0); try --fake")),
            0 => Ok(Self::Fake("this machine has no GPU".into())),
            1 if !real => Ok(Self::Fake(
                "this machine has one GPU, and NCCL reports nothing about a communicator of one rank; --real uses it \
                 all the same"
                    .into(),
            )),
            _ => Ok(Self::Real { devices, runtime: installed(&gpu_check::CUDA_RUNTIME) }),
        }
    }

    pub(super) fn are_real(&self) -> bool {
        matches!(self, Self::Real { .. })
    }

    fn shape(&self) -> (usize, usize) {
        match self {
            Self::Fake(_) => (2, RANKS / 2),
            Self::Real { devices, .. } => match devices.min(&RANKS) {
                1 => (1, 1),
                2 | 3 => (2, 1),
                _ => (2, 2),
            },
        }
    }

    pub(super) fn describe(&self) -> String {
        let (processes, threads) = self.shape();
        let ranks = processes * threads;
        let shape = format!("{ranks} ranks: {processes} processes × {threads} threads");
        match self {
            Self::Fake(why) => format!("{shape}, on emulated devices ({why})"),
            Self::Real { devices, .. } if ranks < RANKS => {
                format!("{shape}, one for each GPU that can be paired ({devices} here), not {RANKS} as without GPUs")
            }
            Self::Real { .. } => format!("{shape}, on GPUs"),
        }
    }
}

pub(super) struct Job<'a> {
    pub(super) version: &'a str,
    pub(super) library: &'a Path,
    pub(super) devices: &'a Devices,
    pub(super) folder: PathBuf,
    pub(super) keep: bool,
    /// What the commands print.
    pub(super) log: PathBuf,
}

impl Job<'_> {
    pub(super) fn run(&self, tools: &Tools) -> Result<()> {
        let (processes, threads) = self.devices.shape();
        let mut command = self.recorded(tools, &self.archive_folder(), processes, threads);
        if self.keep {
            command.env("NCCL_OTF2_KEEP_JOURNAL", "1");
        }
        command.args(["--ops", "all", "--rounds", "3", "--exact", "--log"]).arg(self.log_prefix());
        self.observe(&mut command)
    }

    /// Runs a short job with a slow pair of ranks, whose last rank is 40 ms late to each all-reduce.
    pub(super) fn run_with_causes(&self, tools: &Tools) -> Result<()> {
        let (processes, threads) = self.devices.shape();
        // One process per rank, so that there is traffic between processes.
        let mut command = self.recorded(tools, &self.causes_folder(), processes * threads, 1);
        command.env("NCCL_OTF2_EVENTS", "full");
        command.args(["--ops", "pause,one,sendrecv", "--rounds", "60", "--count", "50000", "--pause", "40"]);
        if self.can_slow_a_pair() {
            command.args(["--name", "world", "--slow-pair", SLOW_PAIR]).env("LD_LIBRARY_PATH", nccl::plugins()?);
        }
        self.observe(&mut command)
    }

    /// Runs a recorded job, and prints what it says that it did, and how long it took.
    fn observe(&self, command: &mut Command) -> Result<()> {
        let done = process::logged(command, &self.log)?;
        let said = done.after("nccl-host: ").context("the job ended well and did not say what it did")?;
        println!("   {said}");
        Ok(())
    }

    /// Makes the page of the job with causes; returns what it says first.
    pub(super) fn report(&self, tools: &Tools, page: &Path) -> Result<String> {
        let mut report = Command::new(&tools.nccl_otf2);
        report.arg("report").arg(self.causes_folder()).arg("--output").arg(page).args(["--title", "demo"]);
        let said = process::logged(&mut report, &self.log)?.out;
        said.lines().next().map(str::to_owned).context("the report says nothing")
    }

    /// Whether this NCCL names communicators and accepts the network plugin that delays messages.
    pub(super) fn can_slow_a_pair(&self) -> bool {
        let minor = self.version.split('.').nth(1).and_then(|minor| minor.parse::<u32>().ok());
        matches!(self.devices, Devices::Fake(_)) && minor.is_some_and(|minor| minor >= 27)
    }

    /// A run of nccl-host on these devices that is recorded into a folder. The plugin is not named: the tool finds it
    /// beside itself, as in an installation.
    fn recorded(&self, tools: &Tools, folder: &Path, processes: usize, threads: usize) -> Command {
        let mut command = Command::new(&tools.nccl_otf2);
        command.args(["run", "--out"]).arg(folder).arg("--").arg(&tools.nccl_host).arg("--lib").arg(self.library);
        command.args(["--procs", &processes.to_string(), "--threads", &threads.to_string(), "--ranges"]);
        match self.devices {
            Devices::Fake(_) => {
                command.arg(format!("--fake-gpu={}", tools.fake_gpu.display()));
            }
            Devices::Real { runtime, .. } => {
                if let Some(runtime) = runtime {
                    command.arg("--cudart").arg(runtime);
                }
            }
        }
        command
    }

    /// Prefix of the log files that the host program itself writes.
    pub(super) fn log_prefix(&self) -> PathBuf {
        self.folder.join("nccl-host")
    }

    pub(super) fn causes_folder(&self) -> PathBuf {
        self.folder.join("causes")
    }

    fn archive_folder(&self) -> PathBuf {
        self.folder.join("archive")
    }

    /// The archive's anchor file, without which the rest is not an archive.
    pub(super) fn anchor(&self) -> Result<PathBuf> {
        let anchor = self.archive_folder().join("traces.otf2");
        ensure!(anchor.is_file(), "the job ended well and left no archive {}", anchor.display());
        Ok(anchor)
    }
}
