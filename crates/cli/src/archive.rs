//! Opens the archive that the user names.

use std::path::Path;

use analysis::Trace;
use anyhow::{Context as _, Result, bail};
use otf2::Archive;

pub(crate) use analysis::{is_merged, is_nccl};

use crate::place;

pub(crate) fn open(path: &Path) -> Result<Trace> {
    let anchor = place::anchor(path)?;
    place::note_other_jobs(&anchor);
    let archive = Archive::open(&anchor).context("cannot open the archive")?;
    Trace::read(anchor, archive).context("cannot read the archive")
}

/// Like [`open`], but refuses archives that do not state the kinds of locations, which identify operations.
pub(crate) fn open_with_kinds(path: &Path) -> Result<Trace> {
    let trace = open(path)?;
    if is_nccl(&trace.archive) && !trace.has_location_kinds() {
        bail!(
            "{}: its locations have no NCCL::LOCATION_KIND, because an older build made the archive; run `nccl-otf2 \
             finalize` again on its journals",
            trace.anchor.display()
        );
    }
    Ok(trace)
}
