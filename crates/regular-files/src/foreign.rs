//! Refuses output directories that another user has planted.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

/// Permissions of a directory like `/tmp`: all users can write, but cannot remove each other's files.
const STICKY_FOR_ALL: u32 = 0o1002;

/// Refuses a path that another user made in a world-writable directory, any link owned by another user, and a path
/// through a link that another user made in a world-writable directory. Accepts other directories of other users, such
/// as a colleague's in a project or a user's in a container.
pub fn refuse_foreign(path: &Path, variable: &str) -> Result<(), String> {
    if let Some(link) = path.ancestors().skip(1).find(|above| is_planted_link(above)) {
        return Err(because(link, "is a link of", variable));
    }
    let Ok(data) = fs::symlink_metadata(path) else {
        return Ok(()); // does not exist yet; this process makes it
    };
    if data.uid() == effective_user() {
        return Ok(());
    }
    if data.is_symlink() {
        return Err(because(path, "is a link of", variable));
    }
    if is_where_all_can_write(path) {
        return Err(because(path, "belongs to", variable));
    }
    Ok(())
}

/// Whether a path is a link in a world-writable directory, made neither by this user, nor by root, nor by the owner of
/// the directory. Linux has the same rule for following links (`fs.protected_symlinks`).
fn is_planted_link(path: &Path) -> bool {
    let owner = |path: &Path| fs::metadata(path).map(|data| data.uid()).ok();
    let Ok(data) = fs::symlink_metadata(path) else {
        return false;
    };
    data.is_symlink()
        && is_where_all_can_write(path)
        && ![0, effective_user()].contains(&data.uid())
        && path.parent().and_then(owner) != Some(data.uid())
}

fn is_where_all_can_write(path: &Path) -> bool {
    let parent = path.parent().and_then(|parent| fs::metadata(parent).ok());
    parent.is_some_and(|parent| parent.mode() & STICKY_FOR_ALL == STICKY_FOR_ALL)
}

fn because(path: &Path, what: &str, variable: &str) -> String {
    let owner = fs::symlink_metadata(path).map_or_else(|_| "unknown".to_owned(), |data| data.uid().to_string());
    format!(
        "{} {what} another user (uid {owner}), in a directory that others can write to: name another place ({variable})",
        path.display()
    )
}

fn effective_user() -> u32 {
    // SAFETY: geteuid returns a number, touches no memory and cannot fail.
    unsafe { libc::geteuid() }
}
