//! The parts of a job's directory: one for each process that recorded.

use std::fs;
use std::io::ErrorKind;
use std::path::Path;

use anyhow::{Context as _, Result};

use crate::place::PARTS;

/// The names of the parts, sorted; none where there is no directory.
///
/// # Errors
///
/// When the directory is there and cannot be read.
pub(crate) fn names(directory: &Path) -> Result<Vec<String>> {
    let parts = directory.join(PARTS);
    let failed = || format!("cannot read {}", parts.display());
    let entries = match fs::read_dir(&parts) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries.with_context(failed)?,
    };
    let mut names = Vec::new();
    for entry in entries {
        let entry = entry.with_context(failed)?;
        if entry.path().is_dir() {
            names.push(entry.file_name().to_string_lossy().into_owned());
        }
    }
    names.sort();
    Ok(names)
}
