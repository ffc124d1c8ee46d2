//! Which parts an archive is of.

use std::collections::BTreeSet;

use regular_files::{FNV_SEED, fnv};

/// The property with the names of the parts that are in the archive, one a line.
pub(super) const PARTS: &str = "NCCL::PARTS";

/// The property with the parts that are not, and why, one a line that begins with the part's name.
pub(crate) const PARTS_LEFT_OUT: &str = "NCCL::PARTS_LEFT_OUT";

/// The parts that are in an archive, as it says.
#[derive(Debug, Default)]
pub(crate) struct PartsThere {
    names: BTreeSet<String>,
    number: u64,
    fingerprint: String,
}

impl PartsThere {
    /// Those of an archive; `None` if it does not say.
    pub(crate) fn of(archive: &otf2::Archive) -> Option<Self> {
        let names = archive.property(PARTS)?.lines();
        let names: BTreeSet<String> = names.map(str::to_owned).collect();
        let number = archive.property(PARTS_NUMBER);
        let number = number.and_then(|number| number.parse().ok());
        Some(Self {
            number: number.unwrap_or(names.len() as u64),
            fingerprint: archive.property(PARTS_FINGERPRINT).unwrap_or_default().to_owned(),
            names,
        })
    }

    /// Whether all of these are among them; where there are too many to name them, whether they are these.
    pub(crate) fn has_all(&self, parts: &BTreeSet<String>) -> bool {
        if self.names.len() as u64 == self.number {
            return parts.is_subset(&self.names);
        }
        self.number == parts.len() as u64 && self.fingerprint == fingerprint(parts)
    }

    /// Whether there are all of these and others.
    pub(crate) fn has_more_than(&self, parts: &BTreeSet<String>) -> bool {
        if self.names.len() as u64 == self.number {
            return parts.is_subset(&self.names) && *parts != self.names;
        }
        self.number > parts.len() as u64
    }
}

/// How many parts there are, and a hash of their names: where they are too many to be named.
pub(super) const PARTS_NUMBER: &str = "NCCL::PARTS::NUMBER";
pub(super) const PARTS_FINGERPRINT: &str = "NCCL::PARTS::FINGERPRINT";

/// A hash of the names of parts.
pub(crate) fn fingerprint(parts: &BTreeSet<String>) -> String {
    let hash = parts.iter().fold(FNV_SEED, |hash, name| fnv(fnv(hash, name.as_bytes()), b"\n"));
    format!("{hash:016x}")
}
