//! Callbacks and communicators after the end of the recording: a proxy shared by communicators, or a kernel that took too long to wait
//! for, can still report after the last `finalize`, when the trace is being or has been written; and a later recording
//! may fail to begin. No trace contains these; a file beside the part counts them for the next archive made from it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

/// Numbers of late callbacks.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
#[expect(missing_docs, reason = "fields that say it themselves")]
pub struct LateCallbacks {
    /// Starts, by the name of the kind.
    pub starts: BTreeMap<String, u64>,
    pub stops: u64,
    pub states: u64,
    /// Communicators of which nothing is recorded, because no recording could begin for them.
    pub communicators: u64,
}

impl LateCallbacks {
    /// Number of late callbacks and communicators.
    pub fn total(&self) -> u64 {
        let others = [&self.stops, &self.states, &self.communicators];
        self.starts.values().chain(others).fold(0, |sum, count| sum.saturating_add(*count))
    }

    /// Adds what came later.
    pub fn add(&mut self, later: &Self) {
        for (kind, count) in &later.starts {
            *self.starts.entry(kind.clone()).or_default() += count;
        }
        self.stops += later.stops;
        self.states += later.states;
        self.communicators += later.communicators;
    }

    /// Path of the file in a part.
    pub fn path(part: &Path) -> PathBuf {
        part.join("late.json")
    }
}
