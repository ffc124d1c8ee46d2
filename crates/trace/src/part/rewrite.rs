//! Parts that are written, and are to be written otherwise.

use std::path::{Path, PathBuf};

use crate::error::Error;
use crate::part::sidecar::Sidecar;
use crate::part::staging::{Staging, put_in_place};
use crate::part::write::{
    DEFINITIONS, JOURNAL, STAGING, is_done, is_provisional, read_sidecar, write_sidecar,
};
use journal::part::options::{ArchiveOptions, ArchiveWishes};

/// What a wish means for a part that is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Change {
    /// It is as wished.
    Nothing,
    /// Its event files are good, only the archive is made otherwise.
    Definitions(ArchiveOptions),
    /// It is to be written again.
    Events(ArchiveOptions),
}

impl Change {
    /// What has to be done with a part written with `before`.
    pub(crate) fn of(before: ArchiveOptions, wishes: &ArchiveWishes) -> Self {
        let after = wishes.over(before);
        if after == before {
            Self::Nothing
        } else if after.same_events(&before) {
            Self::Definitions(after)
        } else {
            Self::Events(after)
        }
    }
}

/// The options that parts are written with that nobody has written yet: those of the others.
pub(crate) fn options_of_others(directories: &[PathBuf]) -> Option<ArchiveOptions> {
    let mut done = directories.iter().filter(|directory| is_done(directory));
    done.find_map(|directory| Some(read_sidecar(directory).ok()?.options))
}

/// Refuses before anything is changed: half of an archive written otherwise is no archive.
///
/// # Errors
/// A part would have to be written again, and its journal is gone.
pub(crate) fn refuse_without_journals(
    directories: &[PathBuf],
    wishes: &ArchiveWishes,
) -> Result<(), Error> {
    if wishes.is_empty() {
        return Ok(());
    }
    let is_stuck = |directory: &&PathBuf| {
        let sidecar = is_done(directory).then(|| read_sidecar(directory));
        let Some(Ok(sidecar)) = sidecar else {
            return false;
        };
        let is_to_be_written = matches!(Change::of(sidecar.options, wishes), Change::Events(_));
        is_to_be_written && !directory.join(JOURNAL).exists()
    };
    let stuck: Vec<&PathBuf> = directories.iter().filter(is_stuck).collect();
    match stuck.first() {
        Some(first) => Err(Error::NotKept {
            count: stuck.len(),
            first: first.join(JOURNAL),
        }),
        None => Ok(()),
    }
}

/// Says in a part's sidecar that the archive is to be made otherwise; its events stay.
///
/// # Errors
/// The file cannot be written.
pub(crate) fn change_definitions(
    directory: &Path,
    sidecar: Sidecar,
    options: ArchiveOptions,
) -> Result<(), Error> {
    let staging = Staging::create(directory, STAGING)?;
    let changed = Sidecar { options, ..sidecar };
    write_sidecar(&staging.path().join(DEFINITIONS), &changed)?;
    put_in_place(&staging, DEFINITIONS, directory)
}

/// Whether a part is written for good.
pub(crate) fn is_final(directory: &Path) -> bool {
    is_done(directory) && !is_provisional(directory)
}
