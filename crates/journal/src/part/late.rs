//! Callbacks after the end of the recording: a proxy shared by communicators, or a kernel that took too long to wait
//! for, can still report after the last `finalize`, when the trace is being or has been written. No trace contains
//! these callbacks; a file beside the part counts them for the next archive made from that part.

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
}

impl LateCallbacks {
    /// Number of late callbacks.
    pub fn total(&self) -> u64 {
        self.starts.values().chain([&self.stops, &self.states]).fold(0, |sum, it| sum.saturating_add(*it))
    }

    /// Path of the file in a part.
    pub fn path(part: &Path) -> PathBuf {
        part.join("late.json")
    }
}
