//! The file `collectives` of a part: every rank's collectives in order. JSON, versioned; read only where digests differ.

use std::fs;
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::{Digest, SEED, hash};
use crate::error::{Error, io_error};
use journal::private;

/// Name of the file in a part.
pub const CALLS: &str = "collectives";

/// Version of the file.
const FORMAT: u32 = 1;

/// A collective as the ranks have to agree about it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Call {
    /// What NCCL calls the function.
    pub func: String,
    /// Elements; bytes where the function only moves them.
    pub count: u64,
    /// Type of the elements; empty for bytes.
    pub datatype: String,
    /// The root; -1 where there is none.
    pub root: i32,
}

impl Call {
    /// A number for what it says.
    #[must_use]
    pub fn hash(&self) -> u64 {
        let words = [&self.func, &self.datatype].into_iter();
        let hashed = words.fold(SEED, |seed, word| {
            hash(hash(seed, word.as_bytes()), &[0xff])
        });
        let hashed = hash(hashed, &self.count.to_le_bytes());
        hash(hashed, &self.root.to_le_bytes())
    }
}

impl std::fmt::Display for Call {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let datatype = match self.datatype.as_str() {
            "" => "bytes",
            datatype => datatype,
        };
        write!(out, "{} of {} {datatype}", self.func, self.count)?;
        if self.root >= 0 {
            write!(out, " root {}", self.root)?;
        }
        Ok(())
    }
}

/// One rank's collectives: places in [`CallLists::calls`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RankCalls {
    /// A place in the sidecar's communicators.
    pub comm: u32,
    /// Its rank.
    pub rank: u32,
    /// What it called; `None` where that was not recorded.
    pub called: Option<Vec<u32>>,
    /// What NCCL enqueued; `None` where that does not tell what was called.
    pub enqueued: Option<Vec<u32>>,
}

/// The collectives of all ranks of a process.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CallLists {
    format: u32,
    /// Each different call once.
    pub calls: Vec<Call>,
    /// The ranks.
    pub ranks: Vec<RankCalls>,
}

impl CallLists {
    /// Those of a process.
    #[must_use]
    pub fn new(calls: Vec<Call>, ranks: Vec<RankCalls>) -> Self {
        Self {
            format: FORMAT,
            calls,
            ranks,
        }
    }

    /// The hashes of the different calls.
    #[must_use]
    pub fn hashes(&self) -> Vec<u64> {
        self.calls.iter().map(Call::hash).collect()
    }

    /// Number and hash of a list; `hashes` are those of the calls.
    #[must_use]
    pub fn digest(hashes: &[u64], list: &[u32]) -> Digest {
        list.iter().fold(Digest::default(), |digest, &call| {
            digest.and(
                hashes
                    .get(crate::tables::place::index(call))
                    .copied()
                    .unwrap_or(0),
            )
        })
    }

    /// Writes the file.
    ///
    /// # Errors
    /// It cannot be written.
    pub(crate) fn write(&self, path: &Path) -> Result<(), Error> {
        let json = serde_json::to_vec(self).map_err(|error| Error::Sidecar {
            path: path.to_owned(),
            reason: error.to_string(),
        })?;
        private::write(path, &json).map_err(io_error("write", path))
    }

    /// Reads a part's file; `None` where there is none that this version understands.
    pub(crate) fn read(part: &Path) -> Option<Self> {
        let bytes = fs::read(part.join(CALLS)).ok()?;
        let lists: Self = serde_json::from_slice(&bytes).ok()?;
        (lists.format == FORMAT).then_some(lists)
    }
}
