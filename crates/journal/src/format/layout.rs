//! The journal's constants: magic, version, header words, record header. `docs/FORMATS.md` describes them.

use nccl_events::Kind;

/// First word of every segment: `NCCLOTF2` as bytes on disk.
pub const MAGIC: u64 = u64::from_le_bytes(*b"NCCLOTF2");
/// Version of the format: every change to a record's words raises it.
pub const FORMAT_VERSION: u32 = 2;
/// The oldest version that is read: its header is the same, and so are the numbers of its records.
pub const OLDEST_READ: u32 = 1;

/// Bytes of a segment, header included.
pub const SEGMENT_BYTES: usize = 1 << 20;
/// Words of a segment.
pub const SEGMENT_WORDS: usize = SEGMENT_BYTES / 8;
/// Segments in one journal file. A full file is followed by the file with the next number.
pub const SEGMENTS_PER_FILE: usize = 64;
/// Words of the segment header.
pub const HEADER_WORDS: usize = 128;

/// Indices of the words of the segment header. Unnamed words are zero.
pub mod header {
    /// [`super::MAGIC`].
    pub const MAGIC: usize = 0;
    /// Low half: format version. High half: header words (16 bits), then slot (16 bits).
    pub const VERSION: usize = 1;
    /// Zero-based index of the segment in its slot.
    pub const ORDER: usize = 2;
    /// Low 16 bits: process tag; next 8: tick source; high half: process id.
    pub const PROCESS: usize = 3;
    /// Start of the session, CLOCK_REALTIME ns; the same in all segments of a part.
    pub const SESSION: usize = 4;
    /// Bytes of the segment.
    pub const BYTES: usize = 5;
    /// Ticks at which the segment came into use.
    pub const TICKS: usize = 6;
    /// Bits of [`super::segment_flag`].
    pub const FLAGS: usize = 7;
    /// Valid bytes, header included. Published with release order after each record; alone on its cache line.
    pub const COMMITTED: usize = 8;
    /// How often the recording thread had to prepare a segment itself; running total of the slot.
    pub const STALLS: usize = 16;
    /// Starts of events not recorded, by kind; running totals of the slot.
    pub const LOST_STARTS: usize = 17;
    /// Stops not recorded, by kind; running totals of the slot.
    pub const LOST_STOPS: usize = LOST_STARTS + super::Kind::COUNT;
    /// State changes not recorded, by kind; running totals of the slot.
    pub const LOST_STATES: usize = LOST_STOPS + super::Kind::COUNT;
    /// Starts and ends of communicators not recorded.
    pub const LOST_COMMUNICATORS: usize = LOST_STATES + super::Kind::COUNT;
    /// Number of loss counters.
    pub const LOST_WORDS: usize = LOST_COMMUNICATORS + 1 - LOST_STARTS;
    /// Proxy control events without a state, counted instead of recorded; running total of the slot.
    pub const EMPTY_CONTROLS: usize = LOST_STARTS + LOST_WORDS;
    /// Repetitions of a waiting state, counted instead of recorded; running total of the slot.
    pub const REPEATED_WAITS: usize = EMPTY_CONTROLS + 1;
    /// How many events of the slot had an id when a start was last lost; 0 if no start was lost.
    pub const STARTED_AT_LOSS: usize = REPEATED_WAITS + 1;
    /// Losses of threads without a slot, as [`LOST_STARTS`] orders them. Only in the first segment of the first slot.
    pub const SLOTLESS_LOST: usize = STARTED_AT_LOSS + 1;
    /// How many events of the slot had an id when the segment came into use. Used, like [`LOST_BEFORE`], only if older
    /// segments may be gone ([`super::segment_flag::FLIGHT`]).
    pub const STARTED_BEFORE: usize = SLOTLESS_LOST + LOST_WORDS;
    /// How many of the events counted in [`STARTED_BEFORE`] had been lost.
    pub const LOST_BEFORE: usize = STARTED_BEFORE + 1;
    /// Number of slots that the process has used. Only in the first segment of its first slot.
    pub const SLOTS: usize = LOST_BEFORE + 1;
}

/// Bits of a segment's flags.
pub mod segment_flag {
    /// A flight recording: only the last segments of a slot are kept. Each can be read without its predecessors: it
    /// repeats which thread writes, and every string that it uses, under the string's number in the slot.
    pub const FLIGHT: u64 = 1;
}

const _: () = assert!(header::SLOTS < HEADER_WORDS);
// The header, the kinds and the words of their starts belong to this version of the format.
const _: () = match (OLDEST_READ, FORMAT_VERSION, HEADER_WORDS, words_of_starts(&Kind::ALL), Kind::COUNT) {
    (1, 2, 128, 95, 17) => (),
    _ => panic!("another header, kind or length of a start is another version of the format: docs/FORMATS.md, 8"),
};

const fn words_of_starts(kinds: &[Kind]) -> usize {
    match kinds {
        [first, rest @ ..] => first.words() + words_of_starts(rest),
        [] => 0,
    }
}

const _: () = assert!(SEGMENT_BYTES.is_multiple_of(4096));

/// Words of a record's header: kind and length, ticks, id.
pub const RECORD_HEADER_WORDS: usize = 3;
/// The longest record, in words.
pub const RECORD_MAX_WORDS: usize = 48;

/// Record kinds (`docs/FORMATS.md` §6).
#[expect(missing_docs, reason = "the names of the records")]
pub mod kind {
    pub const THREAD_BEGIN: u8 = 0x01;
    pub const THREAD_END: u8 = 0x02;
    /// A string and the number that stands for it in this slot from now on.
    pub const NAME: u8 = 0x03;
    pub const CLOCK_PAIR: u8 = 0x04;
    pub const COMM_INIT: u8 = 0x05;
    pub const COMM_FINALIZE: u8 = 0x06;
    /// Repeats [`COMM_INIT`], which a flight recording may have removed.
    pub const COMM_KNOWN: u8 = 0x07;
    pub const SWITCH: u8 = 0x08;
    pub const NOT_SELECTED: u8 = 0x09;
    pub const GPU_DEVICE: u8 = 0x10;
    pub const GPU_OF_COMMUNICATOR: u8 = 0x11;
    pub const GPU_CLOCK: u8 = 0x12;
    pub const GPU_KERNEL: u8 = 0x13;
    pub const GPU_COPY: u8 = 0x14;
    pub const GPU_LAUNCH_TIME: u8 = 0x15;
    pub const GPU_NOTICE: u8 = 0x16;
    pub const GPU_COUNTS: u8 = 0x17;
    pub const RANGE_PUSH: u8 = 0x18;
    pub const RANGE_POP: u8 = 0x19;
    pub const RANGE_MARK: u8 = 0x1a;
    pub const RANGE_START: u8 = 0x1b;
    pub const RANGE_END: u8 = 0x1c;
    pub const RANGE_COUNTS: u8 = 0x1d;
    /// An event started. The record kind is this plus the event kind.
    pub const START: u8 = 0x20;
    pub const STOP: u8 = 0x40;
    pub const STATE: u8 = 0x41;
}

/// Bits of a record's flag byte.
pub mod flag {
    /// The event's only boolean: captured, symmetric, complete or intra-batch. Of a range: the record is a repetition.
    pub const TRUE: u8 = 1;
}

/// The first word of a record: kind, flags, length in words, and a mark that is valid only at this place of this
/// segment, so that stale or torn bytes are recognised.
#[inline]
pub const fn record_word(kind: u8, flags: u8, words: u16, mark: u32) -> u64 {
    kind as u64 | (flags as u64) << 8 | (words as u64) << 16 | (mark as u64) << 32
}

/// The mark of a record that begins at `word` of the segment with this `order`.
#[inline]
#[expect(
    clippy::cast_possible_truncation,
    reason = "a mark needs only the low bits of the order; words fit in 32 bits"
)]
pub const fn mark(order: u64, word: usize) -> u32 {
    (order as u32).wrapping_mul(0x9e37_79b1) ^ (word as u32) ^ 0x4f54_4632
}

/// Two 32-bit numbers in one word, the first in the low half.
#[inline]
pub const fn pair(low: u32, high: u32) -> u64 {
    low as u64 | (high as u64) << 32
}

/// The low half of a word.
#[inline]
#[expect(clippy::cast_possible_truncation, reason = "the low half is asked for")]
pub const fn low(word: u64) -> u32 {
    word as u32
}

/// The high half of a word.
#[inline]
pub const fn high(word: u64) -> u32 {
    (word >> 32) as u32
}
