//! The profiler plugins behind the recording one: `chain.json` in the directory of the process.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use regular_files::MOST_DESCRIPTION_BYTES;
use serde::{Deserialize, Serialize};

use crate::private;

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
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn write(&self, part: &Path) -> io::Result<()> {
        if self.is_empty() {
            return Ok(());
        }
        let json = serde_json::to_vec(self).map_err(io::Error::other)?;
        private::write(&Self::path(part), &json)
    }

    /// Reads it from a part; `None` where no plugin was asked for, or the file makes no sense.
    pub fn read(part: &Path) -> Option<Self> {
        let json = regular_files::read(&Self::path(part), MOST_DESCRIPTION_BYTES).ok()?;
        serde_json::from_slice(&json).ok()
    }
}
