//! The events of the timeline in chunks of time, and their attributes as sets that many events have alike. The page
//! gets both as compact data: numbers as LEB128, deflated, in base64.
//!
//! A chunk is loaded as a whole or not at all. [`PageBudget`] says which windows have room for their events.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::timeline::plan::Plan;
use anyhow::{Context as _, Result};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use flate2::Compression;
use flate2::write::ZlibEncoder;
use nccl_events::schema::attribute::AttributeId;
use otf2::{AttributeRef, AttributeValue};
use rayon::prelude::*;
use schemars::JsonSchema;
use serde::Serialize;

pub(crate) fn put_varint(bytes: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        bytes.push(value.to_le_bytes()[0] | 0x80);
        value >>= 7;
    }
    bytes.push(value.to_le_bytes()[0]);
}

/// Maps signed to unsigned numbers such that small ones stay small.
pub(crate) const fn zigzag(value: i64) -> u64 {
    ((value << 1) ^ (value >> 63)).cast_unsigned()
}

pub(crate) fn pack(bytes: &[u8]) -> Result<String> {
    let mut encoder = ZlibEncoder::new(Vec::new(), Compression::default());
    let deflated = encoder.write_all(bytes).and_then(|()| encoder.finish()).context("cannot deflate")?;
    Ok(STANDARD.encode(deflated))
}

const EVENTS: usize = 16_384;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum At {
    Page,
    File,
    /// Left out: for the chunk's time, the page only shows the overview.
    None,
}

#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Chunk {
    begin_ns: u64,
    /// The latest end of an event that begins in the chunk.
    end_ns: u64,
    pub(crate) events: usize,
    pub(crate) at: At,
    #[serde(skip)]
    waiting_ns: u64,
    #[serde(skip)]
    from: usize,
}

#[derive(Debug, Default)]
pub(crate) struct Chunks {
    pub(crate) all: Vec<Chunk>,
    events: Vec<Event>,
    numbers: Vec<(u64, u64)>,
}

impl Chunks {
    /// Cuts the events into chunks. A chunk begins either within one of the times in `complete` or outside of all.
    pub(crate) fn new(mut events: Vec<Event>, complete: &[(u64, u64)]) -> Self {
        events.par_sort_unstable_by_key(|event| (event.begin_ns, event.location, event.depth));
        let time = |event: &Event| {
            let behind = complete.partition_point(|(_, end_ns)| *end_ns < event.begin_ns);
            (behind, complete.get(behind).is_some_and(|(begin_ns, _)| *begin_ns <= event.begin_ns))
        };
        let mut all = Vec::new();
        let mut from = 0;
        for part in events.chunk_by_mut(|a, b| time(a) == time(b)).flat_map(|part| part.chunks_mut(EVENTS)) {
            let begin_ns = part.first().map_or(0, |event| event.begin_ns);
            part.sort_unstable_by_key(|event| (event.location, event.begin_ns, event.depth));
            let waiting = part.iter().filter(|event| event.waiting_ns != NONE);
            all.push(Chunk {
                begin_ns,
                end_ns: part.iter().map(|event| event.end_ns).max().unwrap_or(begin_ns),
                events: part.len(),
                at: At::None,
                waiting_ns: waiting.map(|event| event.waiting_ns).sum(),
                from,
            });
            from += part.len();
        }
        // The enqueueing of an operation shares its id, but a lookup by id must find the operation.
        let key = |(number, event): (u64, &Event)| (event.event, !event.is_operation, number);
        let mut keys: Vec<(u64, bool, u64)> = (0..).zip(&events).map(key).collect();
        keys.par_sort_unstable();
        keys.dedup_by_key(|(event, ..)| *event);
        Self { all, events, numbers: keys.into_iter().map(|(event, _, number)| (event, number)).collect() }
    }

    /// Chunk indices by importance: first and last, then those with `moments`, then by how long ranks waited in them.
    pub(crate) fn by_weight(&self, moments: &[u64]) -> Vec<usize> {
        let ends = [0, self.all.len().saturating_sub(1)];
        let chunk_at = |ns: &u64| self.all.partition_point(|chunk| chunk.begin_ns <= *ns).saturating_sub(1);
        let mut order: Vec<usize> = ends.into_iter().chain(moments.iter().map(chunk_at)).collect();
        let mut rest: Vec<usize> = (0..self.all.len()).collect();
        nccl_events::sort::sort_by_key(&mut rest, |at| std::cmp::Reverse(self.all[*at].waiting_ns));
        order.append(&mut rest);
        let mut seen = vec![false; self.all.len()];
        order.retain(|at| seen.get_mut(*at).is_some_and(|seen| !std::mem::replace(seen, true)));
        order
    }

    pub(crate) fn text(&self, at: usize) -> Result<String> {
        let chunk = &self.all[at];
        pack(&encode(&self.events[chunk.from..chunk.from + chunk.events], chunk, |event| self.number(event)))
    }

    fn number(&self, event: u64) -> Option<u64> {
        let at = self.numbers.binary_search_by_key(&event, |(event, _)| *event).ok();
        at.filter(|_| event != 0).map(|at| self.numbers[at].1)
    }
}

/// The format read by `page/js/encoding.js`: number of events, lengths of nine columns, and the columns.
fn encode(events: &[Event], chunk: &Chunk, number: impl Fn(u64) -> Option<u64>) -> Vec<u8> {
    let mut columns: [Vec<u8>; 9] = Default::default();
    let mut location = 0;
    for run in events.chunk_by(|a, b| a.location == b.location) {
        put_varint(&mut columns[0], u64::from(run[0].location - location));
        put_varint(&mut columns[0], run.len() as u64);
        location = run[0].location;
        let mut before = chunk.begin_ns;
        for event in run {
            put_varint(&mut columns[1], event.begin_ns - before);
            before = event.begin_ns;
        }
    }
    let or_none = |value: u64| value.wrapping_add(1);
    for (own, event) in (chunk.from as u64..).zip(events) {
        put_varint(&mut columns[2], event.end_ns - event.begin_ns);
        put_varint(&mut columns[3], event.name.into());
        put_varint(&mut columns[4], or_none(event.waiting_ns));
        put_varint(&mut columns[5], or_none(event.instance));
        put_varint(&mut columns[6], or_none(event.attributes));
        let parent = number(event.parent).map(|parent| 1 + zigzag(own.cast_signed() - parent.cast_signed()));
        put_varint(&mut columns[7], parent.unwrap_or(0));
        put_varint(&mut columns[8], or_none(event.sequence));
    }
    let mut bytes = Vec::new();
    put_varint(&mut bytes, events.len() as u64);
    columns.iter().for_each(|column| put_varint(&mut bytes, column.len() as u64));
    bytes.extend(columns.concat());
    bytes
}

/// The reason for which an event is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SelectionReason {
    /// The event is in a window. It is dropped if the window does not fit into the page.
    Window,
    Chosen,
    /// The event is the longest in its part of the time. It is dropped if its window fits, which contains it, too.
    Longest,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct KeptEvent {
    pub(crate) event: Event,
    pub(crate) why: SelectionReason,
    /// The `place` of the window that contains the event.
    pub(crate) place: u32,
}

impl KeptEvent {
    pub(crate) const fn stays(&self, fitting: u32) -> bool {
        match self.why {
            SelectionReason::Chosen => true,
            SelectionReason::Window => self.place < fitting,
            SelectionReason::Longest => self.place >= fitting,
        }
    }

    pub(crate) const fn length_ns(&self) -> u64 {
        self.event.end_ns - self.event.begin_ns
    }
}

/// Counts the events in each window, most important window first. Less important windows are dropped if the events do
/// not fit.
#[derive(Debug)]
pub(crate) struct PageBudget {
    in_windows: Vec<AtomicU64>,
    most: u64,
}

impl PageBudget {
    pub(crate) fn new(plan: &Plan) -> Self {
        let in_windows = (0..plan.windows.len()).map(|_| AtomicU64::new(0)).collect();
        Self { in_windows, most: plan.most_in_windows }
    }

    /// Adds numbers of events per window, and resets them. Returns how many windows fit, judging by the events so far.
    pub(crate) fn add(&self, events: &mut [u64]) -> u32 {
        let (mut sum, mut fitting) = (0, 0);
        for (all, own) in self.in_windows.iter().zip(events) {
            sum += all.fetch_add(*own, Ordering::Relaxed) + *own;
            *own = 0;
            fitting += u32::from(sum <= self.most);
        }
        fitting
    }
}

/// After this many distinct sets, new sets drop all numbers except bytes, because nearly every set would be unique.
pub(crate) const MOST_SETS: usize = 20_000;

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(untagged)]
pub(crate) enum Value {
    Text(String),
    Number(i64),
}

pub(crate) type Set = Vec<(String, Value)>;

/// A set as in the archive. Values are numbers, or references of strings.
pub(crate) type Key = Vec<(AttributeRef, i64)>;

/// Distinct sets of attributes. Many events share a set, which is stored once.
#[derive(Debug, Default)]
pub(crate) struct AttributeSets {
    pub(crate) all: Vec<Set>,
    known: BTreeMap<Set, u64>,
}

impl AttributeSets {
    pub(crate) fn number(&mut self, mut set: Set) -> u64 {
        if self.known.len() >= MOST_SETS && !self.known.contains_key(&set) {
            set.retain(|(name, value)| matches!(value, Value::Text(_)) || name == AttributeId::Bytes.name());
        }
        if set.is_empty() {
            return NONE;
        }
        *self.known.entry(set).or_insert_with_key(|set| {
            self.all.push(set.clone());
            self.all.len() as u64 - 1
        })
    }
}

/// An integer, or the reference of a string; `None` for other values.
pub(crate) fn bits(value: AttributeValue) -> Option<i64> {
    match value {
        AttributeValue::U64(number) => Some(number.cast_signed()),
        AttributeValue::U32(number) => Some(number.into()),
        AttributeValue::U16(number) => Some(number.into()),
        AttributeValue::U8(number) => Some(number.into()),
        AttributeValue::I64(number) => Some(number),
        AttributeValue::I32(number) => Some(number.into()),
        AttributeValue::String(string) => Some(string.get().into()),
        _ => None,
    }
}

/// No set of attributes, no instance, no waiting time.
pub(crate) const NONE: u64 = u64::MAX;

/// An event of the timeline, with only the fields that sorting and linking need.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Event {
    pub(crate) begin_ns: u64,
    pub(crate) end_ns: u64,
    pub(crate) event: u64,
    /// The id of its parent; 0 if it has none.
    pub(crate) parent: u64,
    pub(crate) waiting_ns: u64,
    pub(crate) sequence: u64,
    pub(crate) instance: u64,
    pub(crate) attributes: u64,
    pub(crate) location: u32,
    pub(crate) name: u32,
    pub(crate) depth: u32,
    /// Whether the event is an operation. The enqueueing of the operation has the same id.
    pub(crate) is_operation: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_leb128() {
        let mut bytes = Vec::new();
        for value in [0, 127, 128, 300] {
            put_varint(&mut bytes, value);
        }
        assert_eq!(bytes, [0, 127, 0x80, 1, 0xac, 2]);
        assert_eq!([0, -1, 1, -2].map(zigzag), [0, 1, 2, 3]);
    }
}
