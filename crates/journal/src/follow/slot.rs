//! A followed slot: its segments in order, and how far each is read.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::ErrorKind;
use std::sync::atomic::{Ordering, fence};

use super::files::{FileKey, Files};
use super::polled::{Discarded, Polled};
use crate::format::layout::{HEADER_WORDS, MAGIC, RECORD_MAX_WORDS, SEGMENT_BYTES, SEGMENT_WORDS, high, mark};
use crate::format::record::Records;
use crate::format::words::word_at;
use crate::segments::counted::Counted;
use crate::segments::gaps;
use crate::segments::head::{HEADER_BYTES, Head, HeadWords, SegmentHead, head_words};
use crate::segments::losses::losses;
use crate::segments::removed::OldestSegment;
use crate::segments::segment::{
    BEHIND_WORDS, Names, SegmentPlace, SlotStrings, Stretch, committed_now, problem_at_end, read_records,
};
use crate::segments::{Losses, Problem, Symbols};

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
    pub(super) polled: &'a mut Polled,
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
    pub(super) fn refresh(&mut self, gone: &BTreeSet<FileKey>, files: &mut Files, polled: &mut Polled) {
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
            match Head::of(&words) {
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
    fn gap(&mut self, (from, to): gaps::Gap, polled: &mut Polled) {
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
            polled.report([gaps::problem(self.number, (from, to), &segment.place)]);
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
        let mut found = Counted::new(&mut *poll.sink);
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
    let now = |file: &File| committed_now(file, &segment.place).ok_or_else(|| std::io::Error::other("no header"));
    let problem = problem_at_end(&segment.place, end, beyond, || poll.files.with(file, now).ok());
    segment.is_over = segment.is_over || end < committed;
    poll.polled.report(problem);
    end
}
