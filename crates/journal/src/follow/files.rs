//! The files of a followed journal, and which of them are held open.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::format::layout::SEGMENTS_PER_FILE;

/// The most files that a follower holds open. A file held open can be read to its end even after the process removes
/// it. Other files are opened for each read: what the process has removed by then is lost, and counted.
pub const MOST_OPEN_FILES: usize = 64;

/// A file: its number in its slot, so that the oldest files of all slots sort first, and its path.
pub(super) type FileKey = (u32, Arc<Path>);

#[derive(Debug)]
pub(super) struct JournalFile {
    file: Option<File>,
    /// Whether the last listing of the directory contained the file.
    pub(super) is_listed: bool,
    /// Bit n: whether a segment was found, or a problem reported, at segment n of the file.
    pub(super) seen: u64,
    /// Number of segments that are not read to their end.
    pub(super) unread: usize,
    /// Whether the slot has moved on to another file for good.
    is_left: bool,
    /// Whether a problem of the whole file was reported.
    pub(super) is_reported: bool,
}

const _: () = assert!(SEGMENTS_PER_FILE <= 64, "bits of JournalFile::seen");

impl JournalFile {
    const fn new() -> Self {
        Self { file: None, is_listed: true, seen: 0, unread: 0, is_left: false, is_reported: false }
    }

    pub(super) fn has_seen(&self, index: usize) -> bool {
        self.seen >> index & 1 != 0
    }

    pub(super) fn mark_seen(&mut self, index: usize) {
        self.seen |= 1 << index;
    }

    /// Whether a new segment may have come into use in the file.
    pub(super) fn is_open(&self) -> bool {
        (self.is_listed || self.file.is_some()) && !self.is_left
    }

    /// Whether everything the file will ever contain is read.
    fn is_done(&self) -> bool {
        self.is_left && self.unread == 0
    }
}

#[derive(Debug)]
pub(super) struct Files {
    pub(super) all: BTreeMap<FileKey, JournalFile>,
    open: usize,
    most_open: usize,
    /// The file that was read last; used only if no file may be held open.
    last: RefCell<Option<(FileKey, File)>>,
    /// The first file that the system did not open or read, though it is there.
    failure: RefCell<Option<(PathBuf, io::Error)>>,
}

impl Files {
    pub(super) const fn new(most_open: usize) -> Self {
        Self { all: BTreeMap::new(), open: 0, most_open, last: RefCell::new(None), failure: RefCell::new(None) }
    }

    /// Lists the directory. Returns false if the directory is gone.
    pub(super) fn list(&mut self, directory: &Path) -> io::Result<bool> {
        let mut listed = Vec::new();
        let is_there = match std::fs::read_dir(directory) {
            Ok(entries) => {
                for entry in entries {
                    listed.push(key(&entry?.path()));
                }
                true
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => false,
            Err(error) => return Err(error),
        };
        for file in self.all.values_mut() {
            file.is_listed = false;
        }
        for key in listed {
            self.all.entry(key).or_insert_with(JournalFile::new).is_listed = true;
        }
        for ((_, path), file) in &mut self.all {
            // Listing a directory that changes at the same time may miss an entry.
            file.is_listed = file.is_listed || path.symlink_metadata().is_ok();
        }
        Ok(is_there)
    }

    /// Opens files, the oldest first, up to the limit, and closes files that are fully read.
    pub(super) fn hold(&mut self) {
        for ((_, path), file) in &mut self.all {
            let is_done = file.is_done();
            if is_done && file.file.take().is_some() {
                self.open -= 1;
            } else if !is_done && file.is_listed && file.file.is_none() && self.open < self.most_open {
                file.file = open(path).ok();
                self.open += usize::from(file.file.is_some());
            }
        }
    }

    /// Forgets removed files that have nothing left to read.
    pub(super) fn forget(&mut self) {
        let open = &mut self.open;
        self.all.retain(|_, file| {
            let is_kept = file.is_listed || file.unread > 0;
            *open -= usize::from(!is_kept && file.file.is_some());
            is_kept
        });
    }

    /// Whether the file was removed and so receives no more segments.
    pub(super) fn is_removed(&self, key: &FileKey) -> bool {
        self.all.get(key).is_none_or(|file| !file.is_listed)
    }

    /// Removed files that have unread segments and were not held open.
    pub(super) fn gone(&self) -> BTreeSet<FileKey> {
        let gone = |file: &JournalFile| !file.is_listed && file.file.is_none() && file.unread > 0;
        self.all.iter().filter(|(_, file)| gone(file)).map(|(key, _)| key.clone()).collect()
    }

    pub(super) fn leave(&mut self, key: &FileKey) {
        if let Some(file) = self.all.get_mut(key) {
            file.is_left = true;
        }
    }

    pub(super) fn end_of_segment(&mut self, key: &FileKey) {
        if let Some(file) = self.all.get_mut(key) {
            file.unread = file.unread.saturating_sub(1);
        }
    }

    /// Marks a segment as unseen: another segment has taken its place, which the next search must find.
    pub(super) fn find_again(&mut self, key: &FileKey, index: usize) {
        if let Some(file) = self.all.get_mut(key) {
            file.seen &= !(1 << index);
        }
    }

    /// Calls `action` with the file, opening it if it is not held open.
    pub(super) fn with<T>(&self, key: &FileKey, action: impl FnOnce(&File) -> io::Result<T>) -> io::Result<T> {
        let answer = self.with_open(key, action);
        if let Err(error) = &answer
            && error.kind() != io::ErrorKind::NotFound
            && let Some(number) = error.raw_os_error()
        {
            let failure = || (key.1.to_path_buf(), io::Error::from_raw_os_error(number));
            self.failure.borrow_mut().get_or_insert_with(failure);
        }
        answer
    }

    /// Takes the first failure of the system since the last call: what was read says nothing of that file's content.
    pub(super) fn take_failure(&self) -> Option<(PathBuf, io::Error)> {
        self.failure.take()
    }

    fn with_open<T>(&self, key: &FileKey, action: impl FnOnce(&File) -> io::Result<T>) -> io::Result<T> {
        if let Some(file) = self.all.get(key).and_then(|file| file.file.as_ref()) {
            return action(file);
        }
        let last = self.last.take().filter(|(of, _)| of == key);
        let file = last.map_or_else(|| open(&key.1), |(_, file)| Ok(file))?;
        let answer = action(&file);
        if self.most_open == 0 {
            self.last.replace(Some((key.clone(), file)));
        }
        answer
    }

    /// Reads into `buffer` until it is full or the file ends.
    pub(super) fn read_at(&self, key: &FileKey, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        self.with(key, |file| {
            let mut done = 0;
            while let Some(rest) = buffer.get_mut(done..).filter(|rest| !rest.is_empty()) {
                match file.read_at(rest, offset + done as u64) {
                    Ok(0) => break,
                    Ok(read) => done += read,
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                    Err(error) => return Err(error),
                }
            }
            Ok(done)
        })
    }
}

fn key(path: &Path) -> FileKey {
    let name = path.file_name().map(|name| name.to_string_lossy());
    let number = name.and_then(|name| name.rsplit('.').next()?.parse().ok());
    (number.unwrap_or(u32::MAX), Arc::from(path))
}

/// Opens a file. Bytes behind its last segment are reported but not read.
fn open(path: &Path) -> io::Result<File> {
    regular_files::open(path, u64::MAX)
}
