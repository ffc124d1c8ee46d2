//! A process that records, and how what is over of it enters the sums.

use std::collections::hash_map::Entry;
use std::time::Duration;

use crate::contexts::Contexts;
use crate::snapshot::Rank;
use crate::sums::{Connection, EndedOperation, EndedStep, Member, StepSums, Sums};
use clocks::running::RunningClock;
use journal::clock::{ClockPair, TickSource, monotonic_ns};
use journal::format::{Record, RecordBody, Records, Symbol};
use journal::reader::Symbols;
use model::process::Process;
use model::running::{OpenOperation, RunningProcess};
use model::tables::{Event, OperationRow, Row};
use nccl_events::event::{ProxyOp, ProxyStep};
use nccl_events::ids::{index, index_u32};
use nccl_events::{Start, StateArgs, state};
use rustc_hash::FxHashMap;

#[derive(Clone, Copy, Debug)]
pub(crate) struct Recorder {
    pub(crate) tag: u16,
    pub(crate) pid: u32,
    pub(crate) tick_source: TickSource,
    pub(crate) event_mask: u32,
}

/// A process whose records are being read.
#[derive(Debug)]
pub(crate) struct FollowedProcess {
    running: RunningProcess,
    clock: RunningClock,
    contexts: Contexts,
    names: Names,
    last: u64,
}

impl FollowedProcess {
    /// `since` is an earlier reading of this process's clocks.
    pub(crate) fn new(recorder: Recorder, since: Option<ClockPair>, settle: Duration) -> Self {
        let Recorder { tag, pid, tick_source, event_mask } = recorder;
        let settle_ns = u64::try_from(settle.as_nanos()).unwrap_or(u64::MAX);
        Self {
            running: RunningProcess::new(tag, pid, event_mask, settle_ns),
            clock: RunningClock::new(tick_source, since),
            contexts: Contexts::new(tag, pid),
            names: Names::default(),
            last: 0,
        }
    }

    /// The ticks of the last record.
    pub(crate) const fn last(&self) -> u64 {
        self.last
    }

    pub(crate) fn last_record_ns(&self) -> Option<u64> {
        (self.last > 0).then(|| self.clock.realtime_ns(self.clock.ns(self.last)))
    }

    /// Whether the process has finalized all its communicators.
    pub(crate) fn is_finalized(&self) -> bool {
        !self.contexts.all.is_empty() && self.contexts.all.iter().all(|context| context.is_finalized)
    }

    /// How long ago the clock showed these ticks, in ns.
    pub(crate) fn age_ns(&self, ticks: u64) -> u64 {
        monotonic_ns().saturating_sub(self.clock.ns(ticks))
    }

    /// Events that came after their operation had entered the sums, or whose start is unknown.
    pub(crate) const fn late(&self) -> u64 {
        self.running.late()
    }

    /// Adds to the sums what is over. All records before the ticks `read_up_to` have been read. `owner` is the number
    /// of the process, and its part.
    pub(crate) fn settle(&mut self, read_up_to: u64, sums: &mut Sums, symbols: &Symbols, owner: (usize, &str)) {
        let Self { running, clock, contexts, names, .. } = self;
        contexts.identify(&mut sums.communicators, symbols, owner);
        running.settle(read_up_to, clock, symbols, |process, clock| {
            Settled { process, clock, contexts, names, sums }.add_to_sums();
        });
    }

    /// Adds to the sums what has ended; the process records no more.
    pub(crate) fn finish(&mut self, sums: &mut Sums, symbols: &Symbols, owner: (usize, &str)) {
        let Self { running, clock, contexts, names, .. } = self;
        contexts.identify(&mut sums.communicators, symbols, owner);
        running.finish(clock, symbols, |process, clock| {
            Settled { process, clock, contexts, names, sums }.add_to_sums();
        });
    }

    /// The process's ranks in a snapshot.
    pub(crate) fn ranks(&self, process: usize, symbols: &Symbols) -> Vec<Rank> {
        let mut open: FxHashMap<u64, (u64, OpenOperation)> = FxHashMap::default();
        for operation in self.running.open_operations() {
            match open.entry(operation.context) {
                Entry::Vacant(entry) => drop(entry.insert((1, operation))),
                Entry::Occupied(mut entry) => {
                    let (count, oldest) = entry.get_mut();
                    *count += 1;
                    if operation.start < oldest.start {
                        *oldest = operation;
                    }
                }
            }
        }
        let started_ns = |ticks: u64| self.clock.realtime_ns(self.clock.ns(ticks));
        let ranks = self.contexts.all.iter().filter_map(|context| {
            let Member { communicator, rank } = context.member?;
            let open = open.get(&context.id);
            let start_ns = (context.last_start > 0).then(|| started_ns(context.last_start));
            let end_ns = (context.last_end_ns > 0).then(|| self.clock.realtime_ns(context.last_end_ns));
            Some(Rank {
                communicator: index(communicator),
                rank,
                process,
                is_finalized: context.is_finalized,
                last_event_ns: start_ns.max(end_ns),
                open: open.map_or(0, |(count, _)| *count),
                oldest: open
                    .map(|(_, oldest)| (format!("nccl{}", symbols.text(oldest.func)), started_ns(oldest.start))),
                last: 0,
                caused_waiting_ns: 0,
            })
        });
        ranks.collect()
    }
}

impl Records for FollowedProcess {
    fn record(&mut self, record: Record) {
        let Record { slot, ticks, id, .. } = record;
        match record.body {
            RecordBody::ClockPair { monotonic_ns, realtime_ns, monotonic_raw_ns, uncertainty_ticks } => {
                self.last = ticks.max(self.last);
                self.clock.add(ClockPair { ticks, monotonic_ns, realtime_ns, monotonic_raw_ns, uncertainty_ticks });
            }
            RecordBody::CommInit(_) | RecordBody::CommKnown(_) => {
                self.contexts.init(&record);
                self.running.record(record);
            }
            RecordBody::CommFinalize { .. } => self.contexts.finalize(id),
            RecordBody::Start(start) => self.start(slot, ticks, id, &start),
            RecordBody::Stop => self.stop(slot, ticks, id),
            RecordBody::State { state, args } => self.state(slot, ticks, id, (state, args)),
            _ => self.running.record(record),
        }
    }

    #[inline]
    fn start(&mut self, slot: u16, ticks: u64, id: u64, start: &Start<Symbol>) {
        self.last = ticks.max(self.last);
        self.contexts.start(slot, ticks, id, start);
        self.running.start(slot, ticks, id, start);
    }

    #[inline]
    fn stop(&mut self, slot: u16, ticks: u64, id: u64) {
        self.last = ticks.max(self.last);
        self.running.stop(slot, ticks, id);
    }

    #[inline]
    fn state(&mut self, slot: u16, ticks: u64, id: u64, state: (u32, StateArgs)) {
        self.last = ticks.max(self.last);
        self.running.state(slot, ticks, id, state);
    }
}

/// The names in the sums of functions and algorithms. Every operation repeats the same few.
#[derive(Debug, Default)]
struct Names {
    functions: FxHashMap<(Symbol, bool), Symbol>,
    algorithms: FxHashMap<(Symbol, Symbol), Symbol>,
}

impl Names {
    fn function(&mut self, func: Symbol, is_by_copy_engines: bool, symbols: &Symbols, sums: &mut Sums) -> Symbol {
        *self.functions.entry((func, is_by_copy_engines)).or_insert_with(|| {
            let suffix = if is_by_copy_engines { " (CE)" } else { "" };
            sums.name(&format!("nccl{}{suffix}", symbols.text(func)))
        })
    }

    fn algorithm(&mut self, algorithm: (Symbol, Symbol), symbols: &Symbols, sums: &mut Sums) -> Symbol {
        *self.algorithms.entry(algorithm).or_insert_with(|| {
            let texts = [algorithm.0, algorithm.1].map(|symbol| symbols.text(symbol));
            let texts: Vec<&str> = texts.into_iter().filter(|text| !text.is_empty()).collect();
            sums.name(&texts.join("_"))
        })
    }
}

/// The interpretation of events that are over, on its way into the sums.
struct Settled<'a> {
    process: &'a Process<'a>,
    clock: &'a RunningClock,
    contexts: &'a mut Contexts,
    names: &'a mut Names,
    sums: &'a mut Sums,
}

impl Settled<'_> {
    fn add_to_sums(mut self) {
        for at in 0..index_u32(self.process.links.operations.all.len()) {
            if let Some(ended) = self.operation(at) {
                self.sums.operation(&ended);
            }
        }
        self.add_derived_collectives();
        self.add_steps();
    }

    fn operation(&mut self, at: u32) -> Option<EndedOperation> {
        let Process { tables, symbols, meanings, .. } = self.process;
        let linked = self.process.links.operation(at).filter(|linked| !linked.is_at_capture)?;
        let interval = self.process.interval(at).filter(|interval| !interval.unfinished)?;
        let operation = tables.operation(linked.operation);
        let context = self.contexts.get_mut(tables.context_of(&operation))?;
        context.last_end_ns = context.last_end_ns.max(interval.end);
        let member = context.member?;
        let replay = linked.replay.unwrap_or(0);
        let (algorithm, peer, sequence, root) = match linked.operation {
            OperationRow::Coll(row) => {
                let fields = &tables[row].fields;
                ((fields.algorithm, fields.protocol), None, Some((fields.sequence, replay)), fields.root)
            }
            OperationRow::P2p(row) => (Default::default(), Some(tables[row].fields.peer), None, -1),
            OperationRow::CeColl(row) => {
                let fields = &tables[row].fields;
                (Default::default(), None, Some((fields.sequence, replay)), fields.root)
            }
        };
        let is_by_copy_engines = linked.operation.is_by_copy_engines();
        let knows_ranks = self.process.member_of(&operation).is_some_and(|member| member.knows_ranks);
        let clock_ns = self.clock.error_ns(operation.start);
        Some(EndedOperation {
            member,
            function: self.names.function(operation.func, is_by_copy_engines, symbols, self.sums),
            algorithm: self.names.algorithm(algorithm, symbols, self.sums),
            is_point_to_point: peer.is_some(),
            peer,
            bytes: meanings.bytes(operation.count, operation.datatype),
            collective: meanings.collective(operation.func),
            has_bandwidth: knows_ranks && !is_by_copy_engines,
            root,
            sequence,
            interval,
            error_ns: clock_ns.zip(self.process.error_ns(at)).map(|(clock_ns, own_ns)| clock_ns + own_ns),
        })
    }

    fn add_derived_collectives(&mut self) {
        let derived = &self.process.links.derived;
        for one in &derived.all {
            let (Some(call), Some(interval)) =
                (derived.calls.get(index(one.call)), one.interval(&self.process.intervals))
            else {
                continue;
            };
            let leader = one.leader().and_then(|leader| self.process.links.operation(leader));
            let operation = leader.map(|leader| self.process.tables.operation(leader.operation));
            let context = operation.map(|operation| self.process.tables.context_of(&operation));
            let Some(member) = context.and_then(|context| self.contexts.member(context)) else {
                continue;
            };
            let collective = call.pattern.collective();
            let ended = EndedOperation {
                member,
                function: self.sums.name(&format!("nccl{}", collective.name())),
                algorithm: self.sums.name(""),
                is_point_to_point: false,
                peer: None,
                bytes: self.process.meanings.bytes(call.count, call.datatype),
                collective: Some(collective),
                has_bandwidth: one.missing == 0,
                root: call.rank,
                sequence: None,
                interval,
                error_ns: None,
            };
            self.sums.operation(&ended);
        }
    }

    fn add_steps(&mut self) {
        let tables = self.process.tables;
        let mut connection: Option<(u64, Option<StepSums>)> = None;
        for (row, step) in tables.rows::<ProxyStep>() {
            let Some(ended) = ended_step(self.process, row, step) else {
                continue;
            };
            let sums = match connection {
                Some((transfer, sums)) if transfer == step.parent => sums,
                _ => tables.get::<ProxyOp>(step.parent).and_then(|transfer| self.connection(transfer)),
            };
            connection = Some((step.parent, sums));
            if let Some(sums) = sums {
                self.sums.step(sums, &ended);
            }
        }
    }

    /// Where the sums of a transfer's connection are; `None` if it is another process's (PXN).
    fn connection(&mut self, transfer: &Event<ProxyOp>) -> Option<StepSums> {
        let tables = self.process.tables;
        if tables.names_another_process(transfer) {
            return None;
        }
        let context = self.contexts.get_mut(tables.context_of(transfer))?;
        context.last_end_ns = context.last_end_ns.max(transfer.stop().unwrap_or(0));
        let ProxyOp { channel, peer, is_send, .. } = transfer.fields;
        let (member, peer) = (context.member?, u32::try_from(peer).ok()?);
        Some(self.sums.places(Connection { member, channel: channel.into(), peer, is_send }))
    }
}

/// The phases of a step that ended; `None` if NCCL reported none.
fn ended_step(process: &Process<'_>, row: Row<ProxyStep>, step: &Event<ProxyStep>) -> Option<EndedStep> {
    let first_of = |states: [u32; 2]| states.into_iter().filter_map(|state| step.state_time(state)).min();
    let second = first_of([state::PROXY_STEP_SEND_PEER_WAIT, state::PROXY_STEP_RECV_FLUSH_WAIT]);
    let third = first_of([state::PROXY_STEP_SEND_WAIT, state::PROXY_STEP_RECV_GPU_WAIT]);
    let first = first_of([state::PROXY_STEP_SEND_GPU_WAIT, state::PROXY_STEP_RECV_WAIT]);
    first.or(second).or(third)?;
    let start_ns = step.start;
    let stop = process.step_end(row)?.max(start_ns);
    let third_ns = third.map_or(stop, |third| third.clamp(start_ns, stop));
    let second_ns = second.map_or(third_ns, |second| second.clamp(start_ns, third_ns));
    let (waited_ns, moved_ns) = match (second, third) {
        // The step ended while it waited.
        (Some(_), None) => (stop - second_ns, 0),
        _ => (third_ns - second_ns, stop - third_ns),
    };
    Some(EndedStep {
        start_ns,
        first_ns: second_ns - start_ns,
        second_ns: waited_ns,
        third_ns: moved_ns,
        bytes: step.state_value(),
    })
}
