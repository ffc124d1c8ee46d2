//! Iterates over the events and states of a process.

use std::collections::BTreeMap;
use std::vec;

use clocks::ticks::ClockReader;
use journal::format::{Record, RecordBody, Symbol};
use journal::reader::InOrder;
use nccl_events::{Start, StateArgs};
use rustc_hash::{FxHashMap, FxHashSet};

use crate::journals::filter::Filter;
use crate::journals::process::Process;
use crate::journals::value::Moment;

#[derive(Debug)]
pub(crate) struct Event {
    pub(crate) id: u64,
    pub(crate) start: Moment,
    pub(crate) stop: Option<Moment>,
    pub(crate) record: Start<Symbol>,
    /// The number of events of the process that started before.
    pub(crate) number: u64,
}

#[derive(Debug)]
pub(crate) struct State {
    pub(crate) event: u64,
    pub(crate) when: Moment,
    pub(crate) number: u32,
    pub(crate) args: StateArgs,
}

#[derive(Debug)]
pub(crate) enum Callback {
    Event(Event),
    State(State),
}

/// Reads the wanted events and states of a process in time order: events when they stop, then those that never stopped,
/// in the order of their starts. A state is wanted if its event is.
pub(crate) struct Events<'a> {
    process: &'a Process,
    filter: &'a Filter,
    records: InOrder,
    clock: ClockReader<'a>,
    threads: BTreeMap<u16, u32>,
    /// Events that have not stopped, by id; `None` for one that is not wanted.
    open: FxHashMap<u64, Option<Event>>,
    /// The wanted events, if the filter selects events.
    wanted: Option<FxHashSet<u64>>,
    started: u64,
    /// After the last record: numbers and ids of the events that did not stop.
    unstopped: vec::IntoIter<(u64, u64)>,
    /// Stops of events that the journal lacks or that had stopped before.
    pub(crate) orphan_stops: u64,
}

impl<'a> Events<'a> {
    pub(crate) fn new(process: &'a Process, filter: &'a Filter) -> Self {
        Self {
            process,
            filter,
            records: process.segments.in_order(process.outcome.symbols.clone()),
            clock: process.clock.reader(),
            threads: BTreeMap::new(),
            open: FxHashMap::default(),
            wanted: filter.is_about_events().then(FxHashSet::default),
            started: 0,
            unstopped: Vec::new().into_iter(),
            orphan_stops: 0,
        }
    }

    fn take(&mut self, record: Record) -> Option<Callback> {
        let ns = self.clock.nanoseconds(record.ticks);
        let when = |threads: &BTreeMap<u16, u32>| Moment { ns, tid: threads.get(&record.slot).copied().unwrap_or(0) };
        match record.body {
            RecordBody::ThreadBegin { thread_id, .. } => {
                self.threads.insert(record.slot, thread_id);
                None
            }
            RecordBody::Start(start) => {
                let event = self.is_wanted(record.id, &start).then(|| Event {
                    id: record.id,
                    start: when(&self.threads),
                    stop: None,
                    record: start,
                    number: self.started,
                });
                self.started += 1;
                self.open.insert(record.id, event);
                None
            }
            RecordBody::Stop => {
                // Only the first stop counts; a second one is NCCL's mistake.
                let Some(event) = self.open.remove(&record.id) else {
                    self.orphan_stops += 1;
                    return None;
                };
                let event = Event { stop: Some(when(&self.threads)), ..event? };
                self.is_in_time(event.start.ns, Some(ns)).then_some(Callback::Event(event))
            }
            RecordBody::State { state, args } => {
                let is_wanted = self.wanted.as_ref().is_none_or(|wanted| wanted.contains(&record.id));
                let callback = State { event: record.id, when: when(&self.threads), number: state, args };
                (is_wanted && self.is_in_time(ns, Some(ns))).then_some(Callback::State(callback))
            }
            _ => None,
        }
    }

    fn is_wanted(&mut self, id: u64, start: &Start<Symbol>) -> bool {
        let Some(wanted) = &mut self.wanted else { return true };
        let is_wanted = self.filter.wants_kind(start.body.kind().name())
            && self.process.wants(self.filter, start.context, start.rank);
        if is_wanted {
            wanted.insert(id);
        }
        is_wanted
    }

    fn is_in_time(&self, first_ns: u64, last_ns: Option<u64>) -> bool {
        self.filter.wants_time(self.process.begin_ns, first_ns, last_ns)
    }
}

impl Iterator for Events<'_> {
    type Item = Callback;

    fn next(&mut self) -> Option<Callback> {
        while let Some(record) = self.records.next() {
            let callback = self.take(record);
            if callback.is_some() {
                return callback;
            }
        }
        if self.unstopped.len() == 0 {
            let open = self.open.iter().filter_map(|(id, event)| event.as_ref().map(|event| (event.number, *id)));
            let mut open: Vec<(u64, u64)> = open.collect();
            open.sort_unstable();
            self.unstopped = open.into_iter();
        }
        while let Some((_, id)) = self.unstopped.next() {
            let event = self.open.remove(&id).flatten();
            if let Some(event) = event.filter(|event| self.is_in_time(event.start.ns, None)) {
                return Some(Callback::Event(event));
            }
        }
        None
    }
}
