//! Joins the records of one process into operations, by event id.
//!
//! ```text
//! slot 0: Start(7) … Stop(7)                 Operation { id 7, start, end, fields }
//! slot 3: Start(9) State(9, 19) … Stop(9) →  Operation { id 9, … }, StateChange { operation of 9, 19 }
//! ```
//!
//! Nothing is thrown away unseen: a start that is there twice, a stop without a start and a state that
//! repeats are counted; an operation without a stop stays open. Records come slot by slot, so a stop or
//! a state of another thread may be read before its start: it waits until all is read. Times are ticks
//! unless there is a clock ([`Assembler::finish_by_clock`]) or until [`Assembly::to_nanoseconds`] has run.

use std::collections::HashSet;

use crate::clocks::ticks::HostClock;
use crate::tables::assembly::{
    Assembly, CommCall, Context, GpuAt, OPEN, Operation, StateChange, Thread,
};
use crate::tables::place::{NOWHERE, index, place};
use crate::tables::room;
use crate::timeline::measurement::SwitchAt;
use journal::clock::{ClockPair, TickSource};
use journal::format::layout::RECORD_HEADER_WORDS;
use journal::format::record::{CommRecord, Record, RecordBody, Records, Symbol};
use journal::reader::{Losses, NotKept};
use nccl_events::Start;
use nccl_events::{Kind, StateArgs, state};

/// A stop or state whose start has not been read yet.
#[derive(Debug)]
struct Waiting {
    id: u64,
    ticks: u64,
    /// `None`: a stop.
    state: Option<(u32, StateArgs)>,
}

/// A start of an event has as many bytes at least.
const START_BYTES: u64 = 8 * (RECORD_HEADER_WORDS as u64 + 3);

/// Takes records and makes an [`Assembly`].
#[derive(Debug, Default)]
pub struct Assembler {
    assembly: Assembly,
    waiting: Vec<Waiting>,
    finalizes: Vec<(u64, CommCall)>,
    /// By slot; [`NOWHERE`] where it is not known yet.
    slot_threads: Vec<u32>,
    /// Contexts of which it is only known that they are there.
    only_known: HashSet<u64>,
    seen_any: bool,
}

impl Records for Assembler {
    fn record(&mut self, record: Record) {
        // What only repeats an earlier record may lie before the window.
        if !matches!(record.body, RecordBody::CommKnown(_)) {
            self.see(record.ticks);
        }
        let Record {
            slot,
            ticks,
            id,
            body,
        } = record;
        match body {
            RecordBody::ThreadBegin { thread_id, name } => {
                if self.goes_on(slot, thread_id, &name) {
                    return;
                }
                self.assembly.threads.push(Thread {
                    slot,
                    thread_id,
                    name,
                });
                let thread = place(self.assembly.threads.len().saturating_sub(1));
                self.note_thread(slot, thread);
            }
            RecordBody::ThreadEnd => {}
            RecordBody::ClockPair {
                monotonic_ns,
                realtime_ns,
                monotonic_raw_ns,
                uncertainty_ticks,
            } => self.assembly.clock_pairs.push(ClockPair {
                ticks,
                monotonic_ns,
                realtime_ns,
                monotonic_raw_ns,
                uncertainty_ticks,
            }),
            RecordBody::Switch(switch) => {
                let thread = if id == 0 { NOWHERE } else { self.thread(slot) };
                self.assembly.switches.push(SwitchAt {
                    time: ticks,
                    context: id,
                    thread,
                    switch,
                });
            }
            RecordBody::NotWanted(starts) => self.assembly.counts.add_not_wanted(&starts),
            RecordBody::Gpu(record) => self.assembly.gpu.push(GpuAt {
                time: ticks,
                id,
                record,
            }),
            RecordBody::CommKnown(comm) => self.comm_known(id, comm),
            RecordBody::CommInit(comm) => self.comm_init(slot, ticks, id, comm),
            RecordBody::CommFinalize { end_ticks } => {
                self.see(end_ticks);
                let call = CommCall {
                    context: NOWHERE,
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

impl Assembler {
    /// For a journal of so many bytes: the list of operations is not to be moved while it grows. What is not used of it is
    /// no memory.
    #[must_use]
    pub fn for_bytes(journal: u64) -> Self {
        let mut assembler = Self::default();
        let most = journal / START_BYTES;
        let most = usize::try_from(most).unwrap_or(0).min(index(NOWHERE));
        // Without it the list grows as it must.
        let _reserved = assembler.assembly.operations.try_reserve_exact(most);
        let _reserved = assembler.assembly.ranks.try_reserve_exact(most);
        assembler
    }

    /// Joins what had to wait and gives the result.
    #[must_use]
    pub fn finish(self, losses: &Losses) -> Assembly {
        self.finish_window(losses, &NotKept::default(), 0)
    }

    /// [`Self::finish`] for a recording of which only a window may be kept.
    #[must_use]
    pub fn finish_window(self, losses: &Losses, not_kept: &NotKept, process_tag: u16) -> Assembly {
        let mut assembly = self.join(losses, not_kept, process_tag);
        assembly.link(not_kept, process_tag, None);
        assembly
    }

    /// The same, and the clock of the process: all times are its nanoseconds. Going through all operations once more for
    /// that would cost as much as linking them.
    #[must_use]
    pub fn finish_by_clock(
        self,
        losses: &Losses,
        not_kept: &NotKept,
        process_tag: u16,
        source: TickSource,
    ) -> (Assembly, HostClock) {
        let mut assembly = self.join(losses, not_kept, process_tag);
        let clock = HostClock::new(source, &assembly.clock_pairs);
        assembly.link(not_kept, process_tag, Some(&clock));
        assembly.rest_to_nanoseconds(&clock);
        (assembly, clock)
    }

    /// All but what operations name.
    fn join(mut self, losses: &Losses, not_kept: &NotKept, process_tag: u16) -> Assembly {
        for waiting in std::mem::take(&mut self.waiting) {
            match (self.assembly.find(waiting.id), waiting.state) {
                (Some(at), None) => self.stop_at(at, waiting.ticks),
                (Some(at), Some((state, args))) => {
                    self.state_at(at, waiting.ticks, state, args);
                }
                (None, stop_or_state) if not_kept.has(waiting.id, process_tag) => {
                    match stop_or_state {
                        None => self.assembly.counts.stops_of_not_kept += 1,
                        Some(_) => self.assembly.counts.states_of_not_kept += 1,
                    }
                }
                (None, None) => self.assembly.counts.stops_without_start += 1,
                (None, Some(_)) => self.assembly.counts.states_without_start += 1,
            }
        }
        for (id, mut call) in std::mem::take(&mut self.finalizes) {
            match self.assembly.find_context(id) {
                Some(context) => call.context = context,
                None => self.assembly.counts.finalizes_without_init += 1,
            }
            self.assembly.comm_calls.push(call);
        }
        let mut assembly = self.assembly;
        assembly.sort_states();
        assembly.clock_pairs.sort_by_key(|pair| pair.ticks);
        // Those of windows are in the slots of the threads that called.
        assembly.switches.sort_by_key(|switch| switch.time);
        assembly.sort_contexts();
        assembly.counts.add_losses(losses);
        assembly.counts.not_kept = not_kept.starts;
        assembly.not_kept = not_kept.clone();
        assembly
    }

    fn see(&mut self, ticks: u64) {
        let (first, last) = self.assembly.span;
        self.assembly.span = if self.seen_any {
            (first.min(ticks), last.max(ticks))
        } else {
            (ticks, ticks)
        };
        self.seen_any = true;
    }

    fn thread_of(&self, slot: u16) -> Option<u32> {
        let thread = self.slot_threads.get(usize::from(slot)).copied();
        thread.filter(|&thread| thread != NOWHERE)
    }

    fn note_thread(&mut self, slot: u16, thread: u32) {
        let slot = usize::from(slot);
        if slot >= self.slot_threads.len() {
            self.slot_threads.resize(slot + 1, NOWHERE);
        }
        if let Some(known) = self.slot_threads.get_mut(slot) {
            *known = thread;
        }
    }

    /// The thread that writes in a slot; one without a name if the journal does not say who.
    fn thread(&mut self, slot: u16) -> u32 {
        if let Some(thread) = self.thread_of(slot) {
            return thread;
        }
        self.assembly.threads.push(Thread {
            slot,
            thread_id: 0,
            name: String::new(),
        });
        let thread = place(self.assembly.threads.len().saturating_sub(1));
        self.note_thread(slot, thread);
        thread
    }

    /// Whether this thread had the slot before: segments of a window say so each time.
    fn goes_on(&self, slot: u16, thread_id: u32, name: &str) -> bool {
        let thread = self.thread_of(slot);
        let thread = thread.and_then(|thread| self.assembly.threads.get(index(thread)));
        thread.is_some_and(|thread| thread.thread_id == thread_id && thread.name == name)
    }

    fn comm_known(&mut self, id: u64, comm: CommRecord) {
        if self.assembly.find_context(id).is_none() {
            let context = place(self.assembly.contexts.len());
            self.assembly.note_context(id, context);
            self.assembly.contexts.push(Context { id, comm });
            self.only_known.insert(id);
        }
    }

    fn comm_init(&mut self, slot: u16, ticks: u64, id: u64, comm: CommRecord) {
        self.see(comm.end_ticks);
        let known = self.only_known.remove(&id);
        let known = known.then(|| self.assembly.find_context(id)).flatten();
        let context = known.unwrap_or_else(|| place(self.assembly.contexts.len()));
        let call = CommCall {
            context,
            is_init: true,
            thread: self.thread(slot),
            start: ticks,
            end: comm.end_ticks.max(ticks),
        };
        self.assembly.comm_calls.push(call);
        if known.is_some() {
            return;
        }
        if self.assembly.find_context(id).is_some() {
            self.assembly.counts.contexts_twice += 1;
        }
        self.assembly.note_context(id, context);
        self.assembly.contexts.push(Context { id, comm });
    }

    fn start_at(&mut self, slot: u16, ticks: u64, id: u64, start: &Start<Symbol>) {
        let thread = self.thread(slot);
        self.assembly.counts.kind_mut(start.body.kind()).seen += 1;
        let at = place(self.assembly.operations.len());
        if at == NOWHERE || !self.assembly.note_event(id, at) {
            let counts = self.assembly.counts.kind_mut(start.body.kind());
            counts.duplicate += 1;
            return;
        }
        self.assembly.seen.note(start, thread);
        let fields = self.assembly.larger.pack(&start.body);
        let operation = Operation {
            id,
            parent: start.parent,
            start: ticks,
            end: OPEN,
            parent_at: NOWHERE,
            context: self.assembly.named.name(start.context),
            thread,
            states_seen: 0,
            fields,
        };
        room::push(&mut self.assembly.operations, operation);
        self.assembly.ranks.push(start.rank);
    }

    fn find_and_stop(&mut self, id: u64, ticks: u64) {
        match self.assembly.find(id) {
            Some(at) => self.stop_at(at, ticks),
            None => self.waiting.push(Waiting {
                id,
                ticks,
                state: None,
            }),
        }
    }

    /// The earliest stop counts: NCCL 2.28–2.32 stops stale handles of API events again, later.
    fn stop_at(&mut self, at: u32, ticks: u64) {
        let Some(operation) = self.assembly.operations.get_mut(index(at)) else {
            return;
        };
        self.assembly.counts.kind_mut(operation.kind()).stops += 1;
        if operation.end != OPEN {
            self.assembly.counts.stops_repeated += 1;
        }
        // Two processors' ticks may differ by a few cycles: no operation ends before it starts.
        operation.end = operation.end.min(ticks.max(operation.start));
    }

    fn find_and_change(&mut self, id: u64, ticks: u64, (state, args): (u32, StateArgs)) {
        match self.assembly.find(id) {
            Some(at) => self.state_at(at, ticks, state, args),
            None => self.waiting.push(Waiting {
                id,
                ticks,
                state: Some((state, args)),
            }),
        }
    }

    fn state_at(&mut self, at: u32, ticks: u64, number: u32, args: StateArgs) {
        let count = self.assembly.operations.len();
        let Some(operation) = self.assembly.operations.get_mut(index(at)) else {
            return;
        };
        self.assembly.counts.kind_mut(operation.kind()).states += 1;
        let values = &mut self.assembly.values;
        match (number, args) {
            // Steps: the size is right here and stale at the other states.
            (
                state::PROXY_STEP_SEND_WAIT | state::PROXY_STEP_RECV_FLUSH_WAIT,
                StateArgs::ProxyStep { bytes },
            ) => match operation.kind() {
                Kind::ProxyStep => operation.fields.set_step_bytes(bytes),
                _ => values.change(at, count, |_| bytes),
            },
            (state::PROXY_CTRL_APPEND_END, StateArgs::ProxyCtrl { appended }) => {
                values.change(at, count, |_| u64::try_from(appended).unwrap_or(0));
            }
            // v1–v3 operations: a running total.
            (_, StateArgs::ProxyOp { bytes, .. }) => {
                values.change(at, count, |before| before.max(bytes));
            }
            (_, StateArgs::GpuTime { gpu_ns }) => {
                values.change(
                    at,
                    count,
                    |before| if before == 0 { gpu_ns } else { before },
                );
            }
            _ => {}
        }
        // Under back-pressure state 20 comes thousands of times for one step: the first one counts.
        if operation.saw(number) {
            self.assembly.counts.states_repeated += 1;
            return;
        }
        if number > state::LAST {
            self.assembly.counts.states_unknown += 1;
        } else {
            operation.states_seen |= 1 << number;
        }
        let change = StateChange {
            operation: at,
            state: number,
            time: ticks,
        };
        room::push(&mut self.assembly.states, change);
    }
}
