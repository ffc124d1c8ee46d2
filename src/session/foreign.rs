//! Directories that another user has put where this one is going to write.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use crate::host::hooks;

/// Permissions of a directory like `/tmp`: everybody can write, nobody can take away what is another's.
const STICKY_FOR_ALL: u32 = 0o1002;

/// Refuses a path that another user made in a directory where everybody can, any link of another user, and what is reached
/// through a link that another user made where everybody can. Other directories of others are as good as what gives access to
/// them: a colleague's in a project, a user's in a container.
///
/// # Errors
/// What is wrong with it, as a sentence with the path.
pub(super) fn refuse(path: &Path, variable: &str) -> Result<(), String> {
    if let Some(link) = path
        .ancestors()
        .skip(1)
        .find(|above| is_planted_link(above))
    {
        return Err(because(link, "is a link of", variable));
    }
    let Ok(data) = fs::symlink_metadata(path) else {
        return Ok(()); // not there: it will be ours
    };
    if data.uid() == hooks::effective_user() {
        return Ok(());
    }
    if data.is_symlink() {
        return Err(because(path, "is a link of", variable));
    }
    if lies_where_all_can_write(path) {
        return Err(because(path, "belongs to", variable));
    }
    Ok(())
}

/// Whether a path is a link that neither this user made, nor root, nor whoever the directory belongs to that it lies in: the
/// rule by which Linux follows links (`fs.protected_symlinks`), where that is switched on.
fn is_planted_link(path: &Path) -> bool {
    let owner = |path: &Path| fs::metadata(path).map(|data| data.uid()).ok();
    let Ok(data) = fs::symlink_metadata(path) else {
        return false;
    };
    data.is_symlink()
        && lies_where_all_can_write(path)
        && ![0, hooks::effective_user()].contains(&data.uid())
        && path.parent().and_then(owner) != Some(data.uid())
}

fn lies_where_all_can_write(path: &Path) -> bool {
    let parent = path.parent().and_then(|parent| fs::metadata(parent).ok());
    parent.is_some_and(|parent| parent.mode() & STICKY_FOR_ALL == STICKY_FOR_ALL)
}

fn because(path: &Path, what: &str, variable: &str) -> String {
    let owner = fs::symlink_metadata(path).map_or(0, |data| data.uid());
    format!(
        "{} {what} another user (uid {owner}), in a directory that others can write to: name another place ({variable})",
        path.display()
    )
}
