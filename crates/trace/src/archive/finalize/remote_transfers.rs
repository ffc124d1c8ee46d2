//! Parts that were written before others had reported their transfers for them (PXN).

use std::path::{Path, PathBuf};

use super::part::{PartState, write_again as write_part_again};
use crate::part::files::is_final;
use crate::part::manifest::Manifest;
use crate::part::remote_transfers::{REMOTE_TRANSFERS, from_neighbours};
use crate::part::write;
use journal::part::JOURNAL;
use nccl_events::Progress;
use nccl_events::ids::ContextId;

/// The parts to write again so that all transfers by neighbours count for them.
pub(super) fn incomplete(all: &[PathBuf], parts: &[PathBuf]) -> Vec<PathBuf> {
    // Fast path: processes rarely work for others.
    if !all.iter().any(|part| part.join(REMOTE_TRANSFERS).exists()) {
        return Vec::new();
    }
    parts.iter().filter(|part| lacking(part).is_some()).cloned().collect()
}

/// The manifest of a part that lacks some of its neighbours' transfers and can be written again.
fn lacking(part: &Path) -> Option<Manifest> {
    if !is_final(part) || !part.join(JOURNAL).exists() {
        return None;
    }
    let manifest = Manifest::read(part).ok()?;
    let process_tag = ContextId::from_raw(manifest.exported_ranks.first()?.context).tag();
    let (workers, _) = from_neighbours(part, &manifest.process, process_tag);
    (workers != manifest.remote_workers).then_some(manifest)
}

/// Writes such a part again; `None` if another process has done so in the meantime.
pub(super) fn write_again(part: &Path, progress: &dyn Progress) -> Option<PartState> {
    let _lock = write::lock(part, None, progress).ok()?;
    Some(write_part_again(part, lacking(part)?.options, false))
}
