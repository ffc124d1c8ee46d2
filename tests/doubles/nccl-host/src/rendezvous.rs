//! What the processes of one run tell each other: files in a private directory, each made under another name
//! and renamed, so that a file that exists is complete.

use crate::nccl::UniqueId;
use anyhow::Context as _;
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};
use std::time::Duration;

#[derive(Serialize, Deserialize, Debug, Clone)]
pub(crate) struct Outcome {
    pub(crate) nccl_version: String,
    pub(crate) device: String,
    pub(crate) calls: u64,
    pub(crate) results_checked: u64,
    pub(crate) results_wrong: u64,
}

const POLL: Duration = Duration::from_millis(5);

#[derive(Debug, Clone, Copy)]
pub(crate) enum Point {
    Ready,
    Done,
}

impl Point {
    fn file(self, process: u16) -> String {
        format!("{self:?}.{process}")
    }
}

#[derive(Debug, Clone)]
pub(crate) struct Rendezvous {
    dir: PathBuf,
}

impl Rendezvous {
    pub(crate) fn at(dir: &Path) -> Rendezvous {
        Rendezvous { dir: dir.to_owned() }
    }

    fn put(&self, name: &str, bytes: &[u8]) -> anyhow::Result<()> {
        let part = self.dir.join(format!("{name}.part"));
        let path = self.dir.join(name);
        std::fs::write(&part, bytes)
            .and_then(|()| std::fs::rename(&part, &path))
            .with_context(|| format!("cannot write {}", path.display()))
    }

    /// Publishes the unique id of a communicator.
    pub(crate) fn put_id(&self, comm: &str, id: &UniqueId) -> anyhow::Result<()> {
        self.put(&format!("id.{comm}"), id.bytes())
    }

    /// Waits for the unique id; the launcher's time limit ends the wait.
    pub(crate) fn wait_for_id(&self, comm: &str) -> UniqueId {
        let path = self.dir.join(format!("id.{comm}"));
        loop {
            if let Some(id) = std::fs::read(&path).ok().and_then(|bytes| UniqueId::from_bytes(&bytes)) {
                return id;
            }
            std::thread::sleep(POLL);
        }
    }

    pub(crate) fn reach(&self, point: Point, process: u16) -> anyhow::Result<()> {
        self.put(&point.file(process), b"")
    }

    pub(crate) fn has_reached(&self, point: Point, process: u16) -> bool {
        self.dir.join(point.file(process)).exists()
    }

    /// Waits until all processes have reached this point; the launcher's time limit ends the wait.
    pub(crate) fn wait_for_all(&self, point: Point, processes: u16) {
        for process in 0..processes {
            while !self.has_reached(point, process) {
                std::thread::sleep(POLL);
            }
        }
    }

    pub(crate) fn put_outcome(&self, process: u16, outcome: &Outcome) -> anyhow::Result<()> {
        self.put(&format!("outcome.{process}"), &serde_json::to_vec(outcome)?)
    }

    pub(crate) fn outcome(&self, process: u16) -> Option<Outcome> {
        let bytes = std::fs::read(self.dir.join(format!("outcome.{process}"))).ok()?;
        serde_json::from_slice(&bytes).ok()
    }
}
