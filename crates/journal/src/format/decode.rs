//! Decodes records from their words.
//!
//! [`crate::format::encode`] turns borrowed events into words on the writing side; this module reads them back. One
//! `match` here and one there define each record's layout.

use crate::format::layout::{flag, high, kind, low};
use crate::format::record::{CommRecord, RecordBody, Symbol};
use crate::format::words::{Word, field8, field16, numbers, word_at};
use nccl_events::control::Span;
use nccl_events::control::{Cause, StepSwitch, Switch, Wanted};
use nccl_events::event::Field as _;
use nccl_events::{Kind, NetData, Start, StateArgs};

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
        kind::GPU_DEVICE..=kind::GPU_COUNTS => {
            RecordBody::Gpu(crate::format::gpu::decode(record_kind, flags, payload, symbol)?)
        }
        kind::RANGE_PUSH..=kind::RANGE_COUNTS => {
            RecordBody::Range(crate::format::range::decode(record_kind, flags, payload, symbol)?)
        }
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

const fn wanted(word: u64) -> Wanted {
    Wanted { is_on: high(word) != 0, events: low(word) }
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
