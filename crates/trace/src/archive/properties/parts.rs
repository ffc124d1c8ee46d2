//! The parts that an archive was made from.

use std::collections::BTreeSet;
use std::path::Path;

use nccl_events::schema::{Listed, Statements};
use nccl_events::sort::Gather;
use regular_files::{FNV_SEED, fnv};

#[derive(Debug, Default)]
pub(crate) struct PartsThere {
    names: BTreeSet<String>,
    number: u64,
    fingerprint: String,
}

impl PartsThere {
    /// The parts of an archive; `None` if the archive does not list them.
    pub(crate) fn of(statements: Statements) -> Option<Self> {
        let Listed { number, lines } = statements.parts;
        (!lines.is_empty()).then(|| Self {
            number: number.0.unwrap_or(lines.len()),
            names: lines.all.into_iter().gather(),
            fingerprint: statements.parts_fingerprint.0,
        })
    }

    /// The first part of this archive that an archive of `parts` would lose: it is not in `directory` either.
    pub(crate) fn gone(&self, parts: &BTreeSet<String>, directory: &Path) -> Option<&String> {
        self.names.iter().find(|part| !parts.contains(*part) && !directory.join(part.as_str()).is_dir())
    }

    /// Whether the archive has all these parts; if it has too many to list them, whether it has exactly these.
    pub(crate) fn has_all(&self, parts: &BTreeSet<String>) -> bool {
        if self.names.len() as u64 == self.number {
            return parts.is_subset(&self.names);
        }
        self.number == parts.len() as u64 && self.fingerprint == fingerprint(parts)
    }

    pub(crate) fn has_more_than(&self, parts: &BTreeSet<String>) -> bool {
        if self.names.len() as u64 == self.number {
            return parts.is_subset(&self.names) && *parts != self.names;
        }
        self.number > parts.len() as u64
    }
}

/// A hash of the names of parts.
pub(crate) fn fingerprint(parts: &BTreeSet<String>) -> String {
    let hash = parts.iter().fold(FNV_SEED, |hash, name| fnv(fnv(hash, name.as_bytes()), b"\n"));
    format!("{hash:016x}")
}
