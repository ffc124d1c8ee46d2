//! Fills the tables from the records of one process, by event id.
//!
//! ```text
//! slot 0: Start(7) … Stop(7)                 row of 7: start, stop, fields
//! slot 3: Start(9) State(9, 19) … Stop(9) →  row of 9: …, time of state 19
//! ```
//!
//! Nothing is dropped silently: duplicate starts, stops without a start and repeated states are counted; an event
//! without a stop stays open. Records come slot by slot, so another thread's stop or state may be read before the
//! start: it waits until all records are read. Times are ticks until [`Tables::to_nanoseconds`] has run.

use std::collections::HashSet;

use crate::tables::events::{ContextName, EventRow, Head};
use crate::tables::ids::Ids;
use crate::tables::ranges::{OpenRanges, SwitchAt};
use crate::tables::{CommCall, Context, GpuAt, Tables, Thread, add_losses, add_not_selected, context_key, event_key};
use clocks::running::RunningClock;
use clocks::ticks::{ClockReader, HostClock, TickClock};
use journal::clock::{ClockPair, TickSource};
use journal::format::{CommRecord, Record, RecordBody, Records, Symbol};
use journal::reader::{Losses, Removed};
use nccl_events::ids::{index, index_u32};
use nccl_events::schema::Counts;
use nccl_events::{Kind, Start, StateArgs, state};

/// A stop or state whose start has not been read yet.
#[derive(Debug)]
struct Waiting {
    id: u64,
    ticks: u64,
    /// `None` for a stop.
    state: Option<(u32, StateArgs)>,
}

#[derive(Debug, Default)]
pub struct TableBuilder {
    pub(crate) tables: Tables,
    waiting: Vec<Waiting>,
    finalizes: Vec<(u64, CommCall)>,
    /// The thread that writes in each slot; `None` if not known yet.
    slot_threads: Vec<Option<u32>>,
    /// Contexts known only from `CommKnown` records.
    only_known: HashSet<u64>,
    ranges: OpenRanges,
    starts: u32,
    seen_any: bool,
}

impl Records for TableBuilder {
    fn record(&mut self, record: Record) {
        // A `CommKnown` record repeats an earlier one, whose time may precede what a flight recording kept.
        if !matches!(record.body, RecordBody::CommKnown(_)) {
            self.see(record.ticks);
        }
        let Record { slot, ticks, id, body } = record;
        match body {
            RecordBody::ThreadBegin { thread_id, name } => {
                self.thread_begin(slot, ticks, (thread_id, name));
            }
            RecordBody::ThreadEnd => self.end_ranges(slot, ticks),
            RecordBody::ClockPair { monotonic_ns, realtime_ns, monotonic_raw_ns, uncertainty_ticks } => self
                .tables
                .clock_pairs
                .push(ClockPair { ticks, monotonic_ns, realtime_ns, monotonic_raw_ns, uncertainty_ticks }),
            RecordBody::Switch(switch) => {
                let thread = (id != 0).then(|| self.thread(slot));
                self.tables.switches.push(SwitchAt { time: ticks, context: id, thread, switch });
            }
            RecordBody::NotSelected(starts) => {
                add_not_selected(&mut self.tables.counts, &starts);
                self.tables.last_not_selected = self.tables.last_not_selected.max(Some(ticks));
            }
            RecordBody::Range(record) => {
                let thread = self.thread(slot);
                self.ranges.take(&mut self.tables.ranges, (thread, ticks, id), self.starts, &record);
                self.starts = self.starts.saturating_add(1);
            }
            RecordBody::Gpu(record) => self.tables.gpu.push(GpuAt { time: ticks, id, record }),
            RecordBody::CommKnown(comm) => self.comm_known(id, comm),
            RecordBody::CommInit(comm) => self.comm_init(slot, ticks, id, comm),
            RecordBody::CommFinalize { end_ticks } => {
                self.see(end_ticks);
                let call = CommCall {
                    context: None,
                    is_init: false,
                    thread: self.thread(slot),
                    start: ticks,
                    end: end_ticks.max(ticks),
                };
                self.finalizes.push((id, call));
            }
            RecordBody::Start(start) => self.start_at(slot, ticks, id, &start),
            RecordBody::Stop => self.find_and_stop(id, ticks),
            RecordBody::State { state, args } => self.find_and_change(id, ticks, (state, args)),
        }
    }

    #[inline]
    fn start(&mut self, slot: u16, ticks: u64, id: u64, start: &Start<Symbol>) {
        self.see(ticks);
        self.start_at(slot, ticks, id, start);
    }

    #[inline]
    fn stop(&mut self, _slot: u16, ticks: u64, id: u64) {
        self.see(ticks);
        self.find_and_stop(id, ticks);
    }

    #[inline]
    fn state(&mut self, _slot: u16, ticks: u64, id: u64, state: (u32, StateArgs)) {
        self.see(ticks);
        self.find_and_change(id, ticks, state);
    }
}

impl TableBuilder {
    /// Fills these tables.
    pub(crate) fn new(tables: Tables) -> Self {
        Self { tables, ..Self::default() }
    }

    /// The tables, with times in ticks, of a journal that may be a flight recording.
    pub fn finish(self, losses: &Losses, removed: &Removed, process_tag: u16) -> Tables {
        let mut tables = self.join(losses, removed, process_tag);
        tables.name_contexts(None::<ClockReader<'_>>);
        tables
    }

    /// Everything but the contexts of events.
    fn join(mut self, losses: &Losses, removed: &Removed, process_tag: u16) -> Tables {
        self.join_waiting(removed, process_tag);
        for (id, mut call) in std::mem::take(&mut self.finalizes) {
            call.context = self.tables.find_context(id);
            self.tables.counts.finalizes_without_init += u64::from(call.context.is_none());
            self.tables.comm_calls.push(call);
        }
        let mut tables = self.tables;
        self.ranges.finish(&mut tables.ranges);
        nccl_events::sort::sort_by_key(&mut tables.clock_pairs, |pair| pair.ticks);
        // Switches of step ranges are in the slots of the threads that called.
        nccl_events::sort::sort_by_key(&mut tables.switches, |switch| switch.time);
        tables.sort_contexts();
        tables.count_open(removed, process_tag);
        add_losses(&mut tables.counts, losses);
        tables.counts.removed = removed.starts;
        tables.removed = removed.clone();
        tables
    }

    /// Like [`Self::finish`], with the clock of the process: all times are its nanoseconds.
    pub fn finish_by_clock(
        self,
        losses: &Losses,
        removed: &Removed,
        process_tag: u16,
        source: TickSource,
    ) -> (Tables, HostClock) {
        let mut tables = self.join(losses, removed, process_tag);
        let clock = HostClock::new(source, &tables.clock_pairs);
        tables.name_contexts(Some(clock.reader()));
        tables.rest_to_nanoseconds(&mut clock.reader());
        (tables, clock)
    }

    pub(crate) fn wait(&mut self, id: u64, ticks: u64, state: Option<(u32, StateArgs)>) {
        self.waiting.push(Waiting { id, ticks, state });
    }

    /// Applies stops and states whose starts have been read since, and drops those whose starts were not recorded:
    /// later events of the slot have begun.
    pub(crate) fn apply_waiting(&mut self, mut has_begun: impl FnMut(u64) -> bool) {
        for waiting in std::mem::take(&mut self.waiting) {
            match (self.tables.find(waiting.id), waiting.state) {
                (Some(row), None) => self.stop_at(row, waiting.ticks),
                (Some(row), Some(state)) => self.state_at(row, waiting.ticks, state),
                (None, _) if has_begun(waiting.id) => {}
                (None, _) => self.waiting.push(waiting),
            }
        }
    }

    fn join_waiting(&mut self, removed: &Removed, process_tag: u16) {
        for waiting in std::mem::take(&mut self.waiting) {
            let found = self.tables.find(waiting.id);
            let counts = &mut self.tables.counts;
            let is_gone = || removed.has(waiting.id, process_tag);
            match (found, waiting.state) {
                (Some(row), None) => self.stop_at(row, waiting.ticks),
                (Some(row), Some(state)) => self.state_at(row, waiting.ticks, state),
                (None, None) if is_gone() => counts.stops_of_removed += 1,
                (None, Some(_)) if is_gone() => counts.states_of_removed += 1,
                (None, None) => counts.stops_without_start += 1,
                (None, Some(_)) => counts.states_without_start += 1,
            }
        }
    }

    fn see(&mut self, ticks: u64) {
        let (first, last) = self.tables.span;
        self.tables.span = if self.seen_any { (first.min(ticks), last.max(ticks)) } else { (ticks, ticks) };
        self.seen_any = true;
    }

    fn thread_of(&self, slot: u16) -> Option<u32> {
        self.slot_threads.get(usize::from(slot)).copied().flatten()
    }

    /// The thread that writes in a slot; an unnamed one if the journal names none.
    fn thread(&mut self, slot: u16) -> u32 {
        self.thread_of(slot).unwrap_or_else(|| self.new_thread(slot, 0, String::new()))
    }

    fn new_thread(&mut self, slot: u16, thread_id: u32, name: String) -> u32 {
        let thread = index_u32(self.tables.threads.len());
        self.tables.threads.push(Thread { slot, thread_id, name });
        let slot = usize::from(slot);
        if slot >= self.slot_threads.len() {
            self.slot_threads.resize(slot + 1, None);
        }
        if let Some(known) = self.slot_threads.get_mut(slot) {
            *known = Some(thread);
        }
        thread
    }

    /// A thread takes a slot. Each segment of a flight recording repeats this record.
    fn thread_begin(&mut self, slot: u16, ticks: u64, (thread_id, name): (u32, String)) {
        let known = self.thread_of(slot).and_then(|thread| self.tables.threads.get(index(thread)));
        if known.is_none_or(|known| known.thread_id != thread_id || known.name != name) {
            self.end_ranges(slot, ticks);
            let _thread = self.new_thread(slot, thread_id, name);
        }
    }

    fn end_ranges(&mut self, slot: u16, ticks: u64) {
        if let Some(thread) = self.thread_of(slot) {
            self.ranges.end_thread(&mut self.tables.ranges, thread, ticks);
        }
    }

    fn comm_known(&mut self, id: u64, comm: CommRecord) {
        if self.tables.find_context(id).is_none() {
            let context = index_u32(self.tables.contexts.len());
            self.tables.note_context(id, context);
            self.tables.contexts.push(Context { id, comm });
            self.only_known.insert(id);
        }
    }

    fn comm_init(&mut self, slot: u16, ticks: u64, id: u64, comm: CommRecord) {
        self.see(comm.end_ticks);
        let known = self.only_known.remove(&id).then(|| self.tables.find_context(id)).flatten();
        let context = known.unwrap_or_else(|| index_u32(self.tables.contexts.len()));
        let call = CommCall {
            context: Some(context),
            is_init: true,
            thread: self.thread(slot),
            start: ticks,
            end: comm.end_ticks.max(ticks),
        };
        self.tables.comm_calls.push(call);
        if known.is_some() {
            return;
        }
        if self.tables.find_context(id).is_some() {
            self.tables.counts.contexts_twice += 1;
        }
        self.tables.note_context(id, context);
        self.tables.contexts.push(Context { id, comm });
    }

    #[inline]
    pub(crate) fn start_at(&mut self, slot: u16, ticks: u64, id: u64, start: &Start<Symbol>) {
        let thread = self.thread(slot);
        let kind = start.body.kind();
        self.tables.counts.kind_mut(kind).seen += 1;
        if !self.tables.events.next(kind).is_some_and(|row| self.tables.note_event(id, row)) {
            self.tables.counts.kind_mut(kind).duplicate += 1;
            return;
        }
        let context = self.tables.context_names.name(start.context);
        let head = Head::new((id, start.parent), ticks, self.starts, context, thread);
        self.starts = self.starts.saturating_add(1);
        self.tables.events.push(head, start.rank, &start.body);
    }

    #[inline]
    fn find_and_stop(&mut self, id: u64, ticks: u64) {
        match self.tables.find(id) {
            Some(row) => self.stop_at(row, ticks),
            None => self.waiting.push(Waiting { id, ticks, state: None }),
        }
    }

    #[inline]
    pub(crate) fn stop_at(&mut self, row: EventRow, ticks: u64) {
        let counts = &mut self.tables.counts;
        counts.kind_mut(row.kind()).stops += 1;
        if let Some(head) = self.tables.events.head_mut(row) {
            counts.stops_repeated += u64::from(!head.stop_at(ticks));
        }
    }

    #[inline]
    fn find_and_change(&mut self, id: u64, ticks: u64, state: (u32, StateArgs)) {
        match self.tables.find(id) {
            Some(row) => self.state_at(row, ticks, state),
            None => self.waiting.push(Waiting { id, ticks, state: Some(state) }),
        }
    }

    #[inline]
    pub(crate) fn state_at(&mut self, row: EventRow, ticks: u64, (number, args): (u32, StateArgs)) {
        let value = |before: u64| match (number, args) {
            // Steps: only these states report the size correctly; at the others it is stale.
            (state::PROXY_STEP_SEND_WAIT | state::PROXY_STEP_RECV_FLUSH_WAIT, StateArgs::ProxyStep { bytes }) => bytes,
            (state::PROXY_CTRL_APPEND_END, StateArgs::ProxyCtrl { appended }) => u64::try_from(appended).unwrap_or(0),
            // v1–v3 operations: a running total.
            (_, StateArgs::ProxyOp { bytes, .. }) => before.max(bytes),
            (_, StateArgs::GpuTime { gpu_ns }) if before == 0 => gpu_ns,
            _ => before,
        };
        let is_first = self.tables.events.enter(row, (number, ticks), value);
        let counts = &mut self.tables.counts;
        counts.kind_mut(row.kind()).states += 1;
        if !is_first {
            counts.states_repeated += 1;
        } else if number > state::LAST || number == state::KERNEL_PHASE_STOP && row.kind() != Kind::KernelPhase {
            counts.states_unknown += 1;
        }
    }
}

// When all records are read, the tables are completed: contexts of events, missing stops and missing parents.

impl Tables {
    /// Sets the row of an event id unless it has one; returns whether it had none.
    #[inline]
    pub fn note_event(&mut self, id: u64, row: EventRow) -> bool {
        let events = &self.events;
        let is_of = |row| events.head(row).is_some_and(|head| head.id == id);
        self.ids.insert_new(id, event_key(id), row, is_of)
    }

    /// Sets the index of a context's id, replacing an earlier one.
    pub fn note_context(&mut self, id: u64, at: u32) {
        let contexts = &self.contexts;
        let is_of = |at: u32| contexts.get(index(at)).is_some_and(|one| one.id == id);
        self.context_ids.put(id, context_key(id), at, is_of);
    }

    /// Sorts the communicator ranks by context id, which counts up in order of creation.
    pub fn sort_contexts(&mut self) {
        let mut order: Vec<u32> = (0..index_u32(self.contexts.len())).collect();
        nccl_events::sort::sort_by_key(&mut order, |&at| self.contexts.get(index(at)).map(|context| context.id));
        let mut moved = vec![None; order.len()];
        for (now, &before) in order.iter().enumerate() {
            if let Some(slot) = moved.get_mut(index(before)) {
                *slot = Some(index_u32(now));
            }
        }
        let to_now = |at: u32| moved.get(index(at)).copied().flatten();
        nccl_events::sort::sort_by_key(&mut self.contexts, |context| context.id);
        for call in &mut self.comm_calls {
            call.context = call.context.and_then(to_now);
        }
        self.context_ids = Ids::default();
        for at in 0..index_u32(self.contexts.len()) {
            let id = self.contexts.get(index(at)).map_or(0, |one| one.id);
            self.note_context(id, at);
        }
    }

    /// Sets each event's context, and converts its times to nanoseconds if there is a clock: a second pass over all
    /// events would cost as much again.
    pub fn name_contexts(&mut self, clock: Option<impl TickClock>) {
        let ids = self.context_names.ids().iter();
        let listed: Vec<Option<ContextName>> =
            ids.map(|&id| self.find_context(id).map(ContextName::from_index)).collect();
        let name = |name: ContextName| {
            name.number().and_then(|number| listed.get(index(number)).copied()).flatten().unwrap_or(name)
        };
        self.events.name_contexts(name, clock);
    }

    /// Fills tables of ticks anew with events of other ones, in this order, and with the contexts of these.
    pub(crate) fn refill(&mut self, from: &Self, rows: impl Iterator<Item = EventRow>, gpu: Vec<GpuAt>) {
        (self.counts, self.ids, self.gpu) = (Counts::default(), Ids::default(), gpu);
        self.events.clear();
        self.context_names.clone_from(&from.context_names);
        if self.contexts.len() != from.contexts.len() {
            self.contexts.clone_from(&from.contexts);
            self.sort_contexts();
        }
        self.span = (u64::MAX, 0);
        for (order, row) in (0..).zip(rows) {
            let (Some(head), Some(place)) = (from.head(row), self.events.next(row.kind())) else {
                continue;
            };
            if self.note_event(head.id, place) {
                self.span = (self.span.0.min(head.start), self.span.1.max(head.stop().unwrap_or(head.start)));
                self.events.copy(&from.events, row, order);
            }
        }
        self.count_open(&Removed::default(), self.process_tag);
    }

    /// Names the contexts of events, and converts all times to nanoseconds.
    pub(crate) fn finish_by_running_clock(&mut self, clock: &RunningClock) {
        self.name_contexts(Some(clock.reader()));
        self.rest_to_nanoseconds(&mut clock.reader());
    }

    /// Finds the rows of ids anew after events have been removed.
    pub(crate) fn find_rows_anew(&mut self) {
        let mut ids = Ids::with_room(|visit| self.events.each_row(|_, id| visit(event_key(id))));
        self.events.each_row(|row, id| ids.insert(id, event_key(id), row));
        self.ids = ids;
    }

    /// Counts events without a stop, and events whose parent is missing.
    pub fn count_open(&mut self, removed: &Removed, process_tag: u16) {
        let mut counts = std::mem::take(&mut self.counts);
        self.events.each_head(|kind, head| {
            let counts = counts.kind_mut(kind);
            counts.unfinished += u64::from(head.stop().is_none());
            let is_orphan =
                head.parent != 0 && self.find(head.parent).is_none() && !removed.has(head.parent, process_tag);
            counts.orphan += u64::from(is_orphan);
        });
        self.counts = counts;
    }
}
