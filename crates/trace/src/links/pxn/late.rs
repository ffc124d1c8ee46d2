//! Parts that were written before what others did for them was known.

use std::path::{Path, PathBuf};

use super::{FOR_OTHERS, from_neighbours};
use crate::part::part_files::{JOURNAL, is_done, is_provisional, read_sidecar};
use nccl_events::id::ContextId;

/// Those of some of a job's parts that are to be written again, so that all that neighbours did for them counts.
pub(crate) fn wanting(all: &[PathBuf], parts: &[PathBuf]) -> Vec<PathBuf> {
    // Almost always: nobody worked for anybody.
    if !all.iter().any(|part| part.join(FOR_OTHERS).exists()) {
        return Vec::new();
    }
    let wanting = parts.iter().filter(|part| lacks_help(part));
    wanting.cloned().collect()
}

/// Whether a part is without some of its neighbours' help, and can be written again.
pub(crate) fn lacks_help(part: &Path) -> bool {
    if !is_done(part) || is_provisional(part) || !part.join(JOURNAL).exists() {
        return false;
    }
    let Ok(sidecar) = read_sidecar(part) else {
        return false;
    };
    let Some(offered) = sidecar.offered.first() else {
        return false;
    };
    let process_tag = ContextId::from_raw(offered.context).tag();
    let (helpers, _) = from_neighbours(part, &sidecar.process, process_tag);
    helpers != sidecar.helped_by
}
