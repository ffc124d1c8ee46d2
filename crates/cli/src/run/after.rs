//! What is said and done when the command is over.

use std::path::Path;

use anyhow::Result;
use nccl_profiler_otf2::environment::JobEnvironment;

use super::Request;
use super::directory::Directory;
use super::nothing;
use crate::parts;
use crate::place::ANCHOR;
use crate::print;

/// Completes the archive and says how to open it, or why there is none. All on stderr: stdout is the
/// command's.
///
/// # Errors
///
/// When files cannot be read or written.
pub(super) fn complete(
    directory: &Directory,
    request: &Request,
    job: &JobEnvironment,
    plugin: &Path,
) -> Result<()> {
    let _ = (request, job);
    if parts::names(directory.path())?.is_empty() {
        directory.forget_if_unused();
        print::note(nothing::reasons(plugin, directory.path()));
        return Ok(());
    }
    say_how_to_open(directory.path());
    Ok(())
}

fn say_how_to_open(directory: &Path) {
    let anchor = directory.join(ANCHOR);
    let (directory, anchor) = (directory.display(), anchor.display());
    print::note(format_args!(
        "open it: vampir {anchor}\n  first look: nccl-otf2 info {directory}\n              otf2-print {anchor} | less"
    ));
}
