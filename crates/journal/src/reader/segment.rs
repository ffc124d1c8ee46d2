//! Where a segment of a journal lies, and how one record after the other is read from it.

use std::fs::File;
use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::os::unix::fs::FileExt as _;
use std::path::PathBuf;

use crate::format::decode::{Decoded, decode, decode_start, decode_state, usual_words};
use crate::format::layout::{RECORD_HEADER_WORDS, RECORD_MAX_WORDS, SEGMENT_BYTES, header, high, kind, mark};
use crate::format::record::{Record, Records, Symbol};
use crate::format::words::{Word, word_at};
use crate::reader::removed::OldestSegment;
use crate::reader::symbols::Symbols;

/// Where a segment lies.
#[derive(Clone, Debug)]
pub(crate) struct SegmentPlace {
    pub(crate) path: PathBuf,
    pub(crate) offset: u64,
    pub(crate) order: u64,
    pub(crate) committed: u64,
    /// In a window: what it says of those before it.
    pub(crate) alone: Option<OldestSegment>,
}

/// The strings of a slot by number. In a window they come in any order, and some never.
#[derive(Debug)]
pub(crate) struct Names(Vec<Option<Symbol>>);

impl Names {
    pub(crate) fn new() -> Self {
        Self(vec![Some(Symbol::NONE)])
    }

    fn get(&self, number: u16) -> Option<Symbol> {
        self.0.get(usize::from(number)).copied().flatten()
    }

    /// Where a string goes, unless another number was due.
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

/// Reads the record at `at` and gives what it says, unless it is a new string. Returns how long it is.
#[inline]
pub(crate) fn read_record(
    segment: &[Word],
    at: usize,
    place: &SegmentPlace,
    slot: u16,
    names: &mut Names,
    symbols: &mut Symbols,
    found: &mut impl Records,
) -> Result<usize, String> {
    let head = word_at(segment, at).unwrap_or(0);
    let record_kind = u8::try_from(head & 0xff).unwrap_or(0);
    let flags = u8::try_from((head >> 8) & 0xff).unwrap_or(0);
    let length = usize::try_from((head >> 16) & 0xffff).unwrap_or(0);
    if high(head) != mark(place.order, at) {
        return Err(format!("no record here: word {head:#018x}"));
    }
    if !(RECORD_HEADER_WORDS..=RECORD_MAX_WORDS).contains(&length) {
        return Err(format!("record of kind {record_kind:#x} with a length of {length} words"));
    }
    let Some(record) = segment.get(at..at + length) else {
        return Err(format!("record of kind {record_kind:#x} goes past the committed bytes"));
    };
    let [_, ticks, id, payload @ ..] = record else {
        return Err("record without a header".to_owned());
    };
    // A length that was changed so that it fits again swallows whole records: one that is not as usual is looked
    // through.
    if usual_words(record_kind, payload) != Some(payload.len()) {
        let begins = |word: usize| is_record_head(word_at(record, word), mark(place.order, at + word));
        if has_mark(record, place.order, at) && (1..length).any(begins) {
            return Err(format!("record of kind {record_kind:#x} and {length} words with another one in it"));
        }
    }
    let (ticks, id) = (u64::from_le_bytes(*ticks), u64::from_le_bytes(*id));
    let symbol = |number: u16| names.get(number);
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
                *names.place(number, place.alone.is_some())? = Some(symbols.intern(&text));
                Some(())
            }
        },
    };
    is_read
        .map(|()| length)
        .ok_or_else(|| format!("record of kind {record_kind:#x} and {length} words does not make sense"))
}

/// Whether a word behind the first has the mark of its place. Looks at all, without a branch: each record is asked.
#[inline]
fn has_mark(record: &[Word], order: u64, at: usize) -> bool {
    let behind = record.iter().enumerate().skip(1);
    behind.fold(false, |any, (word, bytes)| any | (high(u64::from_le_bytes(*bytes)) == mark(order, at + word)))
}

/// Whether a word begins a record at the place of this mark: no payload looks so by chance.
fn is_record_head(word: Option<u64>, mark: u32) -> bool {
    word.is_some_and(|word| {
        let length = usize::try_from((word >> 16) & 0xffff).unwrap_or(0);
        let kind = u8::try_from(word & 0xff).unwrap_or(0);
        high(word) == mark
            && (RECORD_HEADER_WORDS..=RECORD_MAX_WORDS).contains(&length)
            && (1..=kind::STATE).contains(&kind)
    })
}

/// The committed words of a segment, as far as the file has them, and those of two records behind.
pub(crate) fn read_words<'a>(place: &SegmentPlace, buffer: &'a mut Vec<u8>) -> io::Result<(&'a [Word], &'a [Word])> {
    let mut file = File::open(&place.path)?;
    file.seek(SeekFrom::Start(place.offset))?;
    let behind = 8 * (RECORD_MAX_WORDS as u64 + 1);
    let wanted = (place.committed + behind).min(SEGMENT_BYTES as u64);
    buffer.clear();
    file.take(wanted).read_to_end(buffer)?;
    let (words, _) = buffer.as_chunks::<8>();
    let count = usize::try_from(place.committed / 8).unwrap_or(usize::MAX);
    Ok(words.split_at(count.min(words.len())))
}

/// How many bytes are committed at this moment; none where that cannot be read any more.
pub(crate) fn committed_now(place: &SegmentPlace) -> Option<u64> {
    let word = place.offset + 8 * header::COMMITTED as u64;
    let mut bytes = [0; 8];
    let file = File::open(&place.path).ok()?;
    file.read_exact_at(&mut bytes, word).ok()?;
    Some(u64::from_le_bytes(bytes).min(SEGMENT_BYTES as u64))
}
