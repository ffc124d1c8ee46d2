//! The files of a journal that is followed: which there are, and which are held open.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::sync::Arc;

use crate::format::layout::SEGMENTS_PER_FILE;

/// Files that a follower holds open at most. What the process removes of them can be read to its end. Others are opened
/// when they are read: what is removed by then is gone, and counted.
pub const MOST_OPEN_FILES: usize = 64;

/// A file by its number in its slot, so that the older files of all slots come first, and by its path.
pub(super) type FileKey = (u32, Arc<Path>);

#[derive(Debug)]
pub(super) struct JournalFile {
    file: Option<File>,
    /// Whether it was in the directory when that was last read.
    pub(super) is_listed: bool,
    /// One bit for each place of a segment: whether a segment was found there, or a problem reported.
    pub(super) seen: u64,
    /// Segments that are not read to their end.
    pub(super) unread: usize,
    /// Whether its slot has gone on to another file, and does not come back.
    is_left: bool,
    /// Whether a problem of the file as a whole was reported.
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

    pub(super) fn see(&mut self, index: usize) {
        self.seen |= 1 << index;
    }

    /// Whether a segment may have come into use in it.
    pub(super) fn is_open(&self) -> bool {
        (self.is_listed || self.file.is_some()) && !self.is_left
    }

    /// Whether all that it ever has is read.
    fn is_done(&self) -> bool {
        self.is_left && self.unread == 0
    }
}

#[derive(Debug)]
pub(super) struct Files {
    pub(super) all: BTreeMap<FileKey, JournalFile>,
    open: usize,
    most_open: usize,
    /// Where none may be held open: the file that was read last.
    last: RefCell<Option<(FileKey, File)>>,
}

impl Files {
    pub(super) const fn new(most_open: usize) -> Self {
        Self { all: BTreeMap::new(), open: 0, most_open, last: RefCell::new(None) }
    }

    /// Reads the directory. False when it is gone.
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
            // A directory that changes while it is read may leave an entry out.
            file.is_listed = file.is_listed || path.symlink_metadata().is_ok();
        }
        Ok(is_there)
    }

    /// Opens what may be held open, the oldest first, and lets go of what is read.
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

    /// Forgets files that are gone and of which nothing is left to read.
    pub(super) fn forget(&mut self) {
        let open = &mut self.open;
        self.all.retain(|_, file| {
            let is_kept = file.is_listed || file.unread > 0;
            *open -= usize::from(!is_kept && file.file.is_some());
            is_kept
        });
    }

    /// Whether nothing more will come into a file, since it is removed.
    pub(super) fn is_removed(&self, key: &FileKey) -> bool {
        self.all.get(key).is_none_or(|file| !file.is_listed)
    }

    /// Files with something to read that were removed and not held open.
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

    /// The segment at an offset is another one than was found there: it is to be found again.
    pub(super) fn find_again(&mut self, key: &FileKey, index: usize) {
        if let Some(file) = self.all.get_mut(key) {
            file.seen &= !(1 << index);
        }
    }

    /// Does something with a file that is held open, or is opened for it.
    pub(super) fn with<T>(&self, key: &FileKey, ask: impl FnOnce(&File) -> io::Result<T>) -> io::Result<T> {
        if let Some(file) = self.all.get(key).and_then(|file| file.file.as_ref()) {
            return ask(file);
        }
        let last = self.last.take().filter(|(of, _)| of == key);
        let file = last.map_or_else(|| open(&key.1), |(_, file)| Ok(file))?;
        let answer = ask(&file);
        if self.most_open == 0 {
            self.last.replace(Some((key.clone(), file)));
        }
        answer
    }

    /// Reads as much of a buffer as the file has.
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

/// Opens a file. What it has behind its last segment is reported, and not read.
fn open(path: &Path) -> io::Result<File> {
    regular_files::open(path, u64::MAX)
}
