//! Reads the journal of one process: every committed record, slot by slot, and what is wrong or missing.
//!
//! A reader needs no cooperation of the process that wrote: it trusts only committed bytes and checks
//! every record. A bad record ends the reading of its segment; the rest is reported, not guessed at.

use std::collections::BTreeMap;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::Arc;

pub(crate) mod counted;
pub(crate) mod gaps;
pub(crate) mod head;
mod in_order;
pub(crate) mod losses;
pub(crate) mod problem;
pub(crate) mod removed;
pub(crate) mod segment;
mod symbols;

use crate::clock::TickSource;
use crate::format::layout::{FORMAT_VERSION, HEADER_WORDS, SEGMENT_BYTES, SEGMENTS_PER_FILE, header, kind};
use crate::format::record::{RecordBody, Records};
use counted::Counted;
use head::{HEADER_BYTES, Head, HeadWords, head_words};
pub use in_order::InOrder;
pub use losses::Losses;
use losses::{losses, slotless_losses};
use nccl_events::Kind;
pub use problem::Problem;
pub use removed::Removed;
use segment::{Names, SegmentPlace, SlotStrings, Stretch, committed_now, problem_at_end, read_records, read_words};
pub use symbols::Symbols;

const FILE_BYTES: u64 = (SEGMENTS_PER_FILE * SEGMENT_BYTES) as u64;

/// Why a journal cannot be read at all.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The directory or a file in it could not be read.
    #[error("{}: {source}", path.display())]
    Io {
        /// What was read.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The journal was written by a newer version.
    #[error("{}: journal format {found} is newer than this version reads ({FORMAT_VERSION}): use the nccl-otf2 that belongs to the plugin that wrote it", path.display())]
    Newer {
        /// The file.
        path: PathBuf,
        /// Its format version.
        found: u32,
    },
}

/// What reading gave beside the records.
#[derive(Debug, Default)]
pub struct Outcome {
    /// The strings; index by [`crate::format::record::Symbol`].
    pub symbols: Symbols,
    /// What could not be used.
    pub problems: Vec<Problem>,
    /// What was not recorded.
    pub losses: Losses,
    /// What a flight recording removed.
    pub removed: Removed,
    /// How many events were given an id: the highest number of each slot, recorded or lost, which is told apart from
    /// how many records and losses there are. Empty proxy control events give theirs back.
    pub started: u64,
    /// Records read.
    pub records: u64,
    /// Committed bytes of all segments.
    pub bytes: u64,
}

/// The journal of one process, opened.
#[derive(Clone, Debug, Default)]
pub struct Journal {
    slots: BTreeMap<u16, Vec<SegmentPlace>>,
    /// The process tag in every id of this process.
    pub process_tag: u16,
    /// Process id.
    pub process_id: u32,
    /// Where its ticks come from.
    pub tick_source: TickSource,
    /// When the session began, CLOCK_REALTIME ns.
    pub session_start_realtime_ns: u64,
    problems: Vec<Problem>,
    losses: BTreeMap<u16, Losses>,
    /// Of threads without a slot.
    slotless: Losses,
    /// The highest number of an event of each slot.
    started: BTreeMap<u16, u64>,
    slots_used: u64,
    bytes: u64,
    /// Segments of a format that is newer than this version reads: file, offset, format.
    newer: Vec<(PathBuf, u64, u32)>,
}

impl Journal {
    /// Finds the segments in a journal directory (`parts/<part>/journal`).
    ///
    /// # Errors
    /// The directory cannot be read, or was written by a newer version.
    pub fn open(directory: &Path) -> Result<Self, Error> {
        let entries = std::fs::read_dir(directory).and_then(|all| all.map(|entry| Ok(entry?.path())).collect());
        let mut paths: Vec<PathBuf> = entries.map_err(|source| Error::Io { path: directory.to_owned(), source })?;
        paths.sort();
        let mut journal = Self::default();
        for path in paths {
            journal.find_segments(&path);
        }
        for (path, offset, found) in std::mem::take(&mut journal.newer) {
            // A process writes one format: among segments that can be read it is a damaged one.
            if journal.slots.is_empty() {
                return Err(Error::Newer { path, found });
            }
            let reason = format!("a segment of format {found} among others of {FORMAT_VERSION}");
            journal.problem(&path, offset, reason, 0);
        }
        for places in journal.slots.values_mut() {
            places.sort_by_key(|place| place.order);
        }
        journal.find_gaps();
        let slots = journal.slots.keys().copied();
        journal.problems.extend(gaps::of_slots(directory, slots, journal.slots_used));
        Ok(journal)
    }

    /// A thread uses segments in their order. In a flight recording the oldest are gone.
    fn find_gaps(&mut self) {
        for (slot, places) in &self.slots {
            let before_each = gaps::before_each(places.iter().map(|place| place.order));
            for (place, gap) in places.iter().zip(before_each) {
                if let (None, Some(gap)) = (place.alone, gap) {
                    self.problems.push(gaps::problem(*slot, gap, place));
                }
            }
        }
    }

    fn find_segments(&mut self, path: &Path) {
        let mut file = match regular_files::open(path, u64::MAX) {
            Ok(file) => file,
            Err(error) => {
                self.problem(path, 0, format!("cannot be opened: {error}"), 0);
                return;
            }
        };
        let length = file.metadata().map(|data| data.len()).unwrap_or(0);
        let path: &Arc<Path> = &Arc::from(path);
        let mut offset = 0;
        while offset + HEADER_BYTES as u64 <= length.min(FILE_BYTES) {
            let mut bytes = [0_u8; HEADER_BYTES];
            let read = file.seek(SeekFrom::Start(offset)).and_then(|_| file.read_exact(&mut bytes));
            if let Err(error) = read {
                self.problem(path, offset, format!("cannot be read: {error}"), 0);
                return;
            }
            self.segment(path, offset, &head_words(&bytes));
            offset += SEGMENT_BYTES as u64;
        }
        // A file without a byte, as a process leaves it that died or met a limit, is judged with its slot.
        if offset < length {
            let reason = match length > FILE_BYTES {
                true => format!("the file has more than {SEGMENTS_PER_FILE} segments"),
                false => format!("the file ends in a segment's header, after {length} bytes"),
            };
            self.problem(path, offset, reason, 0);
        }
    }

    fn segment(&mut self, path: &Arc<Path>, offset: u64, words: &HeadWords) {
        let head = match Head::of(words) {
            Head::Unused => return,
            Head::Damaged => return self.problem(path, offset, "no segment header here".to_owned(), 0),
            Head::Newer(version) => return self.newer.push((path.to_path_buf(), offset, version)),
            Head::Used(head) => head,
        };
        self.process_tag = head.process.tag;
        self.process_id = head.process.id;
        self.tick_source = head.process.tick_source;
        self.session_start_realtime_ns = head.process.session_start_realtime_ns;
        self.bytes += head.committed;
        self.note_highest_sequence(head.slot, head.started_at_loss);
        if let Some(alone) = head.alone {
            self.note_highest_sequence(head.slot, alone.started_before);
        }
        let places = self.slots.entry(head.slot).or_default();
        // The counters run on from segment to segment: the newest segment of a slot has the totals.
        if places.iter().all(|place| place.order < head.order) {
            self.losses.insert(head.slot, losses(words));
        }
        // Only the first segment has those of threads without a slot.
        if (head.slot, head.order, places.is_empty()) == (0, 0, true) {
            self.slotless = slotless_losses(words);
            self.slots_used = words.get(header::SLOTS).copied().unwrap_or(0);
        }
        places.push(SegmentPlace::new(path, offset, &head));
    }

    fn problem(&mut self, path: &Path, offset: u64, reason: String, lost_bytes: u64) {
        self.problems.push(Problem { path: path.to_owned(), offset, reason, lost_bytes });
    }

    fn note_highest_sequence(&mut self, slot: u16, sequence: u64) {
        let highest = self.started.entry(slot).or_insert(0);
        *highest = sequence.max(*highest);
    }

    /// Committed bytes of all segments.
    #[must_use]
    pub const fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Reads every committed record, slot by slot, in the order it was written in its slot.
    #[must_use]
    pub fn read(mut self, sink: &mut impl Records) -> Outcome {
        let mut segment = Vec::new();
        let mut outcome = Outcome { bytes: self.bytes, ..Outcome::default() };
        for (slot, places) in std::mem::take(&mut self.slots) {
            let mut names = Names::new();
            let mut oldest = None;
            for place in places {
                let is_there = self.read_segment(slot, &place, &mut segment, &mut names, &mut outcome, sink);
                if is_there {
                    oldest = oldest.or(place.alone);
                }
            }
            if let Some(oldest) = oldest {
                outcome.removed.add(slot, oldest);
            }
        }
        outcome.problems.append(&mut self.problems);
        for losses in self.losses.values() {
            outcome.losses.add(losses);
        }
        outcome.losses.add(&self.slotless);
        let slotless: u64 = self.slotless.starts.iter().sum();
        outcome.started = self.started.values().sum::<u64>() + slotless;
        outcome
    }

    fn read_segment(
        &mut self,
        slot: u16,
        place: &SegmentPlace,
        buffer: &mut Vec<u8>,
        names: &mut Names,
        outcome: &mut Outcome,
        sink: &mut impl Records,
    ) -> bool {
        if place.alone.is_some() {
            *names = Names::new();
        }
        let (segment, beyond) = match read_words(place, buffer) {
            Ok(read) => read,
            // A running process has just removed it.
            Err(error) if place.alone.is_some() && error.kind() == io::ErrorKind::NotFound => {
                return false;
            }
            Err(error) => {
                self.problem(&place.path, place.offset, format!("cannot be read: {error}"), place.committed);
                return true;
            }
        };
        let end = segment.len();
        let mut found = Counted::new(sink);
        let mut strings = SlotStrings { slot, names, symbols: &mut outcome.symbols };
        let stretch = Stretch { words: segment, first: 0 };
        let (at, bad) = read_records(stretch, HEADER_WORDS..end, place, &mut strings, &mut found);
        outcome.records += found.records;
        let last = found.last;
        self.problems.extend(bad.map(|reason| place.problem(at, reason, 8 * (end - at) as u64)));
        self.note_highest_sequence(slot, last);
        self.problems.extend(problem_at_end(place, end, beyond, || {
            committed_now(&regular_files::open(&place.path, u64::MAX).ok()?, place)
        }));
        true
    }
}

const _: () = assert!(kind::START as usize + Kind::COUNT <= kind::STOP as usize);

/// Whether a record carries nothing but bookkeeping.
#[must_use]
pub const fn is_bookkeeping(body: &RecordBody) -> bool {
    matches!(body, RecordBody::ThreadBegin { .. } | RecordBody::ThreadEnd | RecordBody::ClockPair { .. })
}
