//! Refuses directories that another user has put where this process is going to write.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

/// Permissions of a directory like `/tmp`: all users can write, none can remove the files of others.
const STICKY_FOR_ALL: u32 = 0o1002;

/// Refuses a path that another user made in a directory where all users can write, any link of another user, and a path
/// through a link that another user made where all can write. Other directories of other users are accepted: a
/// colleague's in a project, a user's in a container.
pub fn refuse_foreign(path: &Path, variable: &str) -> Result<(), String> {
    if let Some(link) = path.ancestors().skip(1).find(|above| is_planted_link(above)) {
        return Err(because(link, "is a link of", variable));
    }
    let Ok(data) = fs::symlink_metadata(path) else {
        return Ok(()); // it does not exist, so this process makes it
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

/// Whether a path is a link in a directory where all can write, which was made neither by this user, nor by root, nor
/// by the owner of the directory. Linux has the same rule for following links (`fs.protected_symlinks`).
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
    // SAFETY: returns a number, touches no memory, cannot fail.
    unsafe { libc::geteuid() }
}
