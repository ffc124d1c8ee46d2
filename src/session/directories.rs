//! Where a session's files go.

use std::path::{Path, PathBuf};

use super::foreign;
use crate::config::{self, Config, Place};
use crate::scorep::substrate;
use crate::session::calendar::date_and_time;
use journal::private;

/// The job's directory, made with its `parts`.
pub(super) fn output(config: &Config, place: &Place, now_ns: u64) -> Result<PathBuf, String> {
    let relative = match (&config.directory, &place.job) {
        (Some(template), _) => config::expand(template, place).into(),
        (None, job) => match (substrate::archive_directory(), job) {
            (Some(directory), _) => directory,
            (None, Some(_)) => config::expand("nccl-otf2-%j", place).into(),
            (None, None) => format!("nccl-otf2-{}", date_and_time(now_ns / 1_000_000_000)).into(),
        },
    };
    let path = std::path::absolute(&relative)
        .map_err(|error| format!("NCCL_OTF2_DIR={}: {error}", relative.display()))?;
    let parts = path.join("parts");
    foreign::refuse(&path, "NCCL_OTF2_DIR")?;
    foreign::refuse(&parts, "NCCL_OTF2_DIR")?;
    private::directories(&parts).map_err(|error| {
        format!(
            "{}: {error} (NCCL_OTF2_DIR says where the archive goes)",
            path.display()
        )
    })?;
    Ok(path)
}

/// The directory of a part's journal, made; elsewhere if the user wants it so, with a link to it.
pub(super) fn journal(
    config: &Config,
    place: &Place,
    part: &Path,
    name: &str,
) -> Result<PathBuf, String> {
    let inside = part.join("journal");
    let Some(template) = &config.journal_directory else {
        private::directory(&inside).map_err(|error| format!("{}: {error}", inside.display()))?;
        return Ok(inside);
    };
    let outside = PathBuf::from(config::expand(template, place)).join(name);
    let outside = std::path::absolute(&outside).unwrap_or(outside);
    let parent = outside.parent().unwrap_or(&outside);
    foreign::refuse(parent, "NCCL_OTF2_JOURNAL_DIR")?;
    let made = private::directories(parent).and_then(|()| private::directory(&outside));
    made.map_err(|error| format!("NCCL_OTF2_JOURNAL_DIR: {}: {error}", outside.display()))?;
    // The part points to its journal, so that whoever reads the part needs to know no variable.
    std::os::unix::fs::symlink(&outside, &inside)
        .map_err(|error| format!("{}: {error}", inside.display()))?;
    Ok(outside)
}

/// A part that could not be begun leaves nothing behind.
pub(super) fn remove_unused(part: &Path, journal: &Path) {
    let _best_effort = std::fs::remove_dir_all(journal);
    let _best_effort = std::fs::remove_dir_all(part);
}
