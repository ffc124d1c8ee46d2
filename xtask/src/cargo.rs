//! Builds the workspace, and locates cargo's outputs.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, ensure};

use crate::process::{heading, run};

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Profile {
    Debug,
    Release,
}

impl Profile {
    /// The profile's folder below `target`.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Debug => "debug",
            Self::Release => "release",
        }
    }
}

pub(crate) fn root() -> &'static Path {
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR"));
    manifest.parent().unwrap_or(manifest)
}

/// The cargo that runs this program (or the one on `PATH`), started in the workspace's root.
pub(crate) fn command(verb: &str) -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(root()).arg(verb);
    if verb != "metadata" {
        command.arg("--locked");
    }
    command
}

pub(crate) fn build(profile: Profile, packages: &[&str]) -> Result<()> {
    heading("build");
    let mut command = command("build");
    if profile == Profile::Release {
        command.arg("--release");
    }
    for package in packages {
        command.args(["--package", package]);
    }
    run(&mut command)
}

/// The folder of cargo's outputs. This program is one of them, so its own path is right with `CARGO_TARGET_DIR`, with a
/// setting in a config file, and with a `--target` folder.
pub(crate) fn target() -> Result<PathBuf> {
    let program = std::env::current_exe().context("find this program's own file")?;
    let target = program.ancestors().nth(2).map(Path::to_path_buf);
    target.with_context(|| format!("{} is in no target folder", program.display()))
}

pub(crate) fn built(profile: Profile, name: &str) -> Result<PathBuf> {
    let file = target()?.join(profile.name()).join(name);
    ensure!(file.is_file(), "the build left no {}", file.display());
    Ok(file)
}

/// The built programs and libraries that NCCL jobs on emulated devices need.
pub(crate) struct Tools {
    pub(crate) nccl_otf2: PathBuf,
    pub(crate) nccl_host: PathBuf,
    pub(crate) fake_gpu: PathBuf,
    pub(crate) plugin: PathBuf,
}

impl Tools {
    pub(crate) fn build() -> Result<Self> {
        build(Profile::Debug, &["nccl-profiler-otf2", "nccl-otf2", "nccl-host", "fake-gpu"])?;
        let built = |name| built(Profile::Debug, name);
        Ok(Self {
            nccl_otf2: built("nccl-otf2")?,
            nccl_host: built("nccl-host")?,
            fake_gpu: built("libfakegpu.so")?,
            plugin: built("libnccl_profiler_otf2.so")?,
        })
    }

    /// The events of an archive, as `nccl-otf2 print` prints them.
    pub(crate) fn events(&self, archive: &Path) -> Result<Vec<serde_json::Value>> {
        let mut print = Command::new(&self.nccl_otf2);
        let printed = crate::process::output(print.args(["print", "--json"]).arg(archive), "print")?;
        printed.lines().map(|line| serde_json::from_str(line).context("a line of print --json")).collect()
    }
}

/// The output of `otf2-print` for an archive; anything on stderr is an error.
pub(crate) fn otf2_print(anchor: &Path) -> Result<String> {
    let printed = crate::process::capture(Command::new("otf2-print").arg(anchor))?;
    let (status, complaints) = (printed.status, printed.err.trim());
    ensure!(status.success() && complaints.is_empty(), "otf2-print ended with {status}:\n{complaints}");
    Ok(printed.out)
}

/// The tree as described by git; `unknown` without git.
pub(crate) fn commit(more: &str) -> String {
    let mut git = Command::new("git");
    git.args(["describe", "--always", more]).current_dir(root());
    let output = crate::process::capture(&mut git).ok().filter(|output| output.status.success());
    output.map_or_else(|| "unknown".to_owned(), |output| output.out.trim().to_owned())
}
