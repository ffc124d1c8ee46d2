//! Directories that another user has put where this one is going to write.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use crate::hooks;

/// Permissions of a directory like `/tmp`: everybody can write, nobody can take away what is another's.
const STICKY_FOR_ALL: u32 = 0o1002;

/// Refuses a path that another user made in a directory where everybody can, and any link of another user. Other directories
/// of others are as good as what gives access to them: a colleague's in a project, a user's in a container.
///
/// # Errors
/// What is wrong with it, as a sentence with the path.
pub(super) fn refuse(path: &Path, variable: &str) -> Result<(), String> {
    let Ok(data) = fs::symlink_metadata(path) else {
        return Ok(()); // not there: it will be ours
    };
    if data.uid() == hooks::effective_user() {
        return Ok(());
    }
    let parent = path.parent().and_then(|parent| fs::metadata(parent).ok());
    let is_shared = parent.is_some_and(|parent| parent.mode() & STICKY_FOR_ALL == STICKY_FOR_ALL);
    if !is_shared && !data.is_symlink() {
        return Ok(());
    }
    let what = if data.is_symlink() {
        "is a link of"
    } else {
        "belongs to"
    };
    Err(format!(
        "{} {what} another user (uid {}), in a directory that others can write to: name another place ({variable})",
        path.display(),
        data.uid()
    ))
}
