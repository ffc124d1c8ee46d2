//! The parts of a follower: a followed slot with its segments in order and how far each is read, the journal's files
//! and which of them are held open, and what a poll returns besides records.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io;
use std::io::ErrorKind;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{Ordering, fence};

use crate::format::{
    HEADER_WORDS, MAGIC, RECORD_MAX_WORDS, Records, SEGMENT_BYTES, SEGMENT_WORDS, SEGMENTS_PER_FILE, high, mark,
    word_at,
};
use crate::segments;
use crate::segments::{
    BEHIND_WORDS, CountingSink, HEADER_BYTES, Head, HeadWords, Losses, Names, OldestSegment, Problem, SegmentHead,
    SegmentPlace, SlotStrings, Stretch, Symbols, committed_now, head_words, losses, problem_at_end, read_records,
};

/// Sorts segments in reading order.
type SegmentKey = (u64, FileKey, u64);

#[derive(Debug)]
pub(super) struct Slot {
    number: u16,
    /// Segments that were found and are not read to their end. The last one may still grow.
    segments: BTreeMap<SegmentKey, FollowedSegment>,
    /// The order of the next segment to read.
    due: u64,
    /// The newest segment known before the last search: a segment missing before this one is really missing.
    confirmed: Option<u64>,
    pub(super) losses: Losses,
    /// The segment whose header holds `losses`.
    newest: Option<u64>,
    /// The highest number of an event in the slot.
    pub(super) started: u64,
    /// The oldest segment that was read; flight recordings only.
    pub(super) oldest: Option<OldestSegment>,
    records: SlotRecords,
}

/// State that decoding a slot's records needs.
#[derive(Debug)]
struct SlotRecords {
    names: Names,
    /// Starts that were read or discarded; flight recordings only.
    starts: u64,
    /// Whether anything was discarded since the last segment was begun.
    has_discarded: bool,
}

impl SlotRecords {
    fn begin(&mut self, earlier: Option<OldestSegment>, total: &mut Discarded) {
        let Some(earlier) = earlier else {
            return;
        };
        self.names = Names::new();
        let before = earlier.started_before.saturating_sub(earlier.lost_before);
        if std::mem::take(&mut self.has_discarded) {
            total.starts = total.starts.saturating_add(before.saturating_sub(self.starts));
        }
        self.starts = self.starts.max(before);
    }

    /// Counts the unread rest of a segment as discarded.
    fn discard(&mut self, segment: &mut FollowedSegment, total: &mut Discarded) {
        if !segment.is_over {
            total.segments = total.segments.saturating_add(1);
            total.bytes = total.bytes.saturating_add(segment.unread_bytes());
            self.has_discarded = true;
        }
        segment.is_over = true;
        segment.is_final = true;
    }

    /// Another segment, or nothing, is now where this one was.
    fn replaced(
        &mut self,
        segment: &mut FollowedSegment,
        (_, file, offset): &SegmentKey,
        files: &mut Files,
        total: &mut Discarded,
    ) {
        self.discard(segment, total);
        files.find_again(file, usize::try_from(offset / SEGMENT_BYTES as u64).unwrap_or(0));
    }
}

/// A segment, and how far it is read.
#[derive(Debug)]
struct FollowedSegment {
    place: SegmentPlace,
    /// The next record's offset in words.
    at: usize,
    has_begun: bool,
    /// Whether nothing more will be committed.
    is_final: bool,
    /// Whether nothing more can be read from it.
    is_over: bool,
    /// The committed bytes at which the end was last checked.
    checked: Option<u64>,
}

impl FollowedSegment {
    fn committed_words(&self) -> usize {
        usize::try_from(self.place.committed / 8).unwrap_or(SEGMENT_WORDS)
    }

    fn unread_bytes(&self) -> u64 {
        if self.is_over { 0 } else { 8 * self.committed_words().saturating_sub(self.at) as u64 }
    }

    fn has_work(&self) -> bool {
        !self.is_over && (self.unread_bytes() > 0 || self.checked != Some(self.place.committed))
    }
}

/// What polling a slot needs besides the slot.
pub(super) struct Poll<'a, S> {
    pub(super) files: &'a mut Files,
    /// Holds a chunk and the rest of a record that begins in the chunk.
    pub(super) buffer: &'a mut [u8],
    pub(super) symbols: &'a mut Symbols,
    pub(super) sink: &'a mut S,
    pub(super) polled: &'a mut PollResult,
}

impl Slot {
    pub(super) fn new(number: u16) -> Self {
        Self {
            number,
            segments: BTreeMap::new(),
            due: 0,
            confirmed: None,
            losses: Losses::default(),
            newest: None,
            started: 0,
            oldest: None,
            records: SlotRecords { names: Names::new(), starts: 0, has_discarded: false },
        }
    }

    /// Adds a segment that was found. Returns false if a segment of this order is known or already read.
    pub(super) fn add(&mut self, file: &FileKey, offset: u64, head: &SegmentHead, words: &HeadWords) -> bool {
        let key = (head.order, file.clone(), offset);
        if head.order < self.due || self.segments.contains_key(&key) {
            return false;
        }
        // Counters accumulate from segment to segment: a slot's newest segment has the totals.
        if self.newest.is_none_or(|newest| newest < head.order) {
            self.newest = Some(head.order);
            self.losses = losses(words);
        }
        let before = head.earlier.map_or(0, |earlier| earlier.started_before);
        self.started = self.started.max(head.started_at_loss).max(before);
        let place = SegmentPlace::new(&file.1, offset, head);
        let segment = FollowedSegment {
            place,
            at: HEADER_WORDS,
            has_begun: false,
            is_final: false,
            is_over: false,
            checked: None,
        };
        self.segments.insert(key, segment);
        true
    }

    /// Whether a segment is missing among or before those that were found.
    pub(super) fn has_gap(&self) -> bool {
        let mut due = self.due;
        self.segments.keys().any(|(order, ..)| {
            let is_gap = *order > due;
            due = order.saturating_add(1).max(due);
            is_gap
        })
    }

    /// Called before the files are searched again: any segment before the newest that is then not found is missing.
    pub(super) fn confirm(&mut self) {
        self.confirmed = self.segments.keys().next_back().map(|(order, ..)| *order);
    }

    pub(super) fn places(&self) -> impl Iterator<Item = &SegmentPlace> {
        self.segments.values().map(|segment| &segment.place)
    }

    /// A problem for every segment with unread bytes.
    pub(super) fn unread(&self) -> impl Iterator<Item = Problem> {
        let unread = self.segments.values().filter(|segment| segment.unread_bytes() > 0);
        unread.map(|segment| segment.place.problem(segment.at, "cannot be opened".to_owned(), segment.unread_bytes()))
    }

    pub(super) fn unread_bytes(&self) -> u64 {
        self.segments.values().map(FollowedSegment::unread_bytes).sum()
    }

    /// Whether anything is left to read, or a segment can be closed.
    pub(super) fn has_work(&self) -> bool {
        self.segments.values().any(|segment| segment.is_final || segment.has_work())
    }

    /// Ticks of the first unread record.
    pub(super) fn oldest_unread_ticks(&self, files: &Files) -> Option<u64> {
        let unread = |(_, segment): &(&SegmentKey, &FollowedSegment)| segment.unread_bytes() > 0;
        let ((_, file, offset), segment) = self.segments.iter().find(unread)?;
        let mut bytes = [0; 16];
        let read = files.read_at(file, &mut bytes, offset + 8 * segment.at as u64).ok()?;
        let (words, _) = bytes.get(..read)?.as_chunks::<8>();
        let is_record = high(word_at(words, 0)?) == mark(segment.place.order, segment.at);
        word_at(words, 1).filter(|_| is_record)
    }

    /// Rereads the committed length of segments that may have grown. Discards segments in files that are gone.
    pub(super) fn refresh(&mut self, gone: &BTreeSet<FileKey>, files: &mut Files, polled: &mut PollResult) {
        let mut behind: Option<(u64, FileKey)> = None;
        for (key, segment) in self.segments.iter_mut().rev() {
            let (order, file, offset) = key;
            let next = behind.replace((*order, file.clone()));
            if gone.contains(file) {
                self.records.discard(segment, &mut polled.discarded);
            }
            if segment.is_final {
                continue;
            }
            let is_next =
                |(next, _): &&(u64, FileKey)| *next <= order.saturating_add(1) || Some(*next) <= self.confirmed;
            let next_file = next.as_ref().filter(is_next).map(|(_, file)| file);
            // Checked before the header is read, so that the header is final if this is true.
            segment.is_final = next_file.is_some() || files.is_removed(file);
            if next_file.is_some_and(|next| next != file) {
                files.leave(file);
            }
            let mut bytes = [0; HEADER_BYTES];
            let Ok(HEADER_BYTES) = files.read_at(file, &mut bytes, *offset) else {
                // A segment that cannot be read is reported when its records are read.
                continue;
            };
            let words = head_words(&bytes);
            match Head::parse(&words) {
                Head::Used(head) if (head.slot, head.order) == (self.number, *order) => {
                    let more = head.committed.saturating_sub(segment.place.committed);
                    segment.place.committed += more;
                    let damaged = if segment.is_over { more } else { 0 };
                    polled.damaged_bytes = polled.damaged_bytes.saturating_add(damaged);
                    if self.newest == Some(*order) {
                        self.losses = losses(&words);
                    }
                }
                _ => self.records.replaced(segment, key, files, &mut polled.discarded),
            }
        }
    }

    /// Reads until no records are left or about `limit` bytes were read. Returns the number of bytes.
    pub(super) fn read<S: Records>(&mut self, limit: u64, poll: &mut Poll<'_, S>) -> u64 {
        let mut done = 0;
        while let Some(entry) = self.segments.first_entry() {
            let (order, due) = (entry.key().0, self.due);
            if order > due {
                if Some(order) > self.confirmed {
                    break;
                }
                self.due = order;
                self.gap((due, order - 1), poll.polled);
            } else if entry.get().has_work() {
                let Some(read) = (done < limit).then(|| self.read_on(limit - done, poll)).flatten() else {
                    break;
                };
                done += read;
            } else if entry.get().is_final {
                poll.files.end_of_segment(&entry.key().1);
                entry.remove();
                self.due = due.max(order.saturating_add(1));
            } else {
                break;
            }
        }
        done
    }

    /// Accounts for segments missing before the first one: removed by a flight recording, otherwise lost.
    fn gap(&mut self, (from, to): segments::Gap, polled: &mut PollResult) {
        let Some((_, segment)) = self.segments.first_key_value() else {
            return;
        };
        if segment.place.earlier.is_some() {
            let segments = (to - from).saturating_add(1);
            let total = &mut polled.discarded;
            total.segments = total.segments.saturating_add(segments);
            total.bytes = total.bytes.saturating_add(segments.saturating_mul(SEGMENT_BYTES as u64));
            self.records.has_discarded = true;
        } else {
            polled.report([segments::missing_segments(self.number, (from, to), &segment.place)]);
        }
    }

    /// Continues reading the first segment, which has unread bytes. `None` if reading must wait.
    fn read_on<S: Records>(&mut self, limit: u64, poll: &mut Poll<'_, S>) -> Option<u64> {
        let (key, segment) = self.segments.iter_mut().next()?;
        let (_, file, offset) = key;
        let (at, committed) = (segment.at, segment.committed_words());
        let most = usize::try_from(limit / 8).unwrap_or(usize::MAX).clamp(1, poll.buffer.len() / 8 - RECORD_MAX_WORDS);
        let until = committed.min(at + most);
        let wanted = 8 * committed.min(until + RECORD_MAX_WORDS).saturating_sub(at);
        let buffer = poll.buffer.get_mut(..wanted)?;
        let read = match poll.files.read_at(file, buffer, offset + 8 * at as u64) {
            Ok(read) => read,
            Err(error) if matches!(error.raw_os_error(), Some(libc::EMFILE | libc::ENFILE)) => return None,
            Err(error) if error.kind() == ErrorKind::NotFound => {
                self.records.discard(segment, &mut poll.polled.discarded);
                return Some(0);
            }
            Err(error) => {
                let lost = segment.unread_bytes();
                poll.polled.report([segment.place.problem(0, format!("cannot be read: {error}"), lost)]);
                segment.is_over = true;
                return Some(0);
            }
        };
        fence(Ordering::Acquire);
        // The records belong to this segment only if its header is still in place after they were read.
        let mut head = [0; 24];
        let head_bytes = poll.files.read_at(file, &mut head, *offset).ok()?;
        if head_bytes < head.len() || !is_same(self.number, &segment.place, &head) {
            self.records.replaced(segment, key, poll.files, &mut poll.polled.discarded);
            return Some(0);
        }
        if !std::mem::replace(&mut segment.has_begun, true) {
            self.oldest = self.oldest.or(segment.place.earlier);
            self.records.begin(segment.place.earlier, &mut poll.polled.discarded);
        }
        let (words, _) = buffer.get(..read)?.as_chunks::<8>();
        let mut found = CountingSink::new(&mut *poll.sink);
        let mut strings = SlotStrings { slot: self.number, names: &mut self.records.names, symbols: poll.symbols };
        let (range, stretch) = (at..until.min(at + words.len()), Stretch { words, first: at });
        let (next, bad) = read_records(stretch, range, &segment.place, &mut strings, &mut found);
        self.records.starts += found.starts;
        self.started = self.started.max(found.last);
        poll.polled.records += found.records;
        segment.at = next;
        if bad.is_some() || next < until || next >= committed {
            segment.is_over = bad.is_some();
            let end = check_end(segment, file, poll);
            let lost = 8 * end.saturating_sub(next) as u64;
            poll.polled.report(bad.map(|reason| segment.place.problem(next, reason, lost)));
        }
        let bytes = 8 * (next - at) as u64;
        poll.polled.bytes += bytes;
        Some(bytes)
    }
}

/// Whether the first words of a header are this segment's.
fn is_same(slot: u16, place: &SegmentPlace, head: &[u8; 24]) -> bool {
    let (words, _) = head.as_chunks::<8>();
    let is_slot = word_at(words, 1).is_some_and(|version| high(version) >> 16 == u32::from(slot));
    word_at(words, 0) == Some(MAGIC) && is_slot && word_at(words, 2) == Some(place.order)
}

/// Checks the end of a segment's committed bytes. Returns how many of the committed words the file really has.
fn check_end<S>(segment: &mut FollowedSegment, file: &FileKey, poll: &mut Poll<'_, S>) -> usize {
    let (committed, offset) = (segment.committed_words(), segment.place.offset);
    segment.checked = Some(segment.place.committed);
    let room = 8 * BEHIND_WORDS.min(SEGMENT_WORDS - committed);
    let buffer = poll.buffer.get_mut(..room).unwrap_or(&mut []);
    let Ok(read) = poll.files.read_at(file, buffer, offset + 8 * committed as u64) else {
        return committed;
    };
    let length = match read {
        0 => poll.files.with(file, |file| Ok(file.metadata()?.len())).unwrap_or(u64::MAX),
        _ => u64::MAX,
    };
    let end = committed.min(usize::try_from(length.saturating_sub(offset) / 8).unwrap_or(usize::MAX));
    let (beyond, _) = buffer.get(..read).unwrap_or(&[]).as_chunks::<8>();
    let now = |file: &File| committed_now(file, &segment.place).ok_or_else(|| io::Error::other("no header"));
    let problem = problem_at_end(&segment.place, end, beyond, || poll.files.with(file, now).ok());
    segment.is_over = segment.is_over || end < committed;
    poll.polled.report(problem);
    end
}

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
            Err(error) if error.kind() == ErrorKind::NotFound => false,
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
            && regular_files::is_refused_by_system(error)
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
                    Err(error) if error.kind() == ErrorKind::Interrupted => {}
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

/// What a poll returns besides records. *Since the beginning*: the total over all polls of a follower.
#[derive(Debug, Default)]
pub struct PollResult {
    /// Number of records that this poll returned.
    pub records: u64,
    /// Bytes of these records and of string records.
    pub bytes: u64,
    /// Bytes committed when the poll began but not read yet.
    pub behind_bytes: u64,
    /// Ticks of the oldest unread record, if any.
    pub oldest_unread_ticks: Option<u64>,
    /// What was removed before it was read, since the beginning.
    pub discarded: Discarded,
    /// Committed bytes that could not be used so far: those of all problems, and those committed behind a bad record.
    pub damaged_bytes: u64,
    /// Problems that earlier polls did not report.
    pub problems: Vec<Problem>,
    /// What was not recorded, as the process counts it now.
    pub losses: Losses,
    /// Whether the journal's directory is gone. Files held open are still read to their end.
    pub is_removed: bool,
}

/// What a flight recording, or whoever finalized the process, removed before it was read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Discarded {
    /// Segments that were not fully read.
    pub segments: u64,
    /// Unread bytes of these segments: as committed when last seen; the whole segment if it was never seen.
    pub bytes: u64,
    /// Starts of events in these segments, if a later segment of the flight recording counts them.
    pub starts: u64,
}

impl PollResult {
    pub(super) fn report(&mut self, problems: impl IntoIterator<Item = Problem>) {
        for problem in problems {
            self.damaged_bytes = self.damaged_bytes.saturating_add(problem.lost_bytes);
            self.problems.push(problem);
        }
    }
}
