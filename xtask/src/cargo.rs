//! Building the workspace, and where cargo puts what it built.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::failure::{Context as _, Failure, Result};
use crate::process::run;

/// A set of build outputs.
#[derive(Clone, Copy)]
pub(crate) enum Profile {
    /// `target/debug`
    Debug,
    /// `target/release`
    Release,
}

impl Profile {
    fn folder(self) -> &'static str {
        match self {
            Self::Debug => "debug",
            Self::Release => "release",
        }
    }
}

/// The workspace's root.
pub(crate) fn root() -> &'static Path {
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR"));
    manifest.parent().unwrap_or(manifest)
}

/// The cargo that runs us (or the one on `PATH`), started in the workspace's root.
pub(crate) fn command() -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(root());
    command
}

/// Builds packages of the workspace; all of them when none is named.
pub(crate) fn build(profile: Profile, packages: &[&str]) -> Result<()> {
    let mut command = command();
    command.args(["build", "--locked"]);
    if matches!(profile, Profile::Release) {
        command.arg("--release");
    }
    if packages.is_empty() {
        command.arg("--workspace");
    }
    for package in packages {
        command.args(["--package", package]);
    }
    run(&mut command)
}

/// Where cargo keeps its outputs. This program is one of them, which is the one answer that holds for
/// `CARGO_TARGET_DIR`, for a setting in a config file, and for a `--target` folder alike.
pub(crate) fn target() -> Result<PathBuf> {
    let program = std::env::current_exe().or_fail(|| "find this program's own file".into())?;
    program
        .ancestors()
        .nth(2)
        .map(Path::to_path_buf)
        .ok_or_else(|| Failure::missing(format!("{} is in no target folder", program.display())))
}

/// A built file, checked to be there.
pub(crate) fn built(profile: Profile, name: &str) -> Result<PathBuf> {
    let file = target()?.join(profile.folder()).join(name);
    if file.is_file() {
        Ok(file)
    } else {
        Err(Failure::wrong(format!(
            "the build left no {}",
            file.display()
        )))
    }
}
