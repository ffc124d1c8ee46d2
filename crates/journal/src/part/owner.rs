//! Whether a journal belongs to a part: by process, session and tag, never by where it lies.

use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::{fs, io};

use crate::format::SEGMENT_BYTES;
use crate::host::life_here;
use crate::part::{JOURNAL, part_name, read_process};
use crate::segments::{HEADER_BYTES, Head, Recorder, head_words};

/// The process and session that a part is of. 0 for what is unknown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Owner {
    tag: u16,
    process_id: u32,
    session_start_realtime_ns: u64,
}

impl Owner {
    /// Whom a part belongs to: by `process.json`, else by the part's name. `None` if neither says it.
    pub fn read(part: &Path) -> Option<Self> {
        let process = read_process(part).0;
        let name = part_name(part);
        let mut numbers = name.rsplit('-');
        let started = numbers.next().and_then(|text| text.parse().ok()).unwrap_or(0);
        let id = numbers.next().and_then(|text| text.parse().ok()).unwrap_or(0);
        let known = |number: u64, otherwise: u64| if number == 0 { otherwise } else { number };
        let owner = Self {
            tag: process.tag,
            process_id: if process.pid == 0 { id } else { process.pid },
            session_start_realtime_ns: known(process.session_start_realtime_ns, started),
        };
        (owner.process_id != 0 && owner.session_start_realtime_ns != 0).then_some(owner)
    }

    /// Whom the journal in this directory must belong to; `None` if the directory is not of a part.
    pub(crate) fn read_for_journal(journal: &Path) -> Option<Self> {
        journal.parent().filter(|_| journal.ends_with(JOURNAL)).and_then(Self::read)
    }

    /// Whether a process of this host has the id.
    pub fn may_run(&self) -> bool {
        self.process_id != std::process::id() && life_here(self.process_id, None).is_there()
    }

    pub(crate) fn is(&self, recorder: Recorder) -> bool {
        // Parts of earlier versions do not say the tag.
        (self.tag == 0 || self.tag == recorder.tag)
            && self.process_id == recorder.id
            && self.session_start_realtime_ns == recorder.session_start_realtime_ns
    }

    /// Whether a file has segments of this process, and of no other.
    fn has_recorded(&self, file: &File) -> io::Result<Content> {
        let (mut offset, length) = (0, file.metadata()?.len());
        let mut content = Content::Unused;
        while offset + HEADER_BYTES as u64 <= length {
            let mut bytes = [0; HEADER_BYTES];
            file.read_exact_at(&mut bytes, offset)?;
            match Head::parse(&head_words(&bytes)) {
                Head::Unused => {}
                Head::Used(head) if self.is(head.process) => content = Content::Ours,
                _ => return Ok(Content::Other),
            }
            offset += SEGMENT_BYTES as u64;
        }
        Ok(content)
    }

    /// The files of a journal that are proved to be of this process, and the segments prepared beside these.
    pub fn files(&self, journal: &Path) -> io::Result<Vec<PathBuf>> {
        let (mut ours, mut unused) = (Vec::new(), Vec::new());
        for entry in fs::read_dir(journal)? {
            let path = entry?.path();
            if !is_segment_file(&path) {
                continue;
            }
            let Ok(file) = regular_files::open(&path, u64::MAX) else { continue };
            match self.has_recorded(&file)? {
                Content::Ours => ours.push(path),
                Content::Unused => unused.push(path),
                Content::Other => {}
            }
        }
        if !ours.is_empty() {
            ours.append(&mut unused);
        }
        Ok(ours)
    }
}

#[derive(Clone, Copy)]
enum Content {
    Ours,
    Unused,
    /// Another process's segments, or none that can be read.
    Other,
}

/// Whether a file is named like the recorder's: `<slot>.<number>`.
fn is_segment_file(path: &Path) -> bool {
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let name = path.file_name().and_then(|name| name.to_str());
    name.and_then(|name| name.split_once('.')).is_some_and(|(slot, number)| is_number(slot) && is_number(number))
}
