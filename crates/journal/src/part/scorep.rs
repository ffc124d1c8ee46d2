//! Report of the live bridge to Score-P: `scorep.json` in the directory of the process.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::{read_json, write_json};

/// What a session forwarded to Score-P.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ScorepReport {
    /// The Score-P library, its functions and the threads.
    pub target: String,
    /// Counts by name; zero counts are omitted.
    pub counts: BTreeMap<String, u64>,
}

impl ScorepReport {
    /// Path of the file in a part.
    pub fn path(part: &Path) -> PathBuf {
        part.join("scorep.json")
    }

    /// Writes the report into a part.
    pub fn write(&self, part: &Path) -> io::Result<()> {
        write_json(&Self::path(part), self)
    }

    /// Reads the report from a part; `None` if nothing was forwarded or the file is malformed.
    pub fn read(part: &Path) -> Option<Self> {
        read_json(&Self::path(part))
    }

    /// Text for the closing line, for example `Score-P got 24 calls and 8 operations, not 2 operations`.
    pub fn summary(&self) -> String {
        let number = |name: &str| self.counts.get(name).copied().unwrap_or(0);
        let sum =
            |of: &str, reasons: &[&str]| reasons.iter().map(|reason| number(&format!("{of}_{reason}"))).sum::<u64>();
        let calls_left_out = sum("CALLS", &["UNKNOWN_THREAD", "OUTSIDE", "NOT_RECORDED", "FILTERED"]);
        let operations_left_out =
            sum("OPERATIONS", &["DROPPED", "OVERLAPPING", "NOT_PLACED", "FILTERED", "CALLS_ONLY"]);
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
