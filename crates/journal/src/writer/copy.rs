//! Copies a journal while it is being written: for each segment, what is committed when its turn comes.
//!
//! A used-up file never changes again: a hard link costs nothing and survives the removal of the original. Files in
//! use are copied segment by segment.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use super::journal_writer::JournalWriter;
use crate::format::layout::{HEADER_WORDS, MAGIC, SEGMENT_BYTES, header};

const HEADER_BYTES: usize = 8 * HEADER_WORDS;

impl JournalWriter {
    /// Copies the journal into an existing directory. The maintenance thread does its other work between segments.
    pub fn copy_to(&self, into: &Path) -> io::Result<()> {
        let current: BTreeMap<u16, u32> = self
            .slots()
            .iter()
            .filter_map(|slot| {
                let number = slot.current.lock().as_ref()?.number();
                Some((slot.number, number))
            })
            .collect();
        let mut in_use: Vec<(PathBuf, PathBuf)> = Vec::new();
        for entry in std::fs::read_dir(&self.space.options.directory)? {
            let path = entry?.path();
            let Some(name) = path.file_name().and_then(|name| name.to_str()) else {
                continue;
            };
            let Some((slot, number)) = name.split_once('.') else {
                continue;
            };
            let (Ok(slot), Ok(number)) = (slot.parse::<u16>(), number.parse::<u32>()) else {
                continue;
            };
            let is_used_up = current.get(&slot).is_some_and(|current| number < *current);
            let copy = into.join(name);
            // Across file systems, or without hard links, copy this file as well.
            if !is_used_up || std::fs::hard_link(&path, &copy).is_err() {
                in_use.push((path, copy));
            }
        }
        for (from, to) in in_use {
            self.copy_file(&from, &to)?;
        }
        Ok(())
    }

    fn copy_file(&self, from: &Path, to: &Path) -> io::Result<()> {
        let from = match File::open(from) {
            Ok(file) => file,
            // The continuing recording has removed the file in the meantime.
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(error),
        };
        let mut options = File::options();
        let to = options.write(true).create_new(true).mode(0o600).open(to)?;
        let length = from.metadata()?.len();
        let mut segment = Vec::new();
        // Without memory only the copy fails; the job continues.
        segment.try_reserve_exact(SEGMENT_BYTES).map_err(|_| io::ErrorKind::OutOfMemory)?;
        segment.resize(SEGMENT_BYTES, 0);
        let mut at = 0;
        while at + HEADER_BYTES as u64 <= length {
            let Some(head) = segment.get_mut(..HEADER_BYTES) else {
                break;
            };
            // The header first: the bytes that it counts as committed are then complete when the rest is read.
            from.read_exact_at(head, at)?;
            let word = |index: usize| {
                let bytes = head.as_chunks::<8>().0.get(index);
                bytes.map_or(0, |bytes| u64::from_le_bytes(*bytes))
            };
            if word(header::MAGIC) == MAGIC {
                let committed = usize::try_from(word(header::COMMITTED)).unwrap_or(0);
                let committed = committed.clamp(HEADER_BYTES, SEGMENT_BYTES);
                if let Some(records) = segment.get_mut(HEADER_BYTES..committed) {
                    from.read_exact_at(records, at + HEADER_BYTES as u64)?;
                }
                to.write_all_at(segment.get(..committed).unwrap_or(&[]), at)?;
                let _lasts = self.keep();
            }
            at += SEGMENT_BYTES as u64;
        }
        Ok(())
    }
}
