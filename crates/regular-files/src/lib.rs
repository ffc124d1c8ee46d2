//! Opens files for reading that another user may have put there. Anything but a regular file of a sensible size is an
//! error, and never blocks, fills memory or has side effects. Refuses output directories that another user planted.

use std::fs::{File, FileType, Metadata};
use std::io::{ErrorKind, Read as _};
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::{fs, io};

/// The size limit of a description: `process.json` and a part's other JSON files about its process.
pub const MOST_DESCRIPTION_BYTES: u64 = 16 << 20;
/// The size limit of a file that grows with what a process recorded: a manifest, or the calls of its ranks.
pub const MOST_MANIFEST_BYTES: u64 = 1 << 30;
pub const MOST_MARK_BYTES: u64 = 4096;

/// Opens a regular file. A symbolic link is refused; links among its parent directories are followed.
pub fn open(path: &Path, most_bytes: u64) -> io::Result<File> {
    let flags = libc::O_NONBLOCK | libc::O_NOFOLLOW | libc::O_NOCTTY;
    let file = match File::options().read(true).custom_flags(flags).open(path) {
        Ok(file) => file,
        // For a link or a socket, `open` gives an error that does not name the cause.
        Err(error) => {
            let is = path.symlink_metadata().ok();
            return Err(is.and_then(|is| refused(&is, u64::MAX)).unwrap_or(error));
        }
    };
    match refused(&file.metadata()?, most_bytes) {
        Some(error) => Err(error),
        None => Ok(file),
    }
}

/// Opens a regular file that the user names. Follows a symbolic link: a library or a secret may be behind one.
pub fn open_named(path: &Path, most_bytes: u64) -> io::Result<File> {
    open(&path.canonicalize()?, most_bytes)
}

/// Whether the system refused to open or read a file that is there: another attempt may succeed, so the error says
/// nothing of the content. False where what is there is no regular file, or too large.
pub fn is_refused_by_system(error: &io::Error) -> bool {
    error.kind() != ErrorKind::NotFound && error.raw_os_error().is_some()
}

/// What to name in an error of looking at `path`: where that is not permitted, the directory that the user may not
/// enter, which may be behind a link; else `path`.
pub fn refusing_directory(path: &Path, error: &io::Error) -> PathBuf {
    if error.kind() != ErrorKind::PermissionDenied {
        return path.to_owned();
    }
    let around = path.parent().unwrap_or(path);
    let target = fs::read_link(path).map_or_else(|_| path.to_owned(), |target| around.join(target));
    // Something can be looked at exactly where all directories above it can be entered.
    let refusing = target.ancestors().find(|above| above.metadata().is_ok());
    refusing.unwrap_or(path).to_owned()
}

pub fn read(path: &Path, most_bytes: u64) -> io::Result<Vec<u8>> {
    let file = open(path, most_bytes)?;
    let length = usize::try_from(file.metadata()?.len()).unwrap_or(usize::MAX);
    let mut bytes = Vec::new();
    bytes.try_reserve_exact(length).map_err(|_| io::Error::from(ErrorKind::OutOfMemory))?;
    // The file may grow meanwhile.
    file.take(most_bytes).read_to_end(&mut bytes)?;
    Ok(bytes)
}

pub fn read_to_string(path: &Path, most_bytes: u64) -> io::Result<String> {
    String::from_utf8(read(path, most_bytes)?).map_err(|_| io::Error::other("it is not text"))
}

pub const FNV_SEED: u64 = 0xcbf2_9ce4_8422_2325;

/// FNV-1a: the same in every process, unlike the standard library's hash. Changing one byte always changes the result.
pub fn fnv(seed: u64, bytes: &[u8]) -> u64 {
    bytes.iter().fold(seed, |hash, &byte| (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3))
}

pub fn checksum(path: &Path, most_bytes: u64) -> io::Result<u64> {
    let mut file = open(path, most_bytes)?.take(most_bytes);
    let (mut hash, mut bytes) = (FNV_SEED, vec![0; 64 << 10]);
    loop {
        match file.read(&mut bytes)? {
            0 => return Ok(hash),
            length => hash = fnv(hash, bytes.get(..length).unwrap_or_default()),
        }
    }
}

/// Refuses a path for a new file if it holds something that must not be replaced: a device, a FIFO or a link.
pub fn refuse_other_than_file(path: &Path) -> io::Result<()> {
    match path.symlink_metadata() {
        Ok(is) => refused(&is, u64::MAX).map_or(Ok(()), Err),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
    }
}

fn refused(is: &Metadata, most_bytes: u64) -> Option<io::Error> {
    let length = is.len();
    if !is.is_file() {
        return Some(io::Error::other(format!("it is {}, not a regular file", kind(is.file_type()))));
    }
    (length > most_bytes)
        .then(|| io::Error::other(format!("it has {length} bytes, and such a file has at most {most_bytes}")))
}

fn kind(is: FileType) -> &'static str {
    if is.is_symlink() {
        "a symbolic link"
    } else if is.is_dir() {
        "a directory"
    } else if is.is_fifo() {
        "a FIFO"
    } else if is.is_socket() {
        "a socket"
    } else {
        "a device"
    }
}

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

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;
    use std::os::unix::net::UnixListener;
    use std::process::Command;

    use super::*;

    fn refused(path: &Path) -> String {
        open(path, 1 << 20).expect_err("refused").to_string()
    }

    #[test]
    fn only_regular_files_of_a_sensible_size_are_opened() {
        let scratch = tempfile::tempdir().expect("a directory");
        let at = |name: &str| scratch.path().join(name);
        fs::write(at("file"), "text").expect("written");
        assert_eq!(read_to_string(&at("file"), 4).expect("read"), "text");
        assert_eq!(
            read(&at("file"), 3).expect_err("too long").to_string(),
            "it has 4 bytes, and such a file has at most 3"
        );
        assert_eq!(open(&at("missing"), 1).expect_err("missing").kind(), ErrorKind::NotFound);
        assert_eq!(refused(scratch.path()), "it is a directory, not a regular file");
        symlink(at("file"), at("link")).expect("a link");
        assert_eq!(refused(&at("link")), "it is a symbolic link, not a regular file");
        assert!(Command::new("mkfifo").arg(at("fifo")).status().expect("mkfifo").success());
        assert_eq!(refused(&at("fifo")), "it is a FIFO, not a regular file");
        let _socket = UnixListener::bind(at("socket")).expect("a socket");
        assert_eq!(refused(&at("socket")), "it is a socket, not a regular file");
        assert_eq!(refused(Path::new("/dev/zero")), "it is a device, not a regular file");
        for (place, is_refused) in
            [("file", false), ("missing", false), ("fifo", true), ("link", true), ("socket", true)]
        {
            assert_eq!(refuse_other_than_file(&at(place)).is_err(), is_refused, "{place}");
        }
        refuse_other_than_file(Path::new("/dev/full")).expect_err("a device");
        let sparse = File::create(at("sparse")).expect("made");
        sparse.set_len(1 << 40).expect("a hole");
        assert_eq!(refused(&at("sparse")), "it has 1099511627776 bytes, and such a file has at most 1048576");
        // Links among the parent directories are the user's business.
        symlink(scratch.path(), at("here")).expect("a link");
        open(&at("here/file"), 4).expect("opened");
        // So are links that the user names.
        open_named(&at("link"), 4).expect("opened");
        let refused = open_named(&at("fifo"), 4).expect_err("refused");
        assert_eq!(refused.to_string(), "it is a FIFO, not a regular file");
        assert_eq!(checksum(&at("link"), 4).ok(), None);
        assert_eq!(checksum(&at("file"), 4).expect("read"), fnv(FNV_SEED, b"text"));
    }
}
