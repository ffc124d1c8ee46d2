//! Reads the journal of one process: every committed record, slot by slot, and what is wrong or missing.
//!
//! A reader needs no cooperation of the process that wrote: it trusts only committed bytes and checks
//! every record. A bad record ends the reading of its segment; the rest is reported, not guessed at.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

mod counted;
mod gaps;
mod in_order;
mod losses;
mod removed;
mod segment;
mod symbols;

use crate::clock::TickSource;
use crate::format::layout::{
    FORMAT_VERSION, HEADER_WORDS, MAGIC, SEGMENT_BYTES, header, high, kind, low, mark, segment_flag,
};
use crate::format::record::{RecordBody, Records};
use crate::format::words::{Word, word_at};
use counted::Counted;
pub use in_order::InOrder;
pub use losses::Losses;
use losses::{losses, slotless_losses};
use nccl_events::Kind;
use removed::OldestSegment;
pub use removed::Removed;
use segment::{Names, SegmentPlace, committed_now, read_record, read_words};
pub use symbols::Symbols;

/// Why a journal could not be read at all.
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

/// A place in a journal that could not be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The file.
    pub path: PathBuf,
    /// Where in it, in bytes.
    pub offset: u64,
    /// What was found there.
    pub reason: String,
    /// How many committed bytes were left out because of it.
    pub lost_bytes: u64,
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
    /// What is gone because only a window was to be kept.
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
#[derive(Clone, Debug)]
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
        let io_error = |path: &Path| {
            let path = path.to_owned();
            move |source| Error::Io { path, source }
        };
        let mut paths = Vec::new();
        for entry in std::fs::read_dir(directory).map_err(io_error(directory))? {
            paths.push(entry.map_err(io_error(directory))?.path());
        }
        paths.sort();
        let mut journal = Self {
            slots: BTreeMap::new(),
            process_tag: 0,
            process_id: 0,
            tick_source: TickSource::Monotonic,
            session_start_realtime_ns: 0,
            problems: Vec::new(),
            losses: BTreeMap::new(),
            slotless: Losses::default(),
            started: BTreeMap::new(),
            bytes: 0,
            newer: Vec::new(),
        };
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
        Ok(journal)
    }

    /// A thread uses segments in their order. In a window the oldest are gone.
    fn find_gaps(&mut self) {
        let mut gaps = Vec::new();
        for (slot, places) in &self.slots {
            let before_each = gaps::before_each(places.iter().map(|place| place.order));
            for (place, gap) in places.iter().zip(before_each) {
                if let (None, Some((from, to))) = (place.alone, gap) {
                    gaps.push((place.path.clone(), place.offset, *slot, from, to));
                }
            }
        }
        for (path, offset, slot, from, to) in gaps {
            let missing = (to - from).saturating_add(1);
            let reason = match missing {
                1 => format!("segment {from} of slot {slot} is missing before this one"),
                _ => format!("segments {from} to {to} of slot {slot} are missing before this one"),
            };
            self.problem(&path, offset, reason, missing.saturating_mul(SEGMENT_BYTES as u64));
        }
    }

    fn find_segments(&mut self, path: &Path) {
        let mut file = match File::open(path) {
            Ok(file) => file,
            Err(error) => {
                self.problem(path, 0, format!("cannot be opened: {error}"), 0);
                return;
            }
        };
        let length = file.metadata().map(|data| data.len()).unwrap_or(0);
        let mut offset = 0;
        while offset + 8 * HEADER_WORDS as u64 <= length {
            let mut bytes = [0_u8; 8 * HEADER_WORDS];
            let read = file.seek(SeekFrom::Start(offset)).and_then(|_| file.read_exact(&mut bytes));
            if let Err(error) = read {
                self.problem(path, offset, format!("cannot be read: {error}"), 0);
                return;
            }
            let head: Vec<u64> = words(&bytes).collect();
            self.segment(path, offset, &head);
            offset += SEGMENT_BYTES as u64;
        }
        // A file without a byte: its process died, or met a limit, before it had room for a segment.
        if offset < length {
            let reason = format!("the file ends in a segment's header, after {length} bytes");
            self.problem(path, offset, reason, 0);
        }
    }

    fn segment(&mut self, path: &Path, offset: u64, head: &[u64]) {
        let word = |index: usize| head.get(index).copied().unwrap_or(0);
        if word(header::MAGIC) == 0 {
            // No more than a header: its process died while it wrote that, the magic last.
            let header_words = u64::from(high(word(header::VERSION)) & 0xffff);
            if word(header::COMMITTED) > 8 * header_words {
                self.problem(path, offset, "no segment header here".to_owned(), 0);
            }
            return; // prepared, never used
        }
        if word(header::MAGIC) != MAGIC {
            self.problem(path, offset, "no segment header here".to_owned(), 0);
            return;
        }
        let version = low(word(header::VERSION));
        if version > FORMAT_VERSION {
            self.newer.push((path.to_owned(), offset, version));
            return;
        }
        let slot = u16::try_from(high(word(header::VERSION)) >> 16).unwrap_or(0);
        let committed = word(header::COMMITTED).min(SEGMENT_BYTES as u64);
        let order = word(header::ORDER);
        let process = word(header::PROCESS);
        self.process_tag = u16::try_from(low(process) & 0xffff).unwrap_or(0);
        self.process_id = high(process);
        self.tick_source = TickSource::from_number((low(process) >> 16) & 0xff);
        self.session_start_realtime_ns = word(header::SESSION);
        self.bytes += committed;
        self.saw(slot, word(header::STARTED_AT_LOSS));
        let is_alone = word(header::FLAGS) & segment_flag::FLIGHT != 0;
        let alone = is_alone.then(|| OldestSegment {
            order,
            ticks: word(header::TICKS),
            started_before: word(header::STARTED_BEFORE),
            lost_before: word(header::LOST_BEFORE),
        });
        if let Some(alone) = alone {
            self.saw(slot, alone.started_before);
        }
        let places = self.slots.entry(slot).or_default();
        // The counters run on from segment to segment: the newest segment of a slot has the totals.
        if places.iter().all(|place| place.order < order) {
            self.losses.insert(slot, losses(head));
        }
        self.slotless.add(&slotless_losses(head));
        places.push(SegmentPlace { path: path.to_owned(), offset, order, committed, alone });
    }

    fn problem(&mut self, path: &Path, offset: u64, reason: String, lost_bytes: u64) {
        self.problems.push(Problem { path: path.to_owned(), offset, reason, lost_bytes });
    }

    /// An event of this slot has this number.
    fn saw(&mut self, slot: u16, sequence: u64) {
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
        let mut at = HEADER_WORDS;
        let mut found = Counted::new(sink);
        while at < segment.len() {
            match read_record(segment, at, place, slot, names, &mut outcome.symbols, &mut found) {
                Ok(words) => at += words,
                Err(reason) => {
                    let lost = 8 * (segment.len() - at) as u64;
                    self.problem(&place.path, place.offset + 8 * at as u64, reason, lost);
                    break;
                }
            }
        }
        outcome.records += found.records;
        self.saw(slot, found.last);
        self.end_of_segment(place, segment, beyond);
        true
    }

    /// What is not as it should be at the end of a segment's committed bytes.
    fn end_of_segment(&mut self, place: &SegmentPlace, segment: &[Word], beyond: &[Word]) {
        let end = 8 * segment.len() as u64;
        let missing = (place.committed & !7).saturating_sub(end);
        if missing > 0 {
            let reason = format!("the file ends after {end} bytes of the segment");
            self.problem(&place.path, place.offset + end, reason, missing);
        }
        // The record that a process was writing when it died is not committed. There cannot be two of them.
        let records = || {
            let length = |at: usize| {
                let word = word_at(beyond, at).unwrap_or(0);
                let is_record = high(word) == mark(place.order, segment.len() + at);
                is_record.then_some(usize::from(u16::try_from((word >> 16) & 0xffff).unwrap_or(0)))
            };
            length(length(0)?)
        };
        // A process that runs has committed them meanwhile.
        if missing == 0 && records().is_some() && committed_now(place) == Some(place.committed) {
            let reason = "records go on behind the committed bytes".to_owned();
            self.problem(&place.path, place.offset + end, reason, 0);
        }
    }
}

fn words(bytes: &[u8]) -> impl Iterator<Item = u64> {
    let (chunks, _) = bytes.as_chunks::<8>();
    chunks.iter().map(|chunk| u64::from_le_bytes(*chunk))
}

const _: () = assert!(kind::START as usize + Kind::COUNT <= kind::STOP as usize);

/// Whether a record carries nothing but bookkeeping.
#[must_use]
pub const fn is_bookkeeping(body: &RecordBody) -> bool {
    matches!(body, RecordBody::ThreadBegin { .. } | RecordBody::ThreadEnd | RecordBody::ClockPair { .. })
}
