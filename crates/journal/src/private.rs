//! Files and directories accessible to their user only, whatever the umask. The umask is not changed, because all
//! threads of the job share it.

use std::fs::{self, DirBuilder, File, Metadata, OpenOptions, Permissions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::Path;

const DIRECTORY_MODE: u32 = 0o700;
const FILE_MODE: u32 = 0o600;

/// Creates a directory.
pub fn directory(path: &Path) -> io::Result<()> {
    DirBuilder::new().mode(DIRECTORY_MODE).create(path)
}

/// Creates a directory and all missing parents; an existing directory is no error.
pub fn directories(path: &Path) -> io::Result<()> {
    DirBuilder::new().mode(DIRECTORY_MODE).recursive(true).create(path)
}

/// Creates a file, which must not exist.
pub fn new_file(path: &Path) -> io::Result<File> {
    OpenOptions::new().write(true).create_new(true).mode(FILE_MODE).open(path)
}

/// Writes a file, replacing an existing one.
pub fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    OpenOptions::new().write(true).create(true).truncate(true).mode(FILE_MODE).open(path)?.write_all(bytes)
}

/// Gives a directory and everything in it the mode of another directory; files without execute permission.
pub fn share(path: &Path, like: &Path) {
    let Ok(mode) = fs::metadata(like).map(|data| data.permissions().mode()) else {
        return;
    };
    set_modes(path, mode & 0o777, mode & 0o666);
}

/// Removes the access of others from what another library created in a private directory, before it becomes visible.
pub fn seal(path: &Path) {
    set_modes(path, DIRECTORY_MODE, FILE_MODE);
}

/// Like [`seal`], but not what is in a directory.
pub fn seal_alone(path: &Path) {
    if let Ok(data) = fs::symlink_metadata(path) {
        set_mode(path, &data, DIRECTORY_MODE, FILE_MODE);
    }
}

fn set_modes(path: &Path, directory_mode: u32, file_mode: u32) {
    let Ok(data) = fs::symlink_metadata(path) else {
        return;
    };
    if data.is_dir() {
        for entry in fs::read_dir(path).into_iter().flatten().flatten() {
            set_modes(&entry.path(), directory_mode, file_mode);
        }
    }
    set_mode(path, &data, directory_mode, file_mode);
}

fn set_mode(path: &Path, data: &Metadata, directory_mode: u32, file_mode: u32) {
    let mode = match () {
        () if data.is_dir() => directory_mode,
        () if data.is_file() => file_mode,
        () => return,
    };
    // Most files were sealed under another name and have the mode already. A file system without modes refuses.
    if data.permissions().mode() & 0o7777 != mode {
        let _without_modes = fs::set_permissions(path, Permissions::from_mode(mode));
    }
}
