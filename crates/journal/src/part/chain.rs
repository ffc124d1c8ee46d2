//! The profiler plugins chained behind this one: `chain.json` in the directory of the process.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::{read_json, write_json};

/// The chained plugins, and the calls that did not reach them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ChainReport {
    /// The plugins, for example `inspector (v5)`.
    pub plugins: Vec<String>,
    /// Plugins that were not loaded, with the reason.
    pub left_out: Vec<String>,
    /// Calls that were not passed on, by name; zero counts are omitted.
    pub counts: BTreeMap<String, u64>,
}

impl ChainReport {
    /// Whether no plugins were requested.
    pub const fn is_empty(&self) -> bool {
        self.plugins.is_empty() && self.left_out.is_empty()
    }

    fn path(part: &Path) -> PathBuf {
        part.join("chain.json")
    }

    /// Writes the report into a part, unless no plugins were requested.
    pub fn write(&self, part: &Path) -> io::Result<()> {
        if self.is_empty() {
            return Ok(());
        }
        write_json(&Self::path(part), self)
    }

    /// Reads the report from a part; `None` if no plugin was requested or the file is malformed.
    pub fn read(part: &Path) -> Option<Self> {
        read_json(&Self::path(part))
    }
}
