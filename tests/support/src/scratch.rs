//! A fresh directory and a clean environment for each test.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

use crate::archive::Archive;
use crate::built;
use crate::machine::nccl_library;
use crate::process::{FinishedProcess, run, wait_for};

/// Prefixes of launchers' and shells' variables that change what the plugin does.
const HOSTILE: &str = "NCCL_ NVTX_ RANK WORLD_SIZE LOCAL_RANK LOCAL_WORLD_SIZE GROUP_RANK OMPI_ JSM_ MV2_ \
    PALS_ MPI_ PMI_ PMIX_ SLURM_ PBS_ LSB_ FLUX_ COBALT_ JOB_ID TORCHELASTIC_";

#[derive(Debug)]
pub struct Scratch(TempDir);

impl Scratch {
    #[expect(clippy::new_without_default, reason = "makes a directory")]
    pub fn new() -> Self {
        Self(tempfile::tempdir().expect("a temporary directory"))
    }

    pub fn path(&self) -> &Path {
        self.0.path()
    }

    /// The directory of the job that [`Self::command`] starts.
    pub fn out(&self) -> PathBuf {
        self.path().join("out")
    }

    /// A program that runs here, without variables that change what the plugin does.
    pub fn plain(&self, program: impl AsRef<OsStr>) -> Command {
        let mut command = Command::new(program);
        command.current_dir(self.path());
        for (name, _) in std::env::vars_os() {
            let text = name.to_string_lossy();
            if HOSTILE.split(' ').any(|hostile| text.starts_with(hostile)) {
                command.env_remove(&name);
            }
        }
        command
    }

    /// Like [`Self::plain`], recording into [`Self::out`].
    pub fn command(&self, program: impl AsRef<OsStr>) -> Command {
        let mut command = self.plain(program);
        command.env("NCCL_OTF2_DIR", self.out());
        command
    }

    /// `plugin-host` replaying streams, all events.
    pub fn replay(&self, streams: &[PathBuf]) -> Command {
        let mut command = self.command(built::plugin_host());
        command.arg("replay").args(streams);
        command.arg("--plugin").arg(built::plugin());
        command.env("NCCL_OTF2_EVENTS", "full");
        command
    }

    /// `plugin-host` running a script, with the plugin that was built.
    pub fn script(&self, text: &str) -> Command {
        self.named_script("script", text, &built::plugin())
    }

    /// Like [`Self::script`], as one rank of several, as a launcher starts it.
    pub fn rank(&self, rank: usize, ranks: usize, text: &str) -> Command {
        let mut command = self.named_script(&format!("rank{rank}"), text, &built::plugin());
        command.env("RANK", rank.to_string()).env("WORLD_SIZE", ranks.to_string());
        command
    }

    /// `plugin-host` running a script from a file of this name.
    pub fn named_script(&self, name: &str, text: &str, plugin: &Path) -> Command {
        std::fs::write(self.path().join(name), text).expect("write the script");
        let mut command = self.command(built::plugin_host());
        command.args(["script", name, "--plugin"]).arg(plugin);
        command.env("NCCL_OTF2_EVENTS", "full");
        command
    }

    pub fn tool(&self, arguments: &[&str]) -> Command {
        let mut command = self.plain(built::nccl_otf2());
        command.args(arguments);
        command
    }

    /// A release of NCCL on the fake GPU, recorded by the plugin; `None` if there is no such library.
    pub fn nccl(&self, release: &str, arguments: &[&str]) -> Option<Command> {
        let mut job = self.command(built::nccl_host());
        host_arguments(&mut job, release, arguments)?;
        job.env("NCCL_PROFILER_PLUGIN", built::plugin());
        Some(job)
    }

    pub fn run_nccl(&self, release: &str, options: &[&str], arguments: &[&str]) -> Option<Command> {
        let mut job = self.tool(&["run", "--out"]);
        job.arg(self.out()).args(options).arg("--").arg(built::nccl_host());
        host_arguments(&mut job, release, arguments)?;
        Some(job)
    }

    pub fn recording(&self) -> Vec<PathBuf> {
        recording(&self.out())
    }

    /// Waits until this many processes are recording.
    pub fn wait_for_recording(&self, processes: usize) {
        wait_for("recording", || (self.recording().len() == processes).then_some(()));
    }

    /// `nccl-otf2 finalize` of [`Self::out`].
    pub fn finalize(&self) -> FinishedProcess {
        run(self.plain(built::nccl_otf2()).arg("finalize").arg(self.out()))
    }

    /// The archive; asserts that it exists and is [sound](Archive::sound).
    pub fn sound_archive(&self) -> Archive {
        let archive = self.archive();
        archive.sound();
        archive
    }

    pub fn archive(&self) -> Archive {
        Archive::open(&self.out())
    }
}

fn host_arguments(job: &mut Command, release: &str, arguments: &[&str]) -> Option<()> {
    job.arg("--lib").arg(nccl_library(release)?);
    job.arg(format!("--fake-gpu={}", built::fake_gpu().display())).args(arguments);
    Some(())
}

pub fn recording(directory: &Path) -> Vec<PathBuf> {
    let parts = std::fs::read_dir(directory.join("parts")).into_iter().flatten();
    let parts = parts.flatten().map(|part| part.path());
    parts.filter(|part| part.join("journal/1.0").exists()).collect()
}
