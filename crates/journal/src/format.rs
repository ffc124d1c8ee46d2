//! The bytes of a journal, which `docs/FORMATS.md` specifies: constants, and how records become words and words
//! records.
//!
//! `decode` and `decode_start` read what the encoders (`start`, `state`, `put` and the slot writer) write: each
//! record's layout is defined once on each side. The records of GPUs are laid out by their structures in
//! `nccl_events::gpu`.

use nccl_events::event::{Field as _, StartSink};
use nccl_events::gpu::{Backend, ClockSample, Copy, Device, GpuRecord, Kernel, LaunchTime};
use nccl_events::range::{Range, RangeFields, RangeRecord};
use nccl_events::{Cause, EventSelection, Kind, Name, NetData, Span, Start, StateArgs, StepSwitch, Switch};

pub(crate) use nccl_events::event::Word;

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
    /// [`MAGIC`].
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
    /// Bits of [`crate::format::segment_flag`].
    pub const FLAGS: usize = 7;
    /// Valid bytes, header included. Published with release order after each record; alone on its cache line.
    pub const COMMITTED: usize = 8;
    /// How often the recording thread had to prepare a segment itself; running total of the slot.
    pub const STALLS: usize = 16;
    /// Starts of events not recorded, by kind; running totals of the slot.
    pub const LOST_STARTS: usize = 17;
    /// Stops not recorded, by kind; running totals of the slot.
    pub const LOST_STOPS: usize = LOST_STARTS + nccl_events::Kind::COUNT;
    /// State changes not recorded, by kind; running totals of the slot.
    pub const LOST_STATES: usize = LOST_STOPS + nccl_events::Kind::COUNT;
    /// Starts and ends of communicators not recorded.
    pub const LOST_COMMUNICATORS: usize = LOST_STATES + nccl_events::Kind::COUNT;
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
    /// segments may be gone ([`crate::format::segment_flag::FLIGHT`]).
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

/// A decoded record other than an event's, or a new string, which the reader itself must store.
pub(crate) enum Decoded {
    Body(RecordBody),
    Name { number: u16, text: String },
}

const fn signed(word: u32) -> i32 {
    word.cast_signed()
}

/// The text of `length` bytes that begins at `words[0]`.
fn text(words: &[Word], length: usize) -> Option<String> {
    Some(String::from_utf8_lossy(words.as_flattened().get(..length)?).into_owned())
}

/// Decodes the payload of a record other than an event's. `None` if the words do not fit the kind: a bad record.
#[inline]
pub(crate) fn decode(
    record_kind: u8,
    flags: u8,
    payload: &[Word],
    symbol: &impl Fn(u16) -> Option<Symbol>,
) -> Option<Decoded> {
    let word = |index: usize| word_at(payload, index);
    let body = match record_kind {
        kind::THREAD_BEGIN => RecordBody::ThreadBegin {
            thread_id: low(word(0)?),
            name: text(payload.get(1..)?, usize::try_from(high(word(0)?)).ok()?)?,
        },
        kind::THREAD_END => RecordBody::ThreadEnd,
        kind::NAME => {
            let length = usize::try_from(high(word(0)?)).ok()?;
            return Some(Decoded::Name { number: field16(word(0)?, 0), text: text(payload.get(1..)?, length)? });
        }
        kind::CLOCK_PAIR => RecordBody::ClockPair {
            monotonic_ns: word(0)?,
            realtime_ns: word(1)?,
            monotonic_raw_ns: word(2)?,
            uncertainty_ticks: word(3)?,
        },
        kind::COMM_INIT | kind::COMM_KNOWN => {
            let comm = CommRecord {
                end_ticks: word(0)?,
                comm_id: word(1)?,
                nodes: signed(low(word(2)?)),
                ranks: signed(high(word(2)?)),
                rank: signed(low(word(3)?)),
                nccl_version: high(word(3)?),
                name: symbol(field16(word(4)?, 0))?,
                table: field8(word(4)?, 2),
                repetition: high(word(4)?),
            };
            if record_kind == kind::COMM_INIT { RecordBody::CommInit(comm) } else { RecordBody::CommKnown(comm) }
        }
        kind::COMM_FINALIZE => RecordBody::CommFinalize { end_ticks: word(0)? },
        kind::SWITCH => RecordBody::Switch(Switch {
            cause: match low(word(2)?) {
                0 => Cause::File,
                1 => Cause::Signal,
                2 => Cause::Steps(StepSwitch {
                    range: Span::from_word(word(3)?),
                    started: word(4)?,
                    is_exact: high(word(2)?) & 1 != 0,
                    is_named: high(word(2)?) & 2 != 0,
                }),
                _ => return None,
            },
            before: wanted(word(0)?),
            after: wanted(word(1)?),
        }),
        kind::NOT_SELECTED => RecordBody::NotSelected(numbers(payload)?),
        kind::GPU_DEVICE..=kind::GPU_COUNTS => RecordBody::Gpu(decode_gpu(record_kind, flags, payload, symbol)?),
        kind::RANGE_PUSH..=kind::RANGE_COUNTS => RecordBody::Range(decode_range(record_kind, flags, payload, symbol)?),
        _ => return None,
    };
    Some(Decoded::Body(body))
}

/// Decodes the payload of an event's start; its record kind is `kind::START` plus the event's kind.
#[inline]
pub(crate) fn decode_start(
    record_kind: u8,
    flags: u8,
    payload: &[Word],
    symbol: &impl Fn(u16) -> Option<Symbol>,
) -> Option<Start<Symbol>> {
    let event_kind = Kind::from_number(record_kind.checked_sub(kind::START)?)?;
    Start::decode(event_kind, flags & flag::TRUE != 0, payload, symbol)
}

#[inline]
pub(crate) fn decode_state(payload: &[Word]) -> Option<(u32, StateArgs)> {
    let word = word_at(payload, 0)?;
    Some((low(word), state_args(high(word), payload)?))
}

/// Payload length of an event's record in words, in this version; `None` if the record has no fixed length.
#[inline]
pub(crate) fn usual_words(record_kind: u8, payload: &[Word]) -> Option<usize> {
    /// Indexed by what a change of state carries.
    const STATES: [u8; 6] = [1, 3, 2, 2, 2, 5];
    let of = |table: &[u8], at: u32| table.get(usize::try_from(at).ok()?).copied();
    let words = match record_kind {
        kind::STOP => 0,
        kind::STATE => of(&STATES, high(word_at(payload, 0)?))?,
        start => return Some(Kind::from_number(start.checked_sub(kind::START)?)?.words()),
    };
    Some(usize::from(words))
}

const fn wanted(word: u64) -> EventSelection {
    EventSelection { is_on: high(word) != 0, events: low(word) }
}

#[inline]
fn state_args(which: u32, payload: &[Word]) -> Option<StateArgs> {
    let word = |index: usize| word_at(payload, index);
    Some(match which {
        0 => StateArgs::None,
        1 => StateArgs::ProxyOp { bytes: word(1)?, steps: signed(low(word(2)?)) },
        2 => StateArgs::ProxyStep { bytes: word(1)? },
        3 => StateArgs::ProxyCtrl { appended: signed(low(word(1)?)) },
        4 => StateArgs::GpuTime { gpu_ns: word(1)? },
        5 => StateArgs::NetPlugin { data: NetData::take(payload, 1, 0)? },
        _ => return None,
    })
}

/// The number of a string in the journal. Zero means "no string".
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Symbol(pub u32);

impl Symbol {
    /// No string.
    pub const NONE: Self = Self(0);
}

/// One record.
#[derive(Clone, Debug, PartialEq)]
pub struct Record {
    /// The slot that contains the record.
    pub slot: u16,
    /// The tick source's value when the record was written.
    pub ticks: u64,
    /// The event or context that the record is about; 0 if there is none.
    pub id: u64,
    /// The content.
    pub body: RecordBody,
}

/// The content of a record.
#[derive(Clone, Debug, PartialEq)]
#[expect(missing_docs, reason = "fields named after the event model or the clocks they hold")]
pub enum RecordBody {
    ThreadBegin {
        thread_id: u32,
        name: String,
    },
    ThreadEnd,
    ClockPair {
        monotonic_ns: u64,
        realtime_ns: u64,
        monotonic_raw_ns: u64,
        uncertainty_ticks: u64,
    },
    CommInit(CommRecord),
    CommKnown(CommRecord),
    CommFinalize {
        end_ticks: u64,
    },
    /// The selection of what is recorded changed.
    Switch(Switch),
    /// Starts that were not selected, by kind.
    NotSelected([u64; Kind::COUNT]),
    /// A record about GPUs, which also determines the meaning of the record's id.
    Gpu(GpuRecord<Symbol>),
    /// A record about a range, which also determines the meaning of the record's id.
    Range(RangeRecord<Symbol>),
    Start(Start<Symbol>),
    Stop,
    State {
        state: u32,
        args: StateArgs,
    },
}

/// The creation of a communicator. The record's ticks are those of the call's start.
#[derive(Clone, Debug, PartialEq)]
#[expect(missing_docs, reason = "the fields of event::CommInit")]
pub struct CommRecord {
    pub end_ticks: u64,
    pub comm_id: u64,
    pub name: Symbol,
    pub nodes: i32,
    pub ranks: i32,
    pub rank: i32,
    pub table: u8,
    pub nccl_version: u32,
    /// Zero-based index among the communicators of the process with this id and size.
    pub repetition: u32,
}

/// Receives the records of a journal. Frequent records have fast paths: building a [`Record`] costs as much as reading.
pub trait Records {
    /// Takes any record.
    fn record(&mut self, record: Record);

    /// Takes an event's start.
    #[inline]
    fn start(&mut self, slot: u16, ticks: u64, id: u64, start: &Start<Symbol>) {
        let body = RecordBody::Start(*start);
        self.record(Record { slot, ticks, id, body });
    }

    /// Takes an event's stop.
    #[inline]
    fn stop(&mut self, slot: u16, ticks: u64, id: u64) {
        self.record(Record { slot, ticks, id, body: RecordBody::Stop });
    }

    /// Takes a change of state.
    #[inline]
    fn state(&mut self, slot: u16, ticks: u64, id: u64, (state, args): (u32, StateArgs)) {
        self.record(Record { slot, ticks, id, body: RecordBody::State { state, args } });
    }
}

impl<F: FnMut(Record)> Records for F {
    fn record(&mut self, record: Record) {
        self(record);
    }
}

// The recording side: straight code, no allocation. Payload words are counted from the end of the record header.

/// The number of a string in its slot.
pub(crate) type NameNumber = u16;

/// Takes payloads: the recording thread's slot writer. Each call appends one record of a length known at compile time.
pub(crate) trait Sink {
    /// Appends a record. Returns false if there was no room.
    fn put<const WORDS: usize>(&mut self, kind: u8, flags: u8, id: u64, payload: [u64; WORDS]) -> bool;
    /// The number of a string in this slot. The first use of a string records it.
    fn name(&mut self, name: Name<'_>) -> NameNumber;
}

#[inline]
const fn both(low: i32, high: i32) -> u64 {
    pair(low.cast_unsigned(), high.cast_unsigned())
}

#[inline]
pub(crate) const fn flags(truth: bool) -> u8 {
    if truth { flag::TRUE } else { 0 }
}

/// Appends the start of an event. Returns false if there was no room.
#[inline]
pub(crate) fn put_start(sink: &mut impl Sink, id: u64, event: &Start<Name<'_>>) -> bool {
    event.encode(&mut Starts { sink, id })
}

struct Starts<'a, K> {
    sink: &'a mut K,
    id: u64,
}

impl<K: Sink> StartSink for Starts<'_, K> {
    #[inline(always)]
    fn put<const WORDS: usize>(&mut self, kind: Kind, flag: bool, words: [u64; WORDS]) -> bool {
        self.sink.put(kind::START + kind as u8, flags(flag), self.id, words)
    }

    #[inline(always)]
    fn name(&mut self, name: Name<'_>) -> NameNumber {
        self.sink.name(name)
    }
}

/// Appends a change of an event's state. Returns false if there was no room.
#[inline]
pub(crate) fn put_state(sink: &mut impl Sink, event: &nccl_events::State) -> bool {
    let word = |which: u32| pair(event.state, which);
    match event.args {
        StateArgs::None => sink.put(kind::STATE, 0, event.event, [word(0)]),
        StateArgs::ProxyOp { bytes, steps } => sink.put(kind::STATE, 0, event.event, [word(1), bytes, both(steps, 0)]),
        StateArgs::ProxyStep { bytes } => sink.put(kind::STATE, 0, event.event, [word(2), bytes]),
        StateArgs::ProxyCtrl { appended } => sink.put(kind::STATE, 0, event.event, [word(3), both(appended, 0)]),
        StateArgs::GpuTime { gpu_ns } => sink.put(kind::STATE, 0, event.event, [word(4), gpu_ns]),
        StateArgs::NetPlugin { data } => {
            let mut words = [word(5), 0, 0, 0, 0];
            data.put(&mut words, 1, 0);
            sink.put(kind::STATE, 0, event.event, words)
        }
    }
}

/// Appends a record about GPUs. Returns false if there was no room.
pub(crate) fn put_gpu_record(sink: &mut impl Sink, id: u64, record: &GpuRecord<Name<'_>>) -> bool {
    macro_rules! put {
        ($kind:ident, $fields:expr) => {
            if let Some(fields) = $fields {
                let mut words = [0; _];
                let flag = fields.put(&mut words);
                sink.put(kind::$kind, flags(flag), id, words)
            } else {
                false
            }
        };
    }
    match *record {
        GpuRecord::Device(device) => {
            put!(GPU_DEVICE, device.map_names(|name| Some(sink.name(name))))
        }
        GpuRecord::DeviceOfCommunicator { ordinal } => sink.put(kind::GPU_OF_COMMUNICATOR, 0, id, [u64::from(ordinal)]),
        GpuRecord::Clock(sample) => put!(GPU_CLOCK, Some(sample)),
        GpuRecord::Kernel(kernel) => {
            put!(GPU_KERNEL, kernel.map_names(|name| Some(sink.name(name))))
        }
        GpuRecord::Copy(copy) => put!(GPU_COPY, Some(copy)),
        GpuRecord::LaunchTime(time) => put!(GPU_LAUNCH_TIME, Some(time)),
        GpuRecord::Notice { backend, text } => {
            let text = sink.name(text);
            let word = pair(backend as u32, u32::from(text));
            sink.put(kind::GPU_NOTICE, 0, id, [word])
        }
        GpuRecord::Counts(counts) => sink.put(kind::GPU_COUNTS, 0, id, counts),
    }
}

/// Decodes the payload of a record about GPUs. `None` if the kind is another one or the words do not fit it.
pub(crate) fn decode_gpu(
    record_kind: u8,
    flags: u8,
    payload: &[Word],
    symbol: &impl Fn(u16) -> Option<Symbol>,
) -> Option<GpuRecord<Symbol>> {
    let flag = flags & flag::TRUE != 0;
    Some(match record_kind {
        kind::GPU_DEVICE => GpuRecord::Device(Device::take(flag, payload)?.map_names(symbol)?),
        kind::GPU_OF_COMMUNICATOR => GpuRecord::DeviceOfCommunicator { ordinal: low(word_at(payload, 0)?) },
        kind::GPU_CLOCK => GpuRecord::Clock(ClockSample::take(flag, payload)?),
        kind::GPU_KERNEL => GpuRecord::Kernel(Kernel::take(flag, payload)?.map_names(symbol)?),
        kind::GPU_COPY => GpuRecord::Copy(Copy::take(flag, payload)?),
        kind::GPU_LAUNCH_TIME => GpuRecord::LaunchTime(LaunchTime::take(flag, payload)?),
        kind::GPU_NOTICE => GpuRecord::Notice {
            backend: Backend::from_number(field8(word_at(payload, 0)?, 0))?,
            text: symbol(field16(word_at(payload, 0)?, 2))?,
        },
        kind::GPU_COUNTS => GpuRecord::Counts(numbers(payload)?),
        _ => return None,
    })
}

// The slot writer encodes records about ranges: their length depends on their fields.

/// The first word of a record that begins a range: name, domain, category, level.
#[inline]
pub(crate) const fn begin_word([name, domain, category]: [u16; 3], level: u16) -> u64 {
    name as u64 | (domain as u64) << 16 | (category as u64) << 32 | (level as u64) << 48
}

/// The first word of a record that ends a range.
#[inline]
pub(crate) const fn end_word(level: u16) -> u64 {
    begin_word([0; 3], level)
}

/// Decodes the payload of a record about ranges. `None` if the words do not fit the kind.
pub(crate) fn decode_range(
    record_kind: u8,
    flags: u8,
    payload: &[Word],
    symbol: &impl Fn(u16) -> Option<Symbol>,
) -> Option<RangeRecord<Symbol>> {
    if record_kind == kind::RANGE_COUNTS {
        return Some(RangeRecord::Counts(numbers(payload)?));
    }
    let first = word_at(payload, 0)?;
    let [name, domain, category, level] = [0, 1, 2, 3].map(|index| field16(first, index));
    let values = payload.iter().skip(2).map(|word| u64::from_le_bytes(*word));
    let fields = RangeFields::from_words(word_at(payload, 1).unwrap_or(0), values)?;
    let range = || Some(Range { domain: symbol(domain)?, name: symbol(name)?, category: symbol(category)?, fields });
    let is_repeated = flags & flag::TRUE != 0;
    Some(match record_kind {
        kind::RANGE_PUSH => RangeRecord::Push { level, is_repeated, range: range()? },
        kind::RANGE_POP => RangeRecord::Pop { level, fields },
        kind::RANGE_MARK => RangeRecord::Mark(range()?),
        kind::RANGE_START => RangeRecord::Start { is_repeated, range: range()? },
        kind::RANGE_END => RangeRecord::End { fields },
        _ => return None,
    })
}

#[inline]
pub(crate) fn word_at(words: &[Word], index: usize) -> Option<u64> {
    words.get(index).map(|word| u64::from_le_bytes(*word))
}

/// The words of a payload with exactly `N` words; `None` for another length.
pub(crate) fn numbers<const N: usize>(words: &[Word]) -> Option<[u64; N]> {
    let words: &[Word; N] = words.try_into().ok()?;
    Some(words.map(u64::from_le_bytes))
}

#[expect(clippy::cast_possible_truncation, reason = "takes one 16-bit field out of a word")]
pub(crate) const fn field16(word: u64, index: u32) -> u16 {
    (word >> (16 * index)) as u16
}

#[expect(clippy::cast_possible_truncation, reason = "takes one 8-bit field out of a word")]
pub(crate) const fn field8(word: u64, index: u32) -> u8 {
    (word >> (8 * index)) as u8
}
