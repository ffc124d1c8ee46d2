//! The profiler plugins behind the recording one: `chain.json` in the directory of the process.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::{read_json, write_json};

/// Which plugins there were, and what they did not get.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ChainReport {
    /// The plugins, as in `inspector (v5)`.
    pub plugins: Vec<String>,
    /// Those that were left out, with the reason.
    pub left_out: Vec<String>,
    /// What was not handed over, by name; numbers that are 0 are left out.
    pub counts: BTreeMap<String, u64>,
}

impl ChainReport {
    /// Whether no plugin was asked for.
    pub const fn is_empty(&self) -> bool {
        self.plugins.is_empty() && self.left_out.is_empty()
    }

    fn path(part: &Path) -> PathBuf {
        part.join("chain.json")
    }

    /// Writes it into a part, if plugins were asked for.
    pub fn write(&self, part: &Path) -> io::Result<()> {
        if self.is_empty() {
            return Ok(());
        }
        write_json(&Self::path(part), self)
    }

    /// Reads it from a part; `None` where no plugin was asked for, or the file makes no sense.
    pub fn read(part: &Path) -> Option<Self> {
        read_json(&Self::path(part))
    }
}
