//! Checksums of the definitions. A wrong byte in a name or a mapping table changes values, and OTF2 does not detect it.

use std::collections::HashMap;
use std::fmt;
use std::io::{self, ErrorKind};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use regular_files::{FNV_SEED, MOST_MANIFEST_BYTES, checksum, fnv};

use crate::error::{Error, Result};

/// The anchor's property with the checksums of the global and of the local definitions, in hexadecimal.
pub(crate) const PROPERTY: &str = "NCCL_OTF2::DEFINITIONS_CHECKSUM";

/// Checksums of an archive's definition files.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Checksums {
    global: u64,
    local: u64,
}

impl fmt::Display for Checksums {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{:016x} {:016x}", self.global, self.local)
    }
}

impl Checksums {
    /// Reads the definition files of an archive with these locations, in ascending order. Does not limit the size of
    /// the global definitions, because they were read or written before.
    pub(crate) fn of(anchor: &Path, locations: impl Iterator<Item = u64>) -> Result<Self> {
        let global = anchor.with_extension("def");
        let global = checksum(&global, u64::MAX).map_err(|source| read(&global, source))?;
        // The locations of a process share one file through hard links.
        let mut known: HashMap<(u64, u64), u64> = HashMap::new();
        let mut local = FNV_SEED;
        for location in locations {
            let path = file(anchor, location);
            let hash = match path.symlink_metadata() {
                Ok(data) => match known.get(&(data.dev(), data.ino())) {
                    Some(hash) => *hash,
                    None => {
                        let hash = checksum(&path, MOST_MANIFEST_BYTES).map_err(|source| read(&path, source))?;
                        known.insert((data.dev(), data.ino()), hash);
                        hash
                    }
                },
                Err(error) if error.kind() == ErrorKind::NotFound => 0,
                Err(source) => return Err(read(&path, source)),
            };
            local = fnv(fnv(local, &location.to_le_bytes()), &hash.to_le_bytes());
        }
        Ok(Self { global, local })
    }

    /// Compares the files' checksums with those stated in the archive.
    pub(crate) fn compare(&self, anchor: &Path, written: &str) -> Result<()> {
        let (global, local) = written.split_once(' ').unwrap_or((written, ""));
        let path = if global != format!("{:016x}", self.global) {
            anchor.with_extension("def")
        } else if local != format!("{:016x}", self.local) {
            anchor.with_extension("").join("*.def")
        } else {
            return Ok(());
        };
        let reason = "does not have what was written into it: its checksum is another".to_owned();
        Err(Error::Damaged { path, reason })
    }
}

/// Checks that either all or none of these locations have local definitions: without them, references are misread and
/// the clock is not corrected. Programs that number definitions alike in all processes write no local definitions.
pub(crate) fn check_presence(anchor: &Path, locations: impl Iterator<Item = u64> + Clone) -> Result<()> {
    let is_missing = |location: &u64| {
        let data = file(anchor, *location).symlink_metadata();
        data.is_err_and(|error| error.kind() == ErrorKind::NotFound)
    };
    match locations.clone().find(is_missing) {
        Some(missing) if !locations.clone().all(|location| is_missing(&location)) => {
            let reason = "is missing, and other locations have theirs".to_owned();
            Err(Error::Damaged { path: file(anchor, missing), reason })
        }
        _ => Ok(()),
    }
}

fn file(anchor: &Path, location: u64) -> PathBuf {
    anchor.with_extension("").join(format!("{location}.def"))
}

fn read(path: &Path, source: io::Error) -> Error {
    crate::error::io("read the definitions", path, source)
}
