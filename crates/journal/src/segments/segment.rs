//! The place of a segment in a journal, and the reading of its records one by one.

use std::fs::File;
use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::ops::Range;
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::sync::Arc;

use nccl_events::Kind;

use crate::format::decode::{Decoded, decode, decode_start, decode_state, usual_words};
use crate::format::layout::{RECORD_HEADER_WORDS, RECORD_MAX_WORDS, SEGMENT_BYTES, header, high, kind, mark};
use crate::format::record::{Record, Records, Symbol};
use crate::format::words::{Word, word_at};
use crate::segments::Problem;
use crate::segments::Symbols;
use crate::segments::head::SegmentHead;
use crate::segments::removed::OldestSegment;

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
        return Err(format!("record of kind {record_kind:#x} goes past the committed bytes"));
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
    is_read
        .map(|()| length)
        .ok_or_else(|| format!("record of kind {record_kind:#x} and {length} words does not make sense"))
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
    is_damaged.then(|| place.problem(end, "records go on behind the committed bytes".to_owned(), 0))
}
