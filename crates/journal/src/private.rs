//! Files and directories for their user only, whatever the process's umask is. That cannot be changed for a while: it
//! is the same for all threads of the job.

use std::fs::{self, DirBuilder, File, OpenOptions, Permissions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::Path;

const DIRECTORY_MODE: u32 = 0o700;
const FILE_MODE: u32 = 0o600;

/// Makes a directory.
pub fn directory(path: &Path) -> io::Result<()> {
    DirBuilder::new().mode(DIRECTORY_MODE).create(path)
}

/// Makes a directory, with all that are missing above it; nothing is wrong with one that is there.
pub fn directories(path: &Path) -> io::Result<()> {
    DirBuilder::new().mode(DIRECTORY_MODE).recursive(true).create(path)
}

/// Makes a file that is not there.
pub fn new_file(path: &Path) -> io::Result<File> {
    OpenOptions::new().write(true).create_new(true).mode(FILE_MODE).open(path)
}

/// Writes a file, whether there is one or not.
pub fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    OpenOptions::new().write(true).create(true).truncate(true).mode(FILE_MODE).open(path)?.write_all(bytes)
}

/// Gives a directory, with all that is in it, the mode of another directory: files without the right to execute them.
pub fn share(path: &Path, like: &Path) {
    let Ok(mode) = fs::metadata(like).map(|data| data.permissions().mode()) else {
        return;
    };
    set_modes(path, mode & 0o777, mode & 0o666);
}

/// Closes what another library made, in a directory that is closed already, before others can see it.
pub fn seal(path: &Path) {
    set_modes(path, DIRECTORY_MODE, FILE_MODE);
}

fn set_modes(path: &Path, directory_mode: u32, file_mode: u32) {
    let Ok(data) = fs::symlink_metadata(path) else {
        return;
    };
    let mode = if data.is_dir() {
        for entry in fs::read_dir(path).into_iter().flatten().flatten() {
            set_modes(&entry.path(), directory_mode, file_mode);
        }
        directory_mode
    } else if data.is_file() {
        file_mode
    } else {
        return;
    };
    // Most have it already, having been sealed under another name. A file system without modes refuses.
    if data.permissions().mode() & 0o7777 != mode {
        let _without_modes = fs::set_permissions(path, Permissions::from_mode(mode));
    }
}
