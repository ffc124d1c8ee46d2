//! Callbacks that came when recording had ended: a proxy shared by communicators, or a kernel that was waited for
//! too long, can still report after the last `finalize`, when the trace is being written or is there. They are in
//! no trace; how many they were is written beside the part, for the next archive that is made of it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

/// Their numbers.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
#[expect(missing_docs, reason = "fields that say it themselves")]
pub struct LateCallbacks {
    /// Starts, by the kind's name.
    pub starts: BTreeMap<String, u64>,
    pub stops: u64,
    pub states: u64,
}

impl LateCallbacks {
    /// All of them.
    pub fn total(&self) -> u64 {
        self.starts.values().chain([&self.stops, &self.states]).fold(0, |sum, it| sum.saturating_add(*it))
    }

    /// The file in a part.
    pub fn path(part: &Path) -> PathBuf {
        part.join("late.json")
    }
}
