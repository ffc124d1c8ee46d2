//! Reads everything but events from a process's journal: communicators, GPUs, clocks, losses.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use clocks::ticks::{Calibration, HostClock};
use journal::clock::ClockPair;
use journal::format::{CommRecord, Record, RecordBody, Records, Symbol};
use journal::part::read_process;
use journal::reader::{Journal, Outcome, Segments};
use nccl_events::sort::Gather;
use nccl_events::{Kind, Start, StateArgs};
use rustc_hash::FxHashSet;

use super::filter::Filter;
use super::value::Moment;
use super::{gpu, range};
use crate::present::Present;
use crate::print;
use crate::units::plural;

#[derive(Debug)]
pub(crate) struct Comm {
    pub(crate) context: u64,
    pub(crate) begin: Moment,
    pub(crate) end_ns: u64,
    pub(crate) record: CommRecord,
    pub(crate) is_wanted: bool,
}

#[derive(Debug)]
pub(crate) struct Finalize {
    pub(crate) context: u64,
    pub(crate) begin: Moment,
    pub(crate) end_ns: u64,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Launch {
    pub(crate) id: u64,
    pub(crate) context: u64,
    pub(crate) kind: Kind,
}

#[derive(Debug)]
pub(crate) struct Process {
    pub(crate) path: PathBuf,
    pub(crate) pid: u32,
    /// The kernel's boot id, empty if unknown: journals with the same id share a clock.
    pub(crate) boot_id: String,
    /// The event kinds that the process requested from NCCL; 0 if unknown.
    pub(crate) event_mask: u32,
    /// CLOCK_REALTIME - CLOCK_MONOTONIC when recording began.
    pub(crate) realtime_offset_ns: i64,
    /// Time of the first record of all journals read together ([`super::share_beginning`]).
    pub(crate) begin_ns: u64,
    /// Time of the last record; `None` if an event has not ended.
    end_ns: Option<u64>,
    ranks: BTreeSet<i32>,
    pub(crate) comms: Vec<Comm>,
    /// Known facts of communicators, including those whose creation was not kept.
    known: BTreeMap<u64, CommRecord>,
    pub(crate) finalizes: Vec<Finalize>,
    pub(crate) gpu: Vec<gpu::Entry>,
    pub(crate) ranges: Vec<range::Entry>,
    pub(crate) launches: Vec<Launch>,
    pub(crate) outcome: Outcome,
    pub(super) clock: HostClock,
    pub(super) segments: Segments,
}

impl Process {
    /// Reads the journal in this directory without keeping events: [`super::stream::Events`] reads them one by one.
    pub(crate) fn read(path: &Path) -> Result<Self> {
        let journal = Journal::open(path).context("cannot read the journal")?;
        let mut found = Survey::default();
        let (tick_source, pid, segments) = (journal.tick_source, journal.process_id, journal.segments());
        let outcome = journal.read(&mut found).context("cannot read the journal")?;
        let Survey { mut records, mut pairs, mut launches, first_ticks, last_ticks, open, ranks, .. } = found;
        // A stable sort keeps the order of each thread's records.
        records.sort_by_key(|(_, record)| record.ticks);
        launches.sort_by_key(|(ticks, _)| *ticks);
        nccl_events::sort::sort_by_key(&mut pairs, |pair| pair.ticks);
        let clock = HostClock::new(tick_source, &pairs);
        let offset = |pair: &ClockPair| pair.realtime_ns.checked_signed_diff(pair.monotonic_ns);
        let process = path.parent().map(|part| read_process(part).0).unwrap_or_default();
        let mut read = Self {
            path: path.to_owned(),
            pid,
            boot_id: process.boot_id,
            event_mask: process.event_mask,
            realtime_offset_ns: pairs.first().and_then(offset).unwrap_or(0),
            begin_ns: first_ticks.map_or(0, |ticks| clock.nanoseconds(ticks)),
            end_ns: open.is_empty().then(|| clock.nanoseconds(last_ticks)),
            ranks,
            comms: Vec::new(),
            known: BTreeMap::new(),
            finalizes: Vec::new(),
            gpu: Vec::new(),
            ranges: Vec::new(),
            launches: launches.into_iter().map(|(_, launch)| launch).collect(),
            outcome,
            clock,
            segments,
        };
        let of_gpus = records.iter().filter(|(_, record)| matches!(record.body, RecordBody::Gpu(_)));
        let ticks: Vec<u64> = of_gpus.map(|(_, record)| record.ticks).collect();
        for (tid, record) in records {
            read.take(tid, record);
        }
        gpu::place(&mut read.gpu, &ticks, &read.clock);
        read.gpu.sort_by_key(|entry| entry.when.ns);
        // A context has one communicator; if several claim it, the first counts.
        for comm in read.comms.iter().rev() {
            read.known.insert(comm.context, comm.record.clone());
        }
        Ok(read)
    }

    fn take(&mut self, tid: u32, record: Record) {
        let when = Moment { ns: self.clock.nanoseconds(record.ticks), tid };
        let record_id = record.id;
        match record.body {
            // This record precedes all others, and is repeated with its time if the start is still there.
            RecordBody::CommKnown(comm) => drop(self.known.insert(record.id, comm)),
            RecordBody::CommInit(comm) => self.comms.push(Comm {
                context: record.id,
                begin: when,
                end_ns: self.clock.nanoseconds(comm.end_ticks),
                record: comm,
                is_wanted: true,
            }),
            RecordBody::CommFinalize { end_ticks } => self.finalizes.push(Finalize {
                context: record.id,
                begin: when,
                end_ns: self.clock.nanoseconds(end_ticks),
            }),
            RecordBody::Gpu(gpu) => self.gpu.push(gpu::Entry { when, duration_ns: None, id: record.id, record: gpu }),
            RecordBody::Range(record) => self.ranges.push(range::Entry { when, id: record_id, record }),
            _ => {}
        }
    }

    pub(crate) fn comm(&self, context: u64) -> Option<&CommRecord> {
        self.known.get(&context)
    }

    /// Filters everything but events. Communicators are filtered by rank and id only.
    pub(crate) fn keep(&mut self, filter: &Filter) {
        for comm in &mut self.comms {
            comm.is_wanted = wants(filter, &self.outcome, &comm.record);
        }
        let (known, outcome) = (&self.known, &self.outcome);
        let wanted = |context: u64| known.get(&context).map(|comm| wants(filter, outcome, comm));
        self.finalizes.retain(|call| wanted(call.context).unwrap_or(true));
        // A GPU record belongs to the rank of its launch or of its communicator; one of another process (PXN) to none.
        let foreign = filter.wants_comm("", None) && filter.wants_rank(None);
        let launches = self.launches.iter().filter(|_| !self.gpu.is_empty());
        let contexts: BTreeMap<u64, u64> = launches.map(|launch| (launch.id, launch.context)).collect();
        let begin_ns = self.begin_ns;
        self.gpu.retain(|entry| {
            let context = contexts.get(&entry.id).copied().unwrap_or(entry.id);
            let ns = entry.when.ns;
            let end_ns = ns.saturating_add(entry.duration_ns.unwrap_or(0));
            wanted(context).unwrap_or(foreign)
                && filter.wants_kind(gpu::KIND)
                && filter.wants_time(begin_ns, ns, Some(end_ns))
        });
        self.ranges.retain(|entry| {
            foreign && filter.wants_kind(range::KIND) && filter.wants_time(begin_ns, entry.when.ns, Some(entry.when.ns))
        });
        self.launches.retain(|launch| wanted(launch.context).unwrap_or(foreign));
    }

    /// Whether events of a communicator are wanted. If the communicator is unknown, the event's rank decides.
    pub(super) fn wants(&self, filter: &Filter, context: u64, rank: i32) -> bool {
        match self.comm(context) {
            Some(comm) => wants(filter, &self.outcome, comm),
            None => filter.wants_comm("", None) && filter.wants_rank(Some(rank.into())),
        }
    }

    pub(crate) fn summary(self) -> Self {
        Self { gpu: Vec::new(), ranges: Vec::new(), launches: Vec::new(), ..self }
    }

    pub(crate) fn is_whole(&self) -> bool {
        self.outcome.problems.is_empty() && self.outcome.losses.total() == 0
    }

    /// Prints what is missing or doubtful. `orphan_stops` counts stops of events that the journal lacks.
    pub(crate) fn remark(&self, orphan_stops: u64) {
        self.outcome.problems.iter().for_each(print::note);
        let path = self.path.display();
        let lost = self.outcome.losses.total();
        if lost > 0 {
            let calls = plural(lost, "call was", "calls were");
            print::note(format_args!("{path}: {calls} not recorded"));
        }
        if orphan_stops > 0 {
            let stops = plural(orphan_stops, "stop", "stops");
            print::note(format_args!("{path}: {stops} of events that it does not have, or that had stopped before"));
        }
        if self.clock.quality.calibration == Calibration::Assumed {
            print::note(format_args!("{path}: fewer than two clock readings: its times are ticks, not nanoseconds"));
        }
    }
}

fn wants(filter: &Filter, outcome: &Outcome, comm: &CommRecord) -> bool {
    let name = outcome.symbols.text(comm.name);
    filter.wants_comm(name, Some(comm.comm_id)) && filter.wants_rank(Some(comm.rank.into()))
}

/// What the journals contain, for the message about a filter that matches nothing.
pub(crate) fn present(processes: &[Process], filter: &Filter) -> Result<Present> {
    let comms = || processes.iter().flat_map(|process| process.known.values().map(move |comm| (process, comm)));
    let name = |process: &Process, comm: &CommRecord| process.outcome.symbols.text(comm.name).to_owned();
    let has_comm = |process: &Process, comm: &CommRecord, filter: &Filter| {
        filter.wants_comm(&name(process, comm), Some(comm.comm_id))
    };
    let ranks = comms().filter(|(process, comm)| has_comm(process, comm, filter)).map(|(_, comm)| comm.rank);
    // Events of a communicator whose creation was not recorded have a rank, too.
    let of_events = processes.iter().flat_map(|process| &process.ranks).copied();
    let ranks = ranks.chain(of_events.filter(|_| filter.wants_comm("", None)));
    let ends: Option<Vec<u64>> = processes.iter().map(|process| process.end_ns).collect();
    let begin_ns = processes.iter().map(|process| process.begin_ns).min().unwrap_or(0);
    let present = Present {
        what: "the journal",
        communicators: comms()
            .map(|(process, comm)| match name(process, comm) {
                name if name.is_empty() => format!("{:#018x}", comm.comm_id),
                name => name,
            })
            .gather(),
        ranks: ranks.map(i64::from).gather(),
        in_job: None,
        functions: BTreeSet::new(),
        begin_ns,
        end_ns: ends.and_then(|ends| ends.into_iter().max()),
    };
    filter.refuse_absent(&present, |single| comms().any(|(process, comm)| has_comm(process, comm, single)))?;
    Ok(present)
}

#[derive(Default)]
struct Survey {
    records: Vec<(u32, Record)>,
    pairs: Vec<ClockPair>,
    threads: BTreeMap<u16, u32>,
    launches: Vec<(u64, Launch)>,
    first_ticks: Option<u64>,
    last_ticks: u64,
    open: FxHashSet<u64>,
    ranks: BTreeSet<i32>,
}

impl Survey {
    fn note_ticks(&mut self, ticks: u64) {
        self.last_ticks = ticks.max(self.last_ticks);
        self.first_ticks = Some(self.first_ticks.map_or(ticks, |first| first.min(ticks)));
    }
}

impl Records for Survey {
    fn record(&mut self, record: Record) {
        match record.body {
            RecordBody::ThreadBegin { thread_id, .. } => drop(self.threads.insert(record.slot, thread_id)),
            RecordBody::ThreadEnd => {}
            RecordBody::ClockPair { monotonic_ns, realtime_ns, monotonic_raw_ns, uncertainty_ticks } => {
                let ticks = record.ticks;
                self.pairs.push(ClockPair { ticks, monotonic_ns, realtime_ns, monotonic_raw_ns, uncertainty_ticks });
            }
            _ => {
                self.note_ticks(record.ticks);
                self.records.push((self.threads.get(&record.slot).copied().unwrap_or(0), record));
            }
        }
    }

    fn start(&mut self, _slot: u16, ticks: u64, id: u64, start: &Start<Symbol>) {
        self.note_ticks(ticks);
        self.open.insert(id);
        self.ranks.insert(start.rank);
        let kind = start.body.kind();
        if matches!(kind, Kind::KernelLaunch | Kind::CeColl) {
            self.launches.push((ticks, Launch { id, context: start.context, kind }));
        }
    }

    fn stop(&mut self, _slot: u16, ticks: u64, id: u64) {
        self.open.remove(&id);
        self.note_ticks(ticks);
    }

    fn state(&mut self, _slot: u16, ticks: u64, _id: u64, _state: (u32, StateArgs)) {
        self.note_ticks(ticks);
    }
}
