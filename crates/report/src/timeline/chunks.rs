//! The events of the timeline in chunks of time: each is loaded as a whole or not at all.

use anyhow::Result;
use rayon::prelude::*;
use schemars::JsonSchema;
use serde::Serialize;

use super::events::{Event, NONE};
use crate::encoding::{pack, put, zigzag};

const EVENTS: usize = 16_384;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum At {
    Page,
    File,
    /// Not written: for this time the page shows only the overview.
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
    /// No chunk has events both of a `complete` time and of others.
    pub(super) fn of(mut events: Vec<Event>, complete: &[(u64, u64)]) -> Self {
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
        let of_moment = |ns: &u64| self.all.partition_point(|chunk| chunk.begin_ns <= *ns).saturating_sub(1);
        let mut order: Vec<usize> = ends.into_iter().chain(moments.iter().map(of_moment)).collect();
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
        put(&mut columns[0], u64::from(run[0].location - location));
        put(&mut columns[0], run.len() as u64);
        location = run[0].location;
        let mut before = chunk.begin_ns;
        for event in run {
            put(&mut columns[1], event.begin_ns - before);
            before = event.begin_ns;
        }
    }
    let or_none = |value: u64| value.wrapping_add(1);
    for (own, event) in (chunk.from as u64..).zip(events) {
        put(&mut columns[2], event.end_ns - event.begin_ns);
        put(&mut columns[3], event.name.into());
        put(&mut columns[4], or_none(event.waiting_ns));
        put(&mut columns[5], or_none(event.instance));
        put(&mut columns[6], or_none(event.attributes));
        let parent = number(event.parent).map(|parent| 1 + zigzag(own.cast_signed() - parent.cast_signed()));
        put(&mut columns[7], parent.unwrap_or(0));
        put(&mut columns[8], or_none(event.sequence));
    }
    let mut bytes = Vec::new();
    put(&mut bytes, events.len() as u64);
    columns.iter().for_each(|column| put(&mut bytes, column.len() as u64));
    bytes.extend(columns.concat());
    bytes
}
