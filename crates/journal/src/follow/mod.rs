//! Follows the journal of one process while it records: every poll returns what was committed since the previous poll.
//! A follower never writes, locks or maps the journal's files, and the process does not notice it. It trusts committed
//! bytes only and checks every record: a bad one ends the reading of its segment, whose rest is reported, not guessed
//! at. Records of one slot arrive in order, those of different slots in any order. Files that are removed meanwhile are
//! still read to their end if they were held open ([`MOST_OPEN_FILES`]); data removed before it was read is counted
//! ([`Discarded`]).

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::atomic::{Ordering, fence};

use crate::clock::TickSource;
use crate::follow::slot::{FileKey, Files, Poll, Slot};
use crate::format::{RECORD_MAX_WORDS, Records, SEGMENT_BYTES, SEGMENTS_PER_FILE, header};
use crate::part::owner::Owner;
use crate::part::{JOURNAL, has_begun};
use crate::segments;
use crate::segments::{
    Error, HEADER_BYTES, Head, Losses, Problem, Recorder, Removed, SegmentPlace, Symbols, head_words, slotless_losses,
};
use nccl_events::sort::Gather;
use regular_files::refusing_directory;

mod slot;

pub use crate::follow::slot::{Discarded, MOST_OPEN_FILES, PollResult};

/// Bytes that a follower reads at once. Slots take turns, so that no slot is read far ahead of the others.
const CHUNK_BYTES: usize = 64 << 10;

/// Follows the journal of one process.
#[derive(Debug)]
pub struct Follower {
    directory: PathBuf,
    files: Files,
    slots: BTreeMap<u16, Slot>,
    symbols: Symbols,
    recorder: Option<Recorder>,
    /// Whom the journal must belong to; `None` if no part says it.
    owner: Option<Owner>,
    /// Losses of threads without a slot, and the segment whose header counts them.
    slotless: Losses,
    slotless_at: Option<(FileKey, u64)>,
    /// Whether the slots that the process had used were looked for.
    knows_slots: bool,
    discarded: Discarded,
    damaged_bytes: u64,
    buffer: Vec<u8>,
}

/// A problem with a whole file, or at one segment's place in it.
struct FileProblem {
    index: Option<usize>,
    problem: Problem,
    format: Option<u32>,
    /// The process that wrote the segment, if that is another one.
    other: Option<Recorder>,
}

/// Names the directory that refuses: the journal may be a link to one that the user may not enter.
fn not_listed(journal: &Path) -> impl FnOnce(io::Error) -> Error {
    let journal = journal.to_owned();
    move |source| Error::Io { path: refusing_directory(&journal, &source), source }
}

impl Follower {
    /// Follows the journal in this directory (`parts/<part>/journal`), which may still be empty. Reads no records.
    pub fn open(journal: &Path) -> Result<Self, Error> {
        Self::with(journal, MOST_OPEN_FILES, CHUNK_BYTES)
    }

    /// A follower with its own limits: files held open (0: one at a time), and bytes read at once.
    pub(crate) fn with(journal: &Path, most_open: usize, chunk_bytes: usize) -> Result<Self, Error> {
        let mut files = Files::new(most_open);
        let is_there = files.list(journal).map_err(not_listed(journal))?;
        if !is_there {
            return Err(Error::Io { path: journal.to_owned(), source: ErrorKind::NotFound.into() });
        }
        let owner = Owner::read_for_journal(journal);
        // What a link leads to is read only if it is proved to be of the part.
        if owner.is_none() && journal.ends_with(JOURNAL) && journal.is_symlink() {
            return Err(Error::Unowned { path: journal.to_owned(), target: target(journal) });
        }
        Ok(Self {
            directory: journal.to_owned(),
            files,
            slots: BTreeMap::new(),
            symbols: Symbols::default(),
            recorder: None,
            owner,
            slotless: Losses::default(),
            slotless_at: None,
            knows_slots: false,
            discarded: Discarded::default(),
            damaged_bytes: 0,
            buffer: vec![0; chunk_bytes + 8 * RECORD_MAX_WORDS],
        })
    }

    /// Passes to `sink` the records that were committed since the last poll, oldest first, at most about `most_bytes`
    /// of them; slot by slot if `most_bytes` is [`u64::MAX`].
    /// After an error the next poll resumes where this poll began.
    pub fn poll(&mut self, sink: &mut impl Records, most_bytes: u64) -> Result<PollResult, Error> {
        let mut polled = self.find()?;
        self.read_found(sink, most_bytes, &mut polled);
        Ok(polled)
    }

    /// Finds committed bytes without reading records.
    pub(crate) fn find(&mut self) -> Result<PollResult, Error> {
        let mut polled =
            PollResult { discarded: self.discarded, damaged_bytes: self.damaged_bytes, ..PollResult::default() };
        polled.is_removed = !self.list()?;
        let mut problems = self.find_segments();
        if !problems.is_empty() || self.slots.values().any(Slot::has_gap) {
            // The process may have been moving from one segment to the next: only a problem that persists is real.
            self.slots.values_mut().for_each(Slot::confirm);
            polled.is_removed = !self.list()?;
            problems = self.find_segments();
            self.report(problems, &mut polled)?;
        }
        let gone = self.files.gone();
        for slot in self.slots.values_mut() {
            slot.refresh(&gone, &mut self.files, &mut polled);
        }
        // Records that the headers count as committed must be visible to the reads that follow.
        fence(Ordering::Acquire);
        let slots_used = self.read_slotless();
        if !self.knows_slots && !polled.is_removed {
            let used = slots_used.max(self.directory.parent().is_some_and(has_begun).into());
            self.knows_slots = used > 0 || !self.slots.is_empty();
            polled.report(segments::missing_slots(&self.directory, self.slots.keys().copied(), used));
        }
        Ok(polled)
    }

    pub(crate) fn read_found(&mut self, sink: &mut impl Records, most_bytes: u64, polled: &mut PollResult) {
        self.read(most_bytes, sink, polled);
        self.files.hold();
        self.files.forget();
        for slot in self.slots.values() {
            polled.behind_bytes += slot.unread_bytes();
            polled.losses.add(&slot.losses);
            let oldest = slot.oldest_unread_ticks(&self.files);
            polled.oldest_unread_ticks = polled.oldest_unread_ticks.into_iter().chain(oldest).min();
        }
        polled.losses.add(&self.slotless);
        (self.discarded, self.damaged_bytes) = (polled.discarded, polled.damaged_bytes);
    }

    /// An error if the system did not open or read a file that is there, since the last call.
    pub(crate) fn check_reads(&self) -> Result<(), Error> {
        self.files.take_failure().map_or(Ok(()), |(path, source)| Err(Error::Unreadable { path, source }))
    }

    /// Stops following. Returns the strings, and a problem for every segment with bytes that could not be read.
    pub(crate) fn end(self) -> (Symbols, Vec<Problem>) {
        (self.symbols, self.slots.values().flat_map(Slot::unread).collect())
    }

    /// The segments of each slot that were found and are not fully read, in order.
    pub(crate) fn segments(&self) -> BTreeMap<u16, Vec<SegmentPlace>> {
        self.slots.iter().map(|(number, slot)| (*number, slot.places().cloned().collect())).gather()
    }

    /// Number of events that got an id: the highest numbers of all slots, plus the losses of threads without a slot.
    pub(crate) fn started(&self) -> u64 {
        self.slots.values().map(|slot| slot.started).sum::<u64>() + self.slotless.starts.iter().sum::<u64>()
    }

    /// The strings of all records read so far.
    pub const fn symbols(&self) -> &Symbols {
        &self.symbols
    }

    /// What a flight recording had removed before the oldest record that was read.
    pub fn removed(&self) -> Removed {
        let mut removed = Removed::default();
        for (number, slot) in &self.slots {
            if let Some(oldest) = slot.oldest {
                removed.add(*number, oldest);
            }
        }
        removed
    }

    /// The process tag in every id of this process; 0 until a segment was found.
    pub fn process_tag(&self) -> u16 {
        self.recorder.map_or(0, |recorder| recorder.tag)
    }

    /// Process id; 0 until a segment was found.
    pub fn process_id(&self) -> u32 {
        self.recorder.map_or(0, |recorder| recorder.id)
    }

    /// The tick source of the process.
    pub fn tick_source(&self) -> TickSource {
        self.recorder.map_or(TickSource::Monotonic, |recorder| recorder.tick_source)
    }

    /// When the session began, CLOCK_REALTIME ns; 0 until a segment was found.
    pub fn session_start_realtime_ns(&self) -> u64 {
        self.recorder.map_or(0, |recorder| recorder.session_start_realtime_ns)
    }

    /// Lists the directory and opens new files. Returns false if the directory is gone.
    fn list(&mut self) -> Result<bool, Error> {
        let is_there = self.files.list(&self.directory).map_err(not_listed(&self.directory))?;
        self.files.hold();
        Ok(is_there)
    }

    /// Finds segments that came into use, and problems where a segment should be.
    fn find_segments(&mut self) -> Vec<(FileKey, FileProblem)> {
        let mut problems = Vec::new();
        let open = self.files.all.iter().filter(|(_, file)| file.is_open());
        for key in open.map(|(key, _)| key.clone()).collect::<Vec<_>>() {
            let length = match self.files.with(&key, |file| Ok(file.metadata()?.len())) {
                Ok(length) => length,
                Err(error) if error.kind() == ErrorKind::NotFound => continue,
                Err(error) => {
                    let reason = format!("cannot be opened: {error}");
                    problems.push((key.clone(), FileProblem::new(&key, 0, reason)));
                    continue;
                }
            };
            self.find_segments_in(&key, length, &mut problems);
        }
        let files = &self.files.all;
        problems
            .retain(|(key, problem)| problem.index.is_some() || files.get(key).is_some_and(|file| !file.is_reported));
        problems
    }

    fn find_segments_in(&mut self, key: &FileKey, length: u64, problems: &mut Vec<(FileKey, FileProblem)>) {
        let mut offset = 0;
        for index in 0..SEGMENTS_PER_FILE {
            if offset + HEADER_BYTES as u64 > length {
                break;
            }
            if self.files.all.get(key).is_some_and(|file| !file.has_seen(index)) {
                problems.extend(self.find_segment(key, index, offset).map(|problem| (key.clone(), problem)));
            }
            offset += SEGMENT_BYTES as u64;
        }
        // An empty file was never allocated.
        if offset < length {
            let reason = if offset + HEADER_BYTES as u64 > length {
                format!("the file ends in a segment's header, after {length} bytes")
            } else {
                format!("the file has more than {SEGMENTS_PER_FILE} segments")
            };
            problems.push((key.clone(), FileProblem::new(key, offset, reason)));
        }
    }

    fn find_segment(&mut self, key: &FileKey, index: usize, offset: u64) -> Option<FileProblem> {
        let mut bytes = [0; HEADER_BYTES];
        let at_place = |reason: String, format: Option<u32>| {
            let problem = Problem { path: key.1.to_path_buf(), offset, reason, lost_bytes: 0 };
            Some(FileProblem { index: Some(index), problem, format, other: None })
        };
        match self.files.read_at(key, &mut bytes, offset) {
            Ok(HEADER_BYTES) => {}
            Ok(_) => return at_place("cannot be read: it ends in a segment's header".to_owned(), None),
            Err(error) => return at_place(format!("cannot be read: {error}"), None),
        }
        let words = head_words(&bytes);
        let head = match Head::parse(&words) {
            Head::Unused => return None,
            Head::Damaged => return at_place("no valid segment header here".to_owned(), None),
            Head::OtherFormat(found) => {
                return at_place(format!("a segment of format {found} among others, which can be read"), Some(found));
            }
            Head::Used(head) => head,
        };
        if self.owner.is_some_and(|owner| !owner.is(head.process)) {
            let at_place = at_place("a segment of another process".to_owned(), None);
            return at_place.map(|problem| FileProblem { other: Some(head.process), ..problem });
        }
        let is_of_slot = key.1.file_stem().is_some_and(|name| *name == *head.slot.to_string());
        if !is_of_slot || self.recorder.is_some_and(|recorder| recorder != head.process) {
            return at_place("a segment of another process or slot".to_owned(), None);
        }
        let slot = self.slots.entry(head.slot).or_insert_with(|| Slot::new(head.slot));
        if !slot.add(key, offset, &head, &words) {
            return at_place(format!("segment {} of slot {} again, or too late", head.order, head.slot), None);
        }
        if let Some(file) = self.files.all.get_mut(key) {
            file.mark_seen(index);
            file.unread += 1;
        }
        self.recorder = Some(head.process);
        if (head.slot, head.order) == (0, 0) && self.slotless_at.is_none() {
            self.slotless_at = Some((key.clone(), offset));
        }
        None
    }

    fn report(&mut self, problems: Vec<(FileKey, FileProblem)>, polled: &mut PollResult) -> Result<(), Error> {
        // A process writes a single format: another version number among readable segments is damage.
        if self.slots.is_empty()
            && let Some((key, found)) = problems.iter().find_map(|(key, problem)| Some((key, problem.format?)))
        {
            return Err(Error::OtherFormat { path: key.1.to_path_buf(), found });
        }
        if self.slots.is_empty()
            && let Some(other) = problems.iter().find_map(|(_, problem)| problem.other)
        {
            let path = self.directory.clone();
            let (target, Recorder { id, session_start_realtime_ns: start_ns, .. }) = (target(&path), other);
            return Err(Error::OtherProcess { path, target, id, start_ns });
        }
        for (key, problem) in problems {
            if let Some(file) = self.files.all.get_mut(&key) {
                match problem.index {
                    Some(index) => file.mark_seen(index),
                    None => file.is_reported = true,
                }
                polled.report([problem.problem]);
            }
        }
        Ok(())
    }

    /// Reads the losses of threads without a slot from the process's first header. Returns its number of used slots.
    fn read_slotless(&mut self) -> u64 {
        let Some((key, offset)) = &self.slotless_at else {
            return 0;
        };
        let mut bytes = [0; HEADER_BYTES];
        if let Ok(HEADER_BYTES) = self.files.read_at(key, &mut bytes, *offset) {
            self.slotless = slotless_losses(&head_words(&bytes));
        }
        head_words(&bytes).get(header::SLOTS).copied().unwrap_or(0)
    }

    /// Reads from the slot whose next record is the oldest, until nothing is left or about `most_bytes` were read, so
    /// that no slot is read far ahead of the others.
    fn read(&mut self, most_bytes: u64, sink: &mut impl Records, polled: &mut PollResult) {
        let share = if most_bytes == u64::MAX { u64::MAX } else { CHUNK_BYTES as u64 };
        let oldest = |slot: &Slot, files: &Files| match share {
            u64::MAX => 0,
            _ => slot.oldest_unread_ticks(files).unwrap_or(0),
        };
        let behind = self.slots.iter().filter(|(_, slot)| slot.has_work());
        let mut behind: BTreeSet<(u64, u16)> =
            behind.map(|(number, slot)| (oldest(slot, &self.files), *number)).gather();
        let mut left = most_bytes;
        while left > 0
            && let Some((_, number)) = behind.pop_first()
        {
            let Some(slot) = self.slots.get_mut(&number) else {
                continue;
            };
            let (files, buffer, symbols) = (&mut self.files, &mut self.buffer, &mut self.symbols);
            let mut poll = Poll { files, buffer, symbols, sink: &mut *sink, polled: &mut *polled };
            let read = slot.read(share.min(left), &mut poll);
            left = left.saturating_sub(read);
            if read > 0 && slot.has_work() {
                behind.insert((oldest(slot, &self.files), number));
            }
        }
    }
}

/// Where a journal lies, if it is a link.
fn target(journal: &Path) -> String {
    std::fs::read_link(journal).map_or_else(|_| String::new(), |target| format!(" (a link to {})", target.display()))
}

impl FileProblem {
    fn new(key: &FileKey, offset: u64, reason: String) -> Self {
        let problem = Problem { path: key.1.to_path_buf(), offset, reason, lost_bytes: 0 };
        Self { index: None, problem, format: None, other: None }
    }
}
