//! A process's journal, joined: communicators, events with their ends, and states.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use clocks::ticks::{Calibration, HostClock};
use journal::clock::ClockPair;
use journal::format::record::{CommRecord, Record, RecordBody, Symbol};
use journal::part::read_process;
use journal::reader::{Journal, Outcome};
use nccl_events::Start;
use nccl_events::StateArgs;

use super::filter::Filter;
use super::gpu;
use super::moment::Moment;
use crate::print;
use crate::units::plural;

/// A communicator of this process.
#[derive(Debug)]
pub(crate) struct Comm {
    /// What `init` returned.
    pub(crate) context: u64,
    /// `init` was called.
    pub(crate) begin: Moment,
    /// `init` had returned.
    pub(crate) end_ns: u64,
    /// What it said.
    pub(crate) record: CommRecord,
    /// Whether it is to be printed.
    pub(crate) is_wanted: bool,
}

/// `finalize` of a communicator.
#[derive(Debug)]
pub(crate) struct Finalize {
    /// Of which.
    pub(crate) context: u64,
    /// It was called.
    pub(crate) begin: Moment,
    /// It had returned.
    pub(crate) end_ns: u64,
}

/// An event.
#[derive(Debug)]
pub(crate) struct Event {
    /// What `startEvent` returned.
    pub(crate) id: u64,
    /// `startEvent`.
    pub(crate) start: Moment,
    /// `stopEvent`, if there was one.
    pub(crate) stop: Option<Moment>,
    /// What it said.
    pub(crate) record: Start<Symbol>,
}

/// A change of state.
#[derive(Debug)]
pub(crate) struct State {
    /// Of which event.
    pub(crate) event: u64,
    /// When.
    pub(crate) when: Moment,
    /// NCCL's number.
    pub(crate) number: u32,
    /// What came with it.
    pub(crate) args: StateArgs,
}

/// A journal that was read.
#[derive(Debug)]
pub(crate) struct Recording {
    /// Where it lies.
    pub(crate) path: PathBuf,
    /// The process.
    pub(crate) pid: u32,
    /// The kernel's boot id, empty where it is not known: journals of one have one clock.
    pub(crate) boot_id: String,
    /// The kinds of events that the process wanted of NCCL; 0 where that is not known.
    pub(crate) event_mask: u32,
    /// CLOCK_REALTIME - CLOCK_MONOTONIC when recording began.
    pub(crate) realtime_offset_ns: i64,
    /// When the first thing was said; of several journals, in the first of them ([`super::beginning::share`]).
    pub(crate) begin_ns: u64,
    /// Communicators, in the order of time.
    pub(crate) comms: Vec<Comm>,
    /// What is known of communicators, also of those whose beginning was not kept.
    known: BTreeMap<u64, CommRecord>,
    /// Ends of communicators, in the order of time.
    pub(crate) finalizes: Vec<Finalize>,
    /// Events, in the order of their starts.
    pub(crate) events: Vec<Event>,
    /// States, in the order of time.
    pub(crate) states: Vec<State>,
    /// What was found out about GPUs, in the order of time.
    pub(crate) gpu: Vec<gpu::Entry>,
    /// Stops of events that are not here.
    orphan_stops: u64,
    /// Strings, problems and losses.
    pub(crate) outcome: Outcome,
    calibration: Calibration,
}

impl Recording {
    /// Reads the journal in this directory.
    pub(crate) fn read(path: &Path) -> Result<Self> {
        let journal = Journal::open(path).context("cannot read the journal")?;
        let (pid, source) = (journal.process_id, journal.tick_source);
        let mut said = Vec::new();
        let mut pairs = Vec::new();
        let mut threads = BTreeMap::new();
        let outcome = journal.read(&mut |record: Record| match record.body {
            RecordBody::ThreadBegin { thread_id, .. } => {
                threads.insert(record.slot, thread_id);
            }
            RecordBody::ThreadEnd => {}
            RecordBody::ClockPair { monotonic_ns, realtime_ns, monotonic_raw_ns, uncertainty_ticks } => {
                pairs.push(ClockPair {
                    ticks: record.ticks,
                    monotonic_ns,
                    realtime_ns,
                    monotonic_raw_ns,
                    uncertainty_ticks,
                })
            }
            _ => {
                let tid = threads.get(&record.slot).copied().unwrap_or(0);
                said.push((tid, record));
            }
        });
        // Stable: what one thread said stays in its order.
        said.sort_by_key(|(_, record)| record.ticks);
        pairs.sort_by_key(|pair| pair.ticks);
        let clock = HostClock::new(source, &pairs);
        let offset = |pair: &ClockPair| pair.realtime_ns.checked_signed_diff(pair.monotonic_ns);
        let process = path.parent().map(|part| read_process(part).0).unwrap_or_default();
        let mut recording = Self {
            path: path.to_owned(),
            pid,
            boot_id: process.boot_id,
            event_mask: process.event_mask,
            realtime_offset_ns: pairs.first().and_then(offset).unwrap_or(0),
            begin_ns: said.first().map_or(0, |(_, record)| clock.nanoseconds(record.ticks)),
            comms: Vec::new(),
            known: BTreeMap::new(),
            finalizes: Vec::new(),
            events: Vec::new(),
            states: Vec::new(),
            gpu: Vec::new(),
            orphan_stops: 0,
            outcome,
            calibration: clock.quality.calibration,
        };
        let mut places = BTreeMap::new();
        let of_gpus = said.iter().map(|(_, record)| record);
        let of_gpus = of_gpus.filter(|record| matches!(record.body, RecordBody::Gpu(_)));
        let ticks: Vec<u64> = of_gpus.map(|record| record.ticks).collect();
        for (tid, record) in said {
            recording.take(tid, record, &clock, &mut places);
        }
        gpu::place(&mut recording.gpu, &ticks, &clock);
        recording.gpu.sort_by_key(|said| said.when.ns);
        Ok(recording)
    }

    fn take(&mut self, tid: u32, record: Record, clock: &HostClock, places: &mut BTreeMap<u64, usize>) {
        let when = Moment { ns: clock.nanoseconds(record.ticks), tid };
        match record.body {
            // It comes before all others, and again with its time where the beginning is still there.
            RecordBody::CommKnown(comm) => {
                self.known.insert(record.id, comm);
            }
            RecordBody::CommInit(comm) => self.comms.push(Comm {
                context: record.id,
                begin: when,
                end_ns: clock.nanoseconds(comm.end_ticks),
                record: comm,
                is_wanted: true,
            }),
            RecordBody::CommFinalize { end_ticks } => {
                self.finalizes.push(Finalize { context: record.id, begin: when, end_ns: clock.nanoseconds(end_ticks) })
            }
            RecordBody::Start(start) => {
                places.insert(record.id, self.events.len());
                self.events.push(Event { id: record.id, start: when, stop: None, record: start });
            }
            RecordBody::Stop => {
                let place = places.get(&record.id);
                match place.and_then(|place| self.events.get_mut(*place)) {
                    // A second stop of an event is NCCL's to answer for; the first one ended it.
                    Some(event) => event.stop = event.stop.or(Some(when)),
                    None => self.orphan_stops += 1,
                }
            }
            RecordBody::State { state, args } => {
                self.states.push(State { event: record.id, when, number: state, args })
            }
            RecordBody::ThreadBegin { .. }
            | RecordBody::ThreadEnd
            | RecordBody::ClockPair { .. }
            | RecordBody::Switch(_)
            | RecordBody::NotSelected(_) => {}
            RecordBody::Gpu(said) => self.gpu.push(gpu::Entry { when, duration_ns: None, id: record.id, record: said }),
        }
    }

    /// What is known of a communicator.
    pub(crate) fn comm(&self, context: u64) -> Option<&CommRecord> {
        let comm = self.comms.iter().find(|comm| comm.context == context);
        let began = comm.map(|comm| &comm.record);
        began.or_else(|| self.known.get(&context))
    }

    /// Keeps what is wanted. A state is wanted as its event is; communicators are asked for their rank and id only.
    pub(crate) fn keep(&mut self, filter: &Filter) {
        let begin_ns = self.begin_ns;
        let mut wanted = BTreeMap::new();
        for comm in &self.comms {
            let name = self.outcome.symbols.text(comm.record.name);
            let is_wanted =
                filter.wants_comm(name, Some(comm.record.comm_id)) && filter.wants_rank(Some(comm.record.rank.into()));
            wanted.insert(comm.context, is_wanted);
        }
        // A context of another process (PXN) is of no communicator that is known here.
        let foreign = filter.wants_comm("", None);
        let mut of_events = BTreeMap::new();
        for event in &self.events {
            let record = &event.record;
            let is_wanted = wanted
                .get(&record.context)
                .copied()
                .unwrap_or_else(|| foreign && filter.wants_rank(Some(record.rank.into())))
                && filter.wants_kind(record.body.kind().name());
            of_events.insert(event.id, is_wanted);
        }
        let is_of_wanted = |event: u64| {
            let stray = !filter.is_about_events();
            of_events.get(&event).copied().unwrap_or(stray)
        };
        let events = self.events.iter().filter(|_| !self.gpu.is_empty());
        let launches: BTreeMap<u64, u64> = events.map(|event| (event.id, event.record.context)).collect();
        self.gpu.retain(|said| {
            // It is of its launch's rank, or its communicator's.
            let context = launches.get(&said.id).copied().unwrap_or(said.id);
            let is_wanted = wanted.get(&context).copied().unwrap_or_else(|| foreign && filter.wants_rank(None));
            let ns = said.when.ns;
            let end_ns = ns.saturating_add(said.duration_ns.unwrap_or(0));
            is_wanted && filter.wants_kind(gpu::KIND) && filter.wants_time(begin_ns, ns, Some(end_ns))
        });
        self.events.retain(|event| {
            let stop = event.stop.map(|stop| stop.ns);
            is_of_wanted(event.id) && filter.wants_time(begin_ns, event.start.ns, stop)
        });
        self.states.retain(|state| {
            let ns = state.when.ns;
            is_of_wanted(state.event) && filter.wants_time(begin_ns, ns, Some(ns))
        });
        for comm in &mut self.comms {
            comm.is_wanted = wanted.get(&comm.context).copied().unwrap_or(true);
        }
        let is_wanted = |context: u64| wanted.get(&context).copied().unwrap_or(true);
        self.finalizes.retain(|said| is_wanted(said.context));
    }

    /// Only what is known of the journal as a whole, for [`super::beginning::share`].
    pub(crate) fn summary(self) -> Self {
        Self { events: Vec::new(), states: Vec::new(), gpu: Vec::new(), ..self }
    }

    /// Whether everything that was recorded could be read, and nothing was lost.
    pub(crate) fn is_whole(&self) -> bool {
        self.outcome.problems.is_empty() && self.outcome.losses.total() == 0
    }

    /// Says what is missing or doubtful.
    pub(crate) fn remark(&self) {
        for problem in &self.outcome.problems {
            print::note(format_args!(
                "{} at byte {}: {}; {} bytes left out",
                problem.path.display(),
                problem.offset,
                problem.reason,
                problem.lost_bytes
            ));
        }
        let path = self.path.display();
        let lost = self.outcome.losses.total();
        if lost > 0 {
            let calls = plural(lost, "call was", "calls were");
            print::note(format_args!("{path}: {calls} not recorded"));
        }
        if self.orphan_stops > 0 {
            let stops = plural(self.orphan_stops, "stop", "stops");
            print::note(format_args!("{path}: {stops} of events that it does not have"));
        }
        if self.calibration == Calibration::Assumed {
            print::note(format_args!("{path}: fewer than two clock readings: its times are ticks, not nanoseconds"));
        }
    }
}
