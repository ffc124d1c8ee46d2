//! What every reader of a journal is made of: headers of segments, records read one by one and checked, the strings,
//! and what is wrong or missing: damaged places, losses, segments that were removed or are missing.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{Read as _, Seek as _, SeekFrom};
use std::ops::Range;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::{fmt, io};

use crate::clock::TickSource;
use crate::format::{
    Decoded, FORMAT_VERSION, HEADER_WORDS, MAGIC, OLDEST_READ, RECORD_HEADER_WORDS, RECORD_MAX_WORDS, Record, Records,
    SEGMENT_BYTES, Symbol, decode, decode_start, decode_state, header, high, kind, low, mark, segment_flag,
    usual_words, word_at,
};
use nccl_events::event::Word;
use nccl_events::ids::{EventId, index};
use nccl_events::{Kind, Start, StateArgs};

/// A place in a journal that could not be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The file.
    pub path: PathBuf,
    /// Offset in the file, in bytes.
    pub offset: u64,
    /// What was found at the offset.
    pub reason: String,
    /// Committed bytes that were skipped because of the problem, as far as known.
    pub lost_bytes: u64,
}

impl fmt::Display for Problem {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { path, offset, reason, lost_bytes } = self;
        write!(formatter, "{} at byte {offset}: {reason}", path.display())?;
        // How many bytes a damaged header had counted is unknown.
        if *lost_bytes > 0 { write!(formatter, "; {lost_bytes} bytes left out") } else { Ok(()) }
    }
}

/// Why a journal cannot be read at all.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the messages say it")]
pub enum Error {
    /// The directory or a file in it could not be read.
    #[error("{}: {source}", path.display())]
    Io { path: PathBuf, source: io::Error },
    /// The system did not open or read a file that is there.
    #[error(
        "{}: {source} (try again; if the file stays unreadable, move it away, and the other files are written)",
        path.display()
    )]
    Unreadable { path: PathBuf, source: io::Error },
    /// The journal was written by a version with another format.
    #[error("{}: journal format {found}, this version reads {OLDEST_READ} to {FORMAT_VERSION}: use the nccl-otf2 that belongs to the plugin that wrote it", path.display())]
    OtherFormat {
        path: PathBuf,
        /// The format version of the file.
        found: u32,
    },
    /// The journal is another process's, or of another session of this one.
    #[error("{}{target}: this is the journal of process {id}, which began to record at {start_ns} ns, not of this \
        part's process: not read, not removed (put the part's own journal in its place)", path.display())]
    OtherProcess { path: PathBuf, target: String, id: u32, start_ns: u64 },
    /// The journal is a link, and its part does not say whose it is.
    #[error("{}{target}: the part does not say whose journal it is, so the link is not followed (process.json and the part's name say it)", path.display())]
    Unowned { path: PathBuf, target: String },
}

/// The place of a segment in a journal, and what its header said when it was found.
#[derive(Clone, Debug)]
pub(crate) struct SegmentPlace {
    pub(crate) path: Arc<Path>,
    pub(crate) offset: u64,
    pub(crate) order: u64,
    pub(crate) committed: u64,
    /// For a flight recording: what the header states about earlier segments.
    pub(crate) earlier: Option<OldestSegment>,
}

impl SegmentPlace {
    pub(crate) fn new(path: &Arc<Path>, offset: u64, head: &SegmentHead) -> Self {
        let (order, committed) = (head.order, head.committed);
        Self { path: Arc::clone(path), offset, order, committed, earlier: head.earlier }
    }

    pub(crate) fn problem(&self, word: usize, reason: String, lost_bytes: u64) -> Problem {
        Problem { path: self.path.to_path_buf(), offset: self.offset + 8 * word as u64, reason, lost_bytes }
    }
}

const _: () = assert!(kind::START as usize + Kind::COUNT <= kind::STOP as usize);

/// Words that were read from a segment.
#[derive(Clone, Copy)]
pub(crate) struct Stretch<'a> {
    pub(crate) words: &'a [Word],
    /// Index in the segment of the first of `words`.
    pub(crate) first: usize,
}

/// A slot, and the tables for its strings.
pub(crate) struct SlotStrings<'a> {
    pub(crate) slot: u16,
    pub(crate) names: &'a mut Names,
    pub(crate) symbols: &'a mut Symbols,
}

/// The strings of a slot by number. In a flight recording they arrive in any order and may be incomplete.
#[derive(Debug)]
pub(crate) struct Names(Vec<Option<Symbol>>);

impl Names {
    pub(crate) fn new() -> Self {
        Self(vec![Some(Symbol::NONE)])
    }

    fn get(&self, number: u16) -> Option<Symbol> {
        self.0.get(usize::from(number)).copied().flatten()
    }

    /// The entry for a string. An error if another number was due.
    fn place(&mut self, number: u16, in_any_order: bool) -> Result<&mut Option<Symbol>, String> {
        let (number, due) = (usize::from(number), self.0.len());
        let is_due = number == due || in_any_order && number > 0;
        if !is_due {
            return Err(format!("string number {number} where {due} was due"));
        }
        if number >= due {
            self.0.resize(number + 1, None);
        }
        self.0.get_mut(number).ok_or_else(|| "no place for a string".to_owned())
    }
}

/// Reads the records that begin in a range of a segment's words; the stretch contains the whole range. Returns where
/// the next record begins, and if it is bad, the reason.
pub(crate) fn read_records(
    stretch: Stretch<'_>,
    range: Range<usize>,
    place: &SegmentPlace,
    strings: &mut SlotStrings<'_>,
    found: &mut impl Records,
) -> (usize, Option<String>) {
    let mut at = range.start;
    while at < range.end {
        match read_record(stretch, at, place, strings, found) {
            Ok(words) => at += words,
            Err(reason) => return (at, Some(reason)),
        }
    }
    (at, None)
}

/// Reads the record at word `at` of a segment. Stores a new string, passes on any other record. Returns its length.
#[inline]
pub(crate) fn read_record(
    stretch: Stretch<'_>,
    at: usize,
    place: &SegmentPlace,
    strings: &mut SlotStrings<'_>,
    found: &mut impl Records,
) -> Result<usize, String> {
    let words = stretch.words.get(at.wrapping_sub(stretch.first)..).unwrap_or(&[]);
    let head = word_at(words, 0).unwrap_or(0);
    let record_kind = u8::try_from(head & 0xff).unwrap_or(0);
    let flags = u8::try_from((head >> 8) & 0xff).unwrap_or(0);
    let length = usize::try_from((head >> 16) & 0xffff).unwrap_or(0);
    if high(head) != mark(place.order, at) {
        return Err(format!("no record here: word {head:#018x}"));
    }
    if !(RECORD_HEADER_WORDS..=RECORD_MAX_WORDS).contains(&length) {
        return Err(format!("record of kind {record_kind:#x} with a length of {length} words"));
    }
    let Some(record) = words.get(..length) else {
        return Err(format!("record of kind {record_kind:#x} extends beyond the committed bytes"));
    };
    let [_, ticks, id, payload @ ..] = record else {
        return Err("record without a header".to_owned());
    };
    // A corrupt length that ends at a record swallows whole records: search long records for record headers.
    if usual_words(record_kind, payload) != Some(payload.len()) {
        let begins = |word: usize| is_record_head(word_at(record, word), mark(place.order, at + word));
        if has_mark(record, place.order, at) && (1..length).any(begins) {
            return Err(format!("record of kind {record_kind:#x} and {length} words with another one in it"));
        }
    }
    let slot = strings.slot;
    let (ticks, id) = (u64::from_le_bytes(*ticks), u64::from_le_bytes(*id));
    let symbol = |number: u16| strings.names.get(number);
    let is_read = match record_kind {
        kind::STOP => {
            found.stop(slot, ticks, id);
            Some(())
        }
        kind::STATE => decode_state(payload).map(|state| found.state(slot, ticks, id, state)),
        kind::START..kind::STOP => {
            decode_start(record_kind, flags, payload, &symbol).map(|start| found.start(slot, ticks, id, &start))
        }
        _ => match decode(record_kind, flags, payload, &symbol) {
            None => None,
            Some(Decoded::Body(body)) => {
                found.record(Record { slot, ticks, id, body });
                Some(())
            }
            Some(Decoded::Name { number, text }) => {
                *strings.names.place(number, place.earlier.is_some())? = Some(strings.symbols.intern(&text));
                Some(())
            }
        },
    };
    is_read.map(|()| length).ok_or_else(|| format!("record of kind {record_kind:#x} and {length} words is invalid"))
}

/// Whether a word behind the first has the mark of its place. Checks all words without branches: runs for each record.
#[inline]
fn has_mark(record: &[Word], order: u64, at: usize) -> bool {
    let behind = record.iter().enumerate().skip(1);
    behind.fold(false, |any, (word, bytes)| any | (high(u64::from_le_bytes(*bytes)) == mark(order, at + word)))
}

/// Whether a word is a record header with this mark. No payload looks like one by chance.
fn is_record_head(word: Option<u64>, mark: u32) -> bool {
    word.is_some_and(|word| {
        let length = usize::try_from((word >> 16) & 0xffff).unwrap_or(0);
        let kind = u8::try_from(word & 0xff).unwrap_or(0);
        high(word) == mark
            && (RECORD_HEADER_WORDS..=RECORD_MAX_WORDS).contains(&length)
            && (1..=kind::STATE).contains(&kind)
    })
}

/// The most words that two records behind the committed ones can take, without the second's payload.
pub(crate) const BEHIND_WORDS: usize = RECORD_MAX_WORDS + 1;

/// The committed words of a segment, as far as the file has them, and the words of up to two records behind them.
pub(crate) fn read_words<'a>(place: &SegmentPlace, buffer: &'a mut Vec<u8>) -> io::Result<(&'a [Word], &'a [Word])> {
    let mut file = regular_files::open(&place.path, u64::MAX)?;
    file.seek(SeekFrom::Start(place.offset))?;
    let wanted = (place.committed + 8 * BEHIND_WORDS as u64).min(SEGMENT_BYTES as u64);
    buffer.clear();
    file.take(wanted).read_to_end(buffer)?;
    let (words, _) = buffer.as_chunks::<8>();
    let count = usize::try_from(place.committed / 8).unwrap_or(usize::MAX);
    Ok(words.split_at(count.min(words.len())))
}

/// The currently committed bytes; `None` if they cannot be read any more.
pub(crate) fn committed_now(file: &File, place: &SegmentPlace) -> Option<u64> {
    let mut bytes = [0; 8];
    file.read_exact_at(&mut bytes, place.offset + 8 * header::COMMITTED as u64).ok()?;
    Some(u64::from_le_bytes(bytes).min(SEGMENT_BYTES as u64))
}

/// Checks the end of a segment's committed bytes. The file has `end` words of them, followed by the words `beyond`.
pub(crate) fn problem_at_end(
    place: &SegmentPlace,
    end: usize,
    beyond: &[Word],
    committed_now: impl FnOnce() -> Option<u64>,
) -> Option<Problem> {
    let missing = (place.committed & !7).saturating_sub(8 * end as u64);
    if missing > 0 {
        let reason = format!("the file ends after {} bytes of the segment", 8 * end);
        return Some(place.problem(end, reason, missing));
    }
    // A process that died while writing a record leaves it uncommitted, but never two records.
    let records = || {
        let length = |at: usize| {
            let word = word_at(beyond, at).unwrap_or(0);
            let is_record = high(word) == mark(place.order, end + at);
            is_record.then_some(usize::from(u16::try_from((word >> 16) & 0xffff).unwrap_or(0)))
        };
        length(length(0)?)
    };
    // A running process has committed these records in the meantime.
    let is_damaged = records().is_some() && committed_now() == Some(place.committed);
    is_damaged.then(|| place.problem(end, "records continue beyond the committed bytes".to_owned(), 0))
}

pub(crate) const HEADER_BYTES: usize = 8 * HEADER_WORDS;

pub(crate) type HeadWords = [u64; HEADER_WORDS];

/// Contents of a place where a segment can begin.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Head {
    /// A prepared segment that is not in use yet, or whose process died while it wrote the header.
    Unused,
    /// Not a valid header.
    Damaged,
    /// A segment of a format version that is not read.
    OtherFormat(u32),
    /// A segment.
    Used(SegmentHead),
}

/// The header of a segment in use, without its counters.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SegmentHead {
    pub(crate) slot: u16,
    pub(crate) order: u64,
    pub(crate) committed: u64,
    pub(crate) process: Recorder,
    /// How many events of the slot had an id when a start was last lost.
    pub(crate) started_at_loss: u64,
    /// For a flight recording: what the header states about earlier segments.
    pub(crate) earlier: Option<OldestSegment>,
}

/// The process that wrote a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Recorder {
    pub(crate) tag: u16,
    pub(crate) id: u32,
    pub(crate) tick_source: TickSource,
    pub(crate) session_start_realtime_ns: u64,
}

pub(crate) fn head_words(bytes: &[u8; HEADER_BYTES]) -> HeadWords {
    let mut words = [0; HEADER_WORDS];
    let (chunks, _) = bytes.as_chunks::<8>();
    for (word, chunk) in words.iter_mut().zip(chunks) {
        *word = u64::from_le_bytes(*chunk);
    }
    words
}

impl Head {
    pub(crate) fn parse(words: &HeadWords) -> Self {
        let word = |index: usize| words.get(index).copied().unwrap_or(0);
        let version = word(header::VERSION);
        match word(header::MAGIC) {
            MAGIC => {}
            // Only a header is committed: the process died while it wrote the header, whose magic is written last.
            0 if word(header::COMMITTED) <= 8 * u64::from(high(version) & 0xffff) => return Self::Unused,
            _ => return Self::Damaged,
        }
        if !(OLDEST_READ..=FORMAT_VERSION).contains(&low(version)) {
            return Self::OtherFormat(low(version));
        }
        let events = |index: usize| word(index).min(MOST);
        let order = word(header::ORDER);
        let process = word(header::PROCESS);
        let source = (low(process) >> 16) & 0xff;
        let tick_source = TickSource::from_number(source);
        // 0 is no valid tag: all ids would belong to another process, and followers wait for a tag.
        if low(process) & 0xffff == 0
            || tick_source as u32 != source
            || (u64::from(high(version) & 0xffff), word(header::BYTES)) != (HEADER_WORDS as u64, SEGMENT_BYTES as u64)
            || word(header::COMMITTED) < HEADER_BYTES as u64
        {
            return Self::Damaged;
        }
        let is_flight = word(header::FLAGS) & segment_flag::FLIGHT != 0;
        Self::Used(SegmentHead {
            slot: u16::try_from(high(version) >> 16).unwrap_or(0),
            order,
            committed: word(header::COMMITTED).min(SEGMENT_BYTES as u64),
            process: Recorder {
                tag: u16::try_from(low(process) & 0xffff).unwrap_or(0),
                id: high(process),
                tick_source,
                session_start_realtime_ns: word(header::SESSION),
            },
            started_at_loss: events(header::STARTED_AT_LOSS),
            earlier: is_flight.then(|| OldestSegment {
                order,
                ticks: word(header::TICKS),
                started_before: events(header::STARTED_BEFORE),
                lost_before: events(header::LOST_BEFORE),
            }),
        })
    }
}

/// What the process could not record, from the segment headers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Losses {
    /// Starts not recorded, by kind.
    pub starts: [u64; Kind::COUNT],
    /// Stops not recorded, by kind. [`Kind::Unknown`] counts stops of handles that this process did not create.
    pub stops: [u64; Kind::COUNT],
    /// State changes not recorded, by kind.
    pub states: [u64; Kind::COUNT],
    /// Starts and ends of communicators not recorded.
    pub communicators: u64,
    /// How often a recording thread prepared a segment itself.
    pub stalls: u64,
    /// Proxy control events without a state: counted, not recorded one by one.
    pub empty_controls: u64,
    /// Repetitions of a waiting state: counted, not recorded one by one.
    pub repeated_waits: u64,
}

/// An upper bound of each counter: what one thread can lose of one kind in a day. A damaged header can contain any
/// number, and sums over all kinds and slots must not overflow.
pub(crate) const MOST: u64 = 1 << 42;

impl Losses {
    /// Everything that should have been recorded and was not.
    pub fn total(&self) -> u64 {
        [self.starts, self.stops, self.states].iter().flatten().sum::<u64>() + self.communicators
    }

    pub(crate) fn add(&mut self, other: &Self) {
        for (totals, more) in
            [(&mut self.starts, other.starts), (&mut self.stops, other.stops), (&mut self.states, other.states)]
        {
            for (total, more) in totals.iter_mut().zip(more) {
                *total += more;
            }
        }
        self.communicators += other.communicators;
        self.stalls += other.stalls;
        self.empty_controls += other.empty_controls;
        self.repeated_waits += other.repeated_waits;
    }

    /// The loss counters that begin at word `first` of a segment's header.
    fn at(head: &[u64], first: usize) -> Self {
        let from = |word: usize| first + word - header::LOST_STARTS;
        let word = |index: usize| head.get(from(index)).copied().unwrap_or(0).min(MOST);
        let by_kind = |word_of_first: usize| {
            let mut totals = [0; Kind::COUNT];
            for (total, index) in totals.iter_mut().zip(word_of_first..) {
                *total = word(index);
            }
            totals
        };
        Self {
            starts: by_kind(header::LOST_STARTS),
            stops: by_kind(header::LOST_STOPS),
            states: by_kind(header::LOST_STATES),
            communicators: word(header::LOST_COMMUNICATORS),
            ..Self::default()
        }
    }
}

/// The losses of a slot, from the header of its newest segment.
pub(crate) fn losses(head: &[u64]) -> Losses {
    let word = |index: usize| head.get(index).copied().unwrap_or(0).min(MOST);
    Losses {
        stalls: word(header::STALLS),
        empty_controls: word(header::EMPTY_CONTROLS),
        repeated_waits: word(header::REPEATED_WAITS),
        ..Losses::at(head, header::LOST_STARTS)
    }
}

/// Losses of threads without a slot.
pub(crate) fn slotless_losses(head: &[u64]) -> Losses {
    Losses::at(head, header::SLOTLESS_LOST)
}

/// What a flight recording recorded and then removed on purpose, as opposed to lost: from its oldest segments' headers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Removed {
    /// Whether the journal is a flight recording.
    pub is_window: bool,
    /// Removed starts of events.
    pub starts: u64,
    /// Removed segments.
    pub segments: u64,
    /// The tick from which the records of all threads are complete; 0 if nothing was removed.
    pub since_ticks: u64,
    /// Highest number of a removed event, by slot.
    last: BTreeMap<u16, u64>,
}

/// What the header of a slot's oldest segment states about earlier segments.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OldestSegment {
    pub(crate) order: u64,
    pub(crate) ticks: u64,
    pub(crate) started_before: u64,
    pub(crate) lost_before: u64,
}

impl Removed {
    pub(crate) fn add(&mut self, slot: u16, oldest: OldestSegment) {
        self.is_window = true;
        if oldest.order == 0 {
            return;
        }
        self.segments = self.segments.saturating_add(oldest.order);
        self.starts += oldest.started_before.saturating_sub(oldest.lost_before);
        self.since_ticks = self.since_ticks.max(oldest.ticks);
        self.last.insert(slot, oldest.started_before);
    }

    /// Whether the start of the event with this id was removed.
    pub fn has(&self, id: u64, process_tag: u16) -> bool {
        let id = EventId::from_raw(id);
        let last = self.last.get(&id.slot()).copied().unwrap_or(0);
        id.tag() == process_tag && !id.is_unrecorded() && id.sequence() <= last
    }

    /// How many later events of the same thread were removed as well; `None` if the event with this id was kept.
    pub fn starts_after(&self, id: u64, process_tag: u16) -> Option<u64> {
        let sequence = EventId::from_raw(id).sequence();
        let last = self.last.get(&EventId::from_raw(id).slot()).copied()?;
        self.has(id, process_tag).then(|| last.saturating_sub(sequence))
    }
}

/// Counts the records that are read from a segment, and keeps the highest event number.
pub(crate) struct CountingSink<'a, S> {
    sink: &'a mut S,
    pub(crate) records: u64,
    pub(crate) starts: u64,
    /// The highest number of an event.
    pub(crate) last: u64,
}

impl<'a, S> CountingSink<'a, S> {
    pub(crate) const fn new(sink: &'a mut S) -> Self {
        Self { sink, records: 0, starts: 0, last: 0 }
    }
}

impl<S: Records> Records for CountingSink<'_, S> {
    fn record(&mut self, record: Record) {
        self.records += 1;
        self.sink.record(record);
    }

    #[inline]
    fn start(&mut self, slot: u16, ticks: u64, id: u64, start: &Start<Symbol>) {
        self.records += 1;
        self.starts += 1;
        self.last = self.last.max(EventId::from_raw(id).sequence());
        self.sink.start(slot, ticks, id, start);
    }

    #[inline]
    fn stop(&mut self, slot: u16, ticks: u64, id: u64) {
        self.records += 1;
        self.sink.stop(slot, ticks, id);
    }

    #[inline]
    fn state(&mut self, slot: u16, ticks: u64, id: u64, state: (u32, StateArgs)) {
        self.records += 1;
        self.sink.state(slot, ticks, id, state);
    }
}

// A crash of the machine can leave later segments without earlier ones; so can a truncated or lost file.

/// A range of missing orders; both ends are inclusive.
pub(crate) type Gap = (u64, u64);

/// The gap before each of the sorted orders. The first order is expected to be 0.
pub(crate) fn gaps_before(orders: impl Iterator<Item = u64>) -> impl Iterator<Item = Option<Gap>> {
    let mut due = 0;
    orders.map(move |order| {
        let gap = (order > due).then(|| (due, order - 1));
        due = order.saturating_add(1).max(due);
        gap
    })
}

/// Problems for those of a process's `used` slots that have no segment and nothing at the place of their first one.
pub(crate) fn missing_slots(
    directory: &Path,
    found: impl Iterator<Item = u16>,
    used: u64,
) -> impl Iterator<Item = Problem> {
    gaps_before(found.map(u64::from).chain([used])).flatten().filter_map(|(from, to)| {
        let path = directory.join(format!("{from}.0"));
        // A running process may have created the file in the meantime.
        let mut magic = [0; 8];
        let read = regular_files::open(&path, u64::MAX).and_then(|mut file| file.read_exact(&mut magic));
        let is_there = read.is_ok() && magic != [0; 8];
        let reason = format!("the file is missing, empty or zeroed: no segment of slots {from} to {to}");
        (!is_there).then_some(Problem { path, offset: 0, reason, lost_bytes: 0 })
    })
}

/// The problem that segments of a slot are missing before this place.
pub(crate) fn missing_segments(slot: u16, (from, to): Gap, place: &SegmentPlace) -> Problem {
    let missing = (to - from).saturating_add(1);
    let reason = match missing {
        1 => format!("segment {from} of slot {slot} is missing before this one"),
        _ => format!("segments {from} to {to} of slot {slot} are missing before this one"),
    };
    place.problem(0, reason, missing.saturating_mul(SEGMENT_BYTES as u64))
}

/// The distinct strings of a journal, by number.
#[derive(Clone, Debug, Default)]
pub struct Symbols {
    texts: Vec<String>,
    numbers: BTreeMap<String, Symbol>,
}

impl Symbols {
    /// The number of a string; assigns the next number to a new string.
    pub fn intern(&mut self, text: &str) -> Symbol {
        if let Some(&symbol) = self.numbers.get(text) {
            return symbol;
        }
        self.texts.push(text.to_owned());
        let symbol = Symbol(u32::try_from(self.texts.len()).unwrap_or(u32::MAX));
        self.numbers.insert(text.to_owned(), symbol);
        symbol
    }

    /// The numbers of all strings.
    pub fn all(&self) -> impl Iterator<Item = Symbol> {
        (1_u32..).zip(&self.texts).map(|(number, _)| Symbol(number))
    }

    /// The string with this number; empty for [`Symbol::NONE`].
    pub fn text(&self, symbol: Symbol) -> &str {
        index(symbol.0).checked_sub(1).and_then(|index| self.texts.get(index)).map_or("", String::as_str)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::HEADER_WORDS;

    #[test]
    fn garbage_in_headers_adds_up() {
        let garbage = [u64::MAX; HEADER_WORDS];
        let mut sum = Losses::default();
        for _slot in 0..1 << 12 {
            sum.add(&losses(&garbage));
            sum.add(&slotless_losses(&garbage));
        }
        assert!(sum.total() > MOST, "{sum:?}");
    }
}
