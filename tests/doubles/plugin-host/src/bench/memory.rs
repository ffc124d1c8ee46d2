//! What the process and a folder hold.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use serde::{Deserialize, Serialize};

/// Resident memory in KiB.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Memory {
    /// Now (`VmRSS`): private memory and pages of mapped files.
    pub resident_kib: u64,
    /// The most there was (`VmHWM`).
    pub high_water_kib: u64,
}

impl Memory {
    /// Reads `/proc/self/status`.
    ///
    /// # Errors
    /// When there is no `/proc`.
    pub fn now() -> io::Result<Self> {
        let status = fs::read_to_string("/proc/self/status")?;
        let read = |key: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(key))?;
            line.trim().trim_end_matches(" kB").parse().ok()
        };
        Ok(Self {
            resident_kib: read("VmRSS:").unwrap_or(0),
            high_water_kib: read("VmHWM:").unwrap_or(0),
        })
    }
}

/// The bytes of the files below a folder; 0 when it is not there.
///
/// # Errors
/// When a folder cannot be read.
pub fn folder_bytes(folder: &Path) -> io::Result<FolderBytes> {
    let mut total = FolderBytes::default();
    let mut open = vec![folder.to_owned()];
    while let Some(folder) = open.pop() {
        let entries = match fs::read_dir(&folder) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            entries => entries?,
        };
        for entry in entries {
            let entry = entry?;
            let kind = entry.metadata()?;
            if kind.is_dir() {
                open.push(entry.path());
            } else {
                total.length += kind.len();
                total.allocated += kind.blocks() * 512;
            }
        }
    }
    Ok(total)
}

/// Sizes of files.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FolderBytes {
    /// Sum of the lengths.
    pub length: u64,
    /// Sum of the blocks on disk, as `du` counts.
    pub allocated: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_are_summed() {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("below")).unwrap();
        fs::write(folder.path().join("below/a"), [1; 100]).unwrap();
        fs::write(folder.path().join("b"), [1; 11]).unwrap();
        assert_eq!(folder_bytes(folder.path()).unwrap().length, 111);
        assert_eq!(folder_bytes(&folder.path().join("none")).unwrap().length, 0);
        assert!(Memory::now().unwrap().resident_kib > 0);
    }
}
