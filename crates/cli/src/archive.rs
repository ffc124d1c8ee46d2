//! The archive that the user means.

use std::path::Path;

use analysis::Trace;
use anyhow::{Context as _, Result};
use otf2::Archive;

pub(crate) use analysis::{MERGED, is_merged, is_nccl};

use crate::place;

/// Opens the archive at a directory or anchor file.
pub(crate) fn open(path: &Path) -> Result<Trace> {
    let anchor = place::anchor(path)?;
    let archive = Archive::open(&anchor).context("cannot open the archive")?;
    Trace::read(anchor, archive).context("cannot read the archive")
}
