//! The header of a segment.

use crate::clock::TickSource;
use crate::format::layout::{
    FORMAT_VERSION, HEADER_WORDS, MAGIC, OLDEST_READ, SEGMENT_BYTES, header, high, low, segment_flag,
};
use crate::segments::losses::MOST;
use crate::segments::removed::OldestSegment;

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
    pub(crate) fn of(words: &HeadWords) -> Self {
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
