//! Reads the journal of one process: every committed record, slot by slot, and everything wrong or missing. A reader is
//! a [`Follower`] polled once. It may run in a process of the job, so it opens one file at a time. [`InOrder`] reads
//! all slots together, in chronological order.

use std::cmp::Reverse;
use std::collections::binary_heap::PeekMut;
use std::collections::{BTreeMap, BinaryHeap};
use std::path::{Path, PathBuf};
use std::vec;

use crate::clock::TickSource;
use crate::follow::{Follower, PollResult};
use crate::format::{HEADER_WORDS, Record, Records};
use crate::segments::{Names, SegmentPlace, SlotStrings, Stretch, read_record, read_words};

pub use crate::segments::{Error, Losses, Problem, Removed, Symbols};

const CHUNK_BYTES: usize = 256 << 10;

/// What reading returns besides records.
#[derive(Debug, Default)]
pub struct Outcome {
    /// The strings; index by [`crate::format::Symbol`].
    pub symbols: Symbols,
    /// Places that could not be used.
    pub problems: Vec<Problem>,
    /// What was not recorded.
    pub losses: Losses,
    /// What a flight recording removed.
    pub removed: Removed,
    /// How many events were given an id, recorded or lost: the sum of the highest numbers of all slots, which is
    /// independent of the numbers of records and losses. Empty proxy control events return their ids.
    pub started: u64,
    /// Records read.
    pub records: u64,
    /// Committed bytes of all segments.
    pub bytes: u64,
}

/// An opened journal of one process.
#[derive(Debug)]
#[expect(missing_docs, reason = "the functions of `Follower` have these names")]
pub struct Journal {
    pub process_tag: u16,
    pub process_id: u32,
    pub tick_source: TickSource,
    pub session_start_realtime_ns: u64,
    directory: PathBuf,
    follower: Follower,
    found: PollResult,
}

/// The segments of a journal, by slot.
#[derive(Clone, Debug)]
pub struct Segments(BTreeMap<u16, Vec<SegmentPlace>>);

impl Journal {
    /// Finds the segments in a journal directory (`parts/<part>/journal`).
    pub fn open(directory: &Path) -> Result<Self, Error> {
        let mut follower = Follower::with(directory, 0, CHUNK_BYTES)?;
        let found = follower.find()?;
        follower.check_reads()?;
        Ok(Self {
            process_tag: follower.process_tag(),
            process_id: follower.process_id(),
            tick_source: follower.tick_source(),
            session_start_realtime_ns: follower.session_start_realtime_ns(),
            directory: directory.to_owned(),
            follower,
            found,
        })
    }

    /// The segments that were found.
    pub fn segments(&self) -> Segments {
        Segments(self.follower.segments())
    }

    /// Reads every committed record, slot by slot, in the order of writing. What a file has and cannot be used is a
    /// problem of the outcome; a file that the system does not read is an error, because another attempt may read it.
    pub fn read(mut self, sink: &mut impl Records) -> Result<Outcome, Error> {
        let segments = self.follower.segments();
        let bytes = segments.values().flatten().map(|place| place.committed).sum();
        let mut read = self.found;
        self.follower.read_found(sink, u64::MAX, &mut read);
        self.follower.check_reads()?;
        let (removed, started) = (self.follower.removed(), self.follower.started());
        let (symbols, unread) = self.follower.end();
        let mut problems = read.problems;
        problems.extend(unread);
        let gone = read.discarded;
        // A flight recording may remove its oldest files during the reading; any other journal must lose none.
        if !removed.is_window && gone.segments > 0 {
            let reason = format!("{} segments were removed while they were read", gone.segments);
            problems.push(Problem { path: self.directory, offset: 0, reason, lost_bytes: gone.bytes });
        }
        Ok(Outcome { symbols, problems, losses: read.losses, removed, started, records: read.records, bytes })
    }
}

/// The records of a journal ordered by ticks, then by slot. A slot's own records keep their order. Holds one segment of
/// each slot in memory. Only [`Journal::read`] reports problems and losses.
#[derive(Debug)]
pub struct InOrder {
    slots: Vec<Slot>,
    /// The slots that have a next record, by its ticks.
    due: BinaryHeap<Reverse<(u64, usize)>>,
    symbols: Symbols,
}

impl Segments {
    /// Reads what was committed when the journal was opened. `symbols` assigns the numbers of strings.
    pub fn in_order(&self, symbols: Symbols) -> InOrder {
        let slots = self.0.iter().map(|(number, places)| Slot::new(*number, places.clone()));
        let mut records = InOrder { slots: slots.collect(), due: BinaryHeap::new(), symbols };
        for (index, slot) in records.slots.iter_mut().enumerate() {
            slot.advance(&mut records.symbols);
            records.due.extend(slot.next.as_ref().map(|record| Reverse((record.ticks, index))));
        }
        records
    }
}

impl Iterator for InOrder {
    type Item = Record;

    fn next(&mut self) -> Option<Record> {
        let mut due = self.due.peek_mut()?;
        let slot = self.slots.get_mut(due.0.1)?;
        let record = slot.next.take();
        slot.advance(&mut self.symbols);
        match &slot.next {
            Some(next) => due.0.0 = next.ticks,
            None => drop(PeekMut::pop(due)),
        }
        record
    }
}

#[derive(Debug)]
struct Slot {
    number: u16,
    places: vec::IntoIter<SegmentPlace>,
    /// The segment being read, followed by its buffer, its committed words and the index of the next word.
    place: Option<SegmentPlace>,
    buffer: Vec<u8>,
    end: usize,
    at: usize,
    names: Names,
    next: Option<Record>,
}

impl Slot {
    fn new(number: u16, places: Vec<SegmentPlace>) -> Self {
        let places = places.into_iter();
        Self { number, places, place: None, buffer: Vec::new(), end: 0, at: 0, names: Names::new(), next: None }
    }

    fn advance(&mut self, symbols: &mut Symbols) {
        self.next = None;
        while self.next.is_none() {
            if self.at >= self.end && !self.load() {
                return;
            }
            let Some(place) = &self.place else { return };
            let (words, _) = self.buffer.as_chunks::<8>();
            let segment = words.get(..self.end).unwrap_or(words);
            let next = &mut self.next;
            let mut sink = |record: Record| *next = Some(record);
            let stretch = Stretch { words: segment, first: 0 };
            let mut strings = SlotStrings { slot: self.number, names: &mut self.names, symbols: &mut *symbols };
            let read = read_record(stretch, self.at, place, &mut strings, &mut sink);
            // A bad record ends the reading of its segment.
            self.at = read.map_or(self.end, |words| self.at + words);
        }
    }

    fn load(&mut self) -> bool {
        loop {
            self.place = self.places.next();
            let Some(place) = &self.place else {
                self.buffer = Vec::new();
                return false;
            };
            if place.earlier.is_some() {
                self.names = Names::new();
            }
            if let Ok((segment, _)) = read_words(place, &mut self.buffer)
                && segment.len() > HEADER_WORDS
            {
                (self.at, self.end) = (HEADER_WORDS, segment.len());
                return true;
            }
        }
    }
}
