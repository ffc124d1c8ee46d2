//! Written parts that lost their mark, and parts whose recording is lost.

use std::path::Path;

use crate::part::calls::CALLS;
use crate::part::files::{MANIFEST, Progress as PartProgress, TRACES, why_unusable};
use crate::part::manifest::Manifest;
use crate::part::staging::Staging;
use crate::part::write;
use journal::part::is_done;
use journal::part::{JOURNAL, has_begun};
use nccl_events::Progress;

/// Marks a part as written if only the mark is missing: no journal, manifest and event files whole.
pub(super) fn restore(part: &Path, progress: &dyn Progress) {
    // Checks the journal first: the writer of a part removes the journal after it has put the mark.
    let has_journal = part.join(JOURNAL).symlink_metadata().is_ok();
    if !has_journal && !is_done(part) && has_written_files(part) && why_unusable(part).is_none() {
        // `why_missing` reports the failure.
        let _stays_unmarked = put_mark(part, progress);
    }
}

fn put_mark(part: &Path, progress: &dyn Progress) -> Result<(), String> {
    let state = written(part)?;
    let put = || {
        let _lock = write::lock(part, None, progress)?;
        write::mark(part, &Staging::create(part, write::STAGING)?, state)
    };
    put().map_err(|error| error.to_string())
}

/// The content of the lost mark.
fn written(part: &Path) -> Result<PartProgress, String> {
    let manifest = Manifest::read_with_events(part).map_err(|error| error.to_string())?;
    if let (true, Some(lost)) = (manifest.has_lost_events, manifest.problems.last()) {
        return Err(lost.clone());
    }
    // The number of events that began is unknown only if the process was still recording.
    Ok(if manifest.started.is_none() { PartProgress::Provisional } else { PartProgress::Written })
}

/// Why a part without mark and journal cannot go into an archive; `None` if its process never recorded.
pub(super) fn why_missing(part: &Path, progress: &dyn Progress) -> Option<String> {
    if has_written_files(part) {
        let reason = put_mark(part, progress).err()?;
        return Some(format!("its mark `done` and its journal are lost, and it cannot be used without: {reason}"));
    }
    has_begun(part).then(|| format!("its process recorded, and its journal is lost: {}", part.join(JOURNAL).display()))
}

/// Whether the part has a file that only writing it makes.
fn has_written_files(part: &Path) -> bool {
    [MANIFEST, TRACES, CALLS].iter().any(|name| part.join(name).symlink_metadata().is_ok())
}
