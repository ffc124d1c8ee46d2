//! What the checks share.

use std::cell::OnceCell;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use crate::machine::Machine;

#[derive(Clone, Debug)]
pub(crate) struct Shape {
    pub(crate) processes: usize,
    pub(crate) threads: usize,
    pub(crate) variables: &'static [(&'static str, &'static str)],
    pub(crate) words: &'static str,
}

pub(crate) const HOST: &str = "bin/nccl-host";
pub(crate) const TOOL: &str = "bin/nccl-otf2";
pub(crate) const PLUGIN: &str = "lib/libnccl-profiler-otf2.so";

/// The folder that has this program, and what lies beside it.
#[derive(Clone, Debug)]
pub(crate) struct Bundle(PathBuf);

impl Bundle {
    pub(crate) fn here() -> Result<Self, String> {
        let mut folder = std::env::current_exe()
            .and_then(|path| path.canonicalize())
            .map_err(|error| format!("cannot find this program's own file: {error}"))?;
        folder.pop();
        let bundle = Self(folder);
        let files = [TOOL, HOST, PLUGIN].map(|name| bundle.file(name));
        match files.iter().find(|file| !file.is_file()) {
            None => Ok(bundle),
            Some(file) => Err(format!(
                "no {}: this program works in the folder that `cargo xtask gpu-check --bundle DIR` makes",
                file.display()
            )),
        }
    }

    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

pub(crate) struct Context<'a> {
    pub(crate) machine: &'a Machine,
    pub(crate) bundle: &'a Bundle,
    pub(crate) is_fake: bool,
    pub(crate) work: PathBuf,
    pub(crate) until: Instant,
    /// How several ranks run on this machine; found out by the first that asks.
    pub(crate) shape: &'a OnceCell<Option<Shape>>,
}

impl Context<'_> {
    pub(crate) fn left(&self) -> Duration {
        self.until.saturating_duration_since(Instant::now())
    }
}
