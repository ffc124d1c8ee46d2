//! What the live bridge to Score-P forwarded: `scorep.json` in the directory of the process.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::{read_json, write_json};

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
    pub fn write(&self, part: &Path) -> io::Result<()> {
        write_json(&Self::path(part), self)
    }

    /// Reads it from a part; `None` where nothing was forwarded, or the file makes no sense.
    pub fn read(part: &Path) -> Option<Self> {
        read_json(&Self::path(part))
    }

    /// For the closing line, as in `Score-P got 24 calls and 8 operations, not 2 operations`.
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
