//! What the live bridge to Score-P forwarded: `scorep.json` in the directory of the process.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use regular_files::MOST_DESCRIPTION_BYTES;
use serde::{Deserialize, Serialize};

use crate::private;

/// What a session forwarded; in the part's file `scorep.json`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ScorepReport {
    /// Which Score-P, which functions, which threads.
    pub target: String,
    /// Numbers by name; those that are 0 are left out.
    pub counts: BTreeMap<String, u64>,
}

impl ScorepReport {
    /// The file in a part.
    pub fn path(part: &Path) -> PathBuf {
        part.join("scorep.json")
    }

    /// Writes it into a part.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn write(&self, part: &Path) -> io::Result<()> {
        let json = serde_json::to_vec(self).map_err(io::Error::other)?;
        private::write(&Self::path(part), &json)
    }

    /// Reads it from a part; `None` where nothing was forwarded, or the file makes no sense.
    pub fn read(part: &Path) -> Option<Self> {
        let json = regular_files::read(&Self::path(part), MOST_DESCRIPTION_BYTES).ok()?;
        serde_json::from_slice(&json).ok()
    }

    /// For the closing line, as in `Score-P got 24 calls and 8 operations, not 2 operations`.
    pub fn summary(&self) -> String {
        let number = |name: &str| self.counts.get(name).copied().unwrap_or(0);
        let calls_left_out: u64 =
            ["CALLS_UNKNOWN_THREAD", "CALLS_OUTSIDE", "CALLS_NOT_RECORDED", "CALLS_FILTERED"].map(number).iter().sum();
        let operations_left_out: u64 = [
            "OPERATIONS_DROPPED",
            "OPERATIONS_OVERLAPPING",
            "OPERATIONS_NOT_PLACED",
            "OPERATIONS_FILTERED",
            "OPERATIONS_CALLS_ONLY",
        ]
        .map(number)
        .iter()
        .sum();
        let mut line = format!("Score-P got {} calls and {} operations", number("CALLS"), number("OPERATIONS"));
        if calls_left_out + operations_left_out > 0 {
            line.push_str(&format!(
                ", not {calls_left_out} calls and {operations_left_out} operations (NCCL::SCOREP in the archive says why)"
            ));
        }
        let waiting = number("OPERATIONS_WAITING");
        if waiting > 0 {
            line.push_str(&format!("; {waiting} operations follow at the end of its measurement"));
        }
        line
    }
}
