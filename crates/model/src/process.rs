//! What is known about a process before its timeline is built ([`Process`]): which events belong together
//! ([`Links`]: call ↔ operation ↔ launch ↔ transfer ↔ channel), its communicators and clocks, and when its operations
//! ran.
//!
//! NCCL stops Coll and P2p when they are enqueued; only their children show when the work was done:
//!
//! ```text
//!  GroupApi ── CollApi ── Coll ──┬── ProxyOp ── ProxyStep …   network
//!     └── KernelLaunch ╌╌╌╌╌┘    └── KernelCh                 GPU
//!          (same group, same communicator, see `links::launches`)
//! ```

use std::collections::{BTreeMap, BTreeSet};

use crate::communicators;
use crate::communicators::Comms;
use crate::links::derived::DerivedCollectives;
use crate::links::gpu_stamps::{Rings, Stamps};
use crate::links::gpu_work::GpuWork;
use crate::links::intervals::{InferredEnds, Interval, PreviousKernels, enqueued, intervals};
use crate::links::launches::Replays;
use crate::links::operations::{LinkedOperation, LinkedOperations};
use crate::links::transfers::{RemoteTransfers, Transfers};
use crate::links::{intervals, launches, operations, transfers};
use crate::program_ranges::{RangeLinks, begin_of_operation};
use crate::tables::builder::TableBuilder;
use crate::tables::{Event, EventRow, Head, Row, Tables, ThreadKey};
use clocks::gpu::{GpuCalibration, GpuClock, StampBounds};
use journal::format::{Record, RecordBody, Records, Symbol};
use journal::part::environment::Level;
use journal::reader::{Error, Journal, Outcome, Symbols};
use nccl_events::archive::Timing;
use nccl_events::collective::{Collective, Function, element_bytes};
use nccl_events::event::{KernelCh, ProxyOp, ProxyStep};
use nccl_events::gpu::GpuRecord;
use nccl_events::ids::index;
use nccl_events::sort::Gather;
use nccl_events::{MOST_RANKS, Start, StateArgs, state};
use rustc_hash::FxHashMap;

/// Which events of a process belong together.
#[derive(Debug, Default)]
pub struct Links {
    /// One for each Coll, P2p and CeColl, in the order of the journal.
    pub operations: LinkedOperations,
    pub stamps: Stamps,
    pub replays: Replays,
    pub derived: DerivedCollectives,
    pub gpu: GpuWork,
    pub transfers: Transfers,
    pub inferred_ends: InferredEnds,
    pub ranges: RangeLinks,
    /// Proxy operations of other processes that count for operations of this process.
    pub remote_operations: u64,
}

impl Links {
    /// Links the events. Times must already be nanoseconds; `remote` is what other processes did for this one (PXN).
    pub fn new(tables: &Tables, symbols: &Symbols, remote: &[RemoteTransfers]) -> Self {
        Self::after(tables, symbols, remote, None)
    }

    /// The links of events that follow a running process's settled ones.
    fn after(
        tables: &Tables,
        symbols: &Symbols,
        remote: &[RemoteTransfers],
        mut history: Option<&mut History>,
    ) -> Self {
        let inferred_ends = intervals::infer_ends(tables);
        let stamps = Stamps::new(tables, history.as_deref_mut().map(|history| &mut history.rings));
        let mut operations = LinkedOperations::new(tables);
        let numbers = history.as_deref().map(|history| &history.replays);
        let replays = launches::number_replays(tables, &mut operations, numbers);
        let transfers = Transfers::new(tables);
        transfers.add_to_operations(tables, &mut operations);
        operations::link_kernel_channels(tables, &stamps, &mut operations);
        let remote_operations = transfers::add_remote_transfers(tables, remote, &mut operations);
        operations.find_unfinished(tables);
        launches::link_launches(tables, &mut operations);
        let gpu = GpuWork::new(tables, symbols, &operations, &replays, history.is_none());
        let derived = DerivedCollectives::new(tables, symbols, &operations);
        let called = operations.all.iter().map(|one| begin_of_operation(tables, one.operation, one.replay.is_some()));
        let first_calls =
            derived.calls.iter().filter_map(|call| Some((*call.calls.first()?, call.pattern.collective().name())));
        let ranges = RangeLinks::new(tables, symbols, called, first_calls);
        Self { operations, stamps, replays, derived, gpu, transfers, inferred_ends, ranges, remote_operations }
    }

    #[inline]
    pub fn operation(&self, at: u32) -> Option<&LinkedOperation> {
        self.operations.all.get(index(at))
    }
}

/// A rank in its communicator, for communication records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CommunicatorMember {
    /// The part's number of the communicator.
    pub comm: u32,
    pub rank: u32,
    /// Number of ranks, as far as this process knows.
    pub ranks: u32,
    pub knows_ranks: bool,
}

impl CommunicatorMember {
    /// The number of ranks that the bytes of a collective record cover. 1 if the size is unknown: another process may
    /// have seen other ranks, and the records of all members must fit together.
    pub fn ranks_in_bytes(&self) -> u64 {
        if self.knows_ranks { self.ranks.into() } else { 1 }
    }

    /// Whether the communicator can have this rank. One of unknown size can have more than this process has seen, but
    /// not if what NCCL states of it is impossible.
    pub fn may_have(&self, rank: u32) -> bool {
        if self.knows_ranks { rank < self.ranks } else { self.ranks > 0 && rank < MOST_RANKS }
    }
}

/// The owner of a location: a context of this process, of another (PXN), or one whose beginning was not recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Owner {
    /// An index in [`crate::tables::Tables::contexts`].
    Context(u32),
    /// The context that NCCL gave for another process's operation, or for one whose beginning was lost.
    Foreign(u64),
}

impl Owner {
    pub const fn is_foreign(&self) -> bool {
        matches!(self, Self::Foreign(_))
    }
}

/// What shows whether an operation has ended. NCCL's stop of an operation is that of its enqueueing, and shows nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// CUPTI or CUDA events timed its kernel.
    Timed,
    /// All of its kernel channels have stopped.
    KernelChannels,
    /// All of its network transfers have stopped.
    Transfers,
    /// Its kernel, or some of its channels or transfers, have not ended.
    Open,
    /// Nothing was recorded of its running.
    Unknown,
}

/// The interpretation of a process's events, and when its operations ran.
#[derive(Debug)]
pub struct Process<'a> {
    pub tables: &'a Tables,
    pub symbols: &'a Symbols,
    pub meanings: Meanings,
    pub links: Links,
    pub comms: Comms,
    /// The clocks of the GPUs, by index of the context.
    pub gpu_clocks: Vec<GpuClock>,
    /// When operations ran, by index of the operation.
    pub intervals: Vec<Option<Interval>>,
    pub callback_threads: BTreeSet<ThreadKey>,
    pub level: Level,
}

impl<'a> Process<'a> {
    /// Computes links, communicators, clocks and intervals. Times must already be nanoseconds; `remote` is what other
    /// processes did for this one.
    pub fn new(tables: &'a Tables, symbols: &'a Symbols, remote: &[RemoteTransfers], level: Level) -> Self {
        Self::build(tables, symbols, (remote, level), None)
    }

    /// The interpretation of events that follow a running process's settled ones. Adds these events to `history`.
    pub(crate) fn after(tables: &'a Tables, symbols: &'a Symbols, history: &mut History) -> Self {
        let process = Self::build(tables, symbols, (&[], Level::default()), Some(history));
        for (linked, interval) in process.links.operations.all.iter().zip(&process.intervals) {
            if let Some(interval) = interval {
                let operation = tables.operation(linked.operation);
                let previous = history.previous.entry(tables.context_of(&operation)).or_default();
                previous.add(enqueued(tables, &operation), interval);
            }
        }
        process
    }

    fn build(
        tables: &'a Tables,
        symbols: &'a Symbols,
        (remote, level): (&[RemoteTransfers], Level),
        mut history: Option<&mut History>,
    ) -> Self {
        let links = Links::after(tables, symbols, remote, history.as_deref_mut());
        let comms = Comms::new(tables, &links.gpu.devices);
        let gpu_clocks = gpu_clocks(tables, &links, &comms, history.as_deref_mut().map(|history| &mut history.bounds));
        let previous = |context: u32| {
            let history: &History = history.as_deref()?;
            history.previous.get(&tables.contexts.get(index(context))?.id)
        };
        let intervals = intervals(tables, &links.operations, &links.gpu, &gpu_clocks, previous);
        Self {
            tables,
            symbols,
            meanings: Meanings::new(symbols),
            links,
            comms,
            gpu_clocks,
            intervals,
            callback_threads: communicators::callback_threads(tables),
            level,
        }
    }

    pub fn interval(&self, at: u32) -> Option<Interval> {
        self.intervals.get(index(at)).copied().flatten()
    }

    /// The error of an operation's interval beyond that of the host's clock; `None` if unknown.
    pub fn error_ns(&self, at: u32) -> Option<u64> {
        let gpu = self.links.gpu.intervals(index(at));
        match self.interval(at)?.timing {
            Timing::Cupti => Some(gpu.by_cupti?.uncertainty_ns),
            Timing::Event => Some(gpu.by_events?.uncertainty_ns),
            // `Kernel` has the times of another operation, which may be those of the GPU's timer.
            timing @ (Timing::KernelChannel | Timing::Kernel) => {
                let operation = self.tables.operation(self.links.operation(at)?.operation);
                let quality = &self.gpu_clocks.get(index(operation.context_at()?))?.quality;
                let is_on_host = timing == Timing::Kernel && quality.calibration == GpuCalibration::None;
                if is_on_host { Some(0) } else { quality.error_ns() }
            }
            Timing::KernelChannelHost | Timing::Proxy | Timing::Enqueue => Some(0),
        }
    }

    /// What shows whether an operation has ended.
    pub fn end_of_operation(&self, at: u32) -> End {
        let Some(linked) = self.links.operation(at) else {
            return End::Unknown;
        };
        let gpu = self.links.gpu.intervals(index(at));
        // An operation with GPU times has ended, even if its events have not.
        match gpu.by_cupti.or(gpu.by_events) {
            Some(ran) if !ran.unfinished => End::Timed,
            _ if linked.has_open_children => End::Open,
            _ if linked.kernel_host.is_some() => End::KernelChannels,
            _ if linked.proxy_last.is_some() => End::Transfers,
            Some(_) => End::Open,
            None => End::Unknown,
        }
    }

    /// When an event stopped; the last time seen if it did not stop.
    #[inline]
    pub fn end(&self, event: &Head) -> u64 {
        event.stop().unwrap_or_else(|| self.tables.span.1.max(event.start))
    }

    /// When a step ended, reported or inferred.
    pub fn step_end(&self, row: Row<ProxyStep>) -> Option<u64> {
        self.links.inferred_ends.steps.get(&row).copied().or(self.tables[row].stop())
    }

    /// Whether an event never stopped, although NCCL would have reported the stop.
    pub fn is_unfinished(&self, event: EventRow) -> bool {
        let head = self.tables.head(event);
        let is_reported = || match event {
            EventRow::ProxyOp(row) => self.links.transfers.is_silent(row),
            EventRow::ProxyStep(row) => self.links.inferred_ends.steps.contains_key(&row),
            EventRow::ProxyCtrl(row) => self.links.inferred_ends.controls.contains_key(&row),
            _ => false,
        };
        head.is_some_and(|head| head.stop().is_none()) && !is_reported()
    }

    /// The communicator member that took part in an operation, or that a transfer belongs to.
    #[inline]
    pub fn member_of(&self, event: &Head) -> Option<CommunicatorMember> {
        let member = self.comms.member(event.context_at()?)?;
        let comm = self.comms.comm(member)?;
        Some(CommunicatorMember {
            comm: member.comm,
            rank: member.rank,
            ranks: if comm.ranks > 0 { comm.ranks } else { comm.ranks_seen },
            knows_ranks: comm.ranks > 0,
        })
    }

    pub fn owner(&self, event: &Head) -> Owner {
        let foreign = || Owner::Foreign(self.tables.context_of(event));
        event.context_at().map_or_else(foreign, Owner::Context)
    }

    #[inline]
    pub fn owner_of_transfer(&self, op: &Event<ProxyOp>) -> Owner {
        if self.tables.names_another_process(op) {
            return Owner::Foreign(self.tables.context_of(op));
        }
        self.owner(op)
    }
}

// Launches, callbacks, and kernel times from CUPTI or CUDA events bound a process's GPU clocks. Ranks on one GPU pool
// their bounds. If these contradict each other, the guess which ranks share a GPU was wrong, and each rank gets a clock
// of its own.

/// The bounds of each communicator rank, from its trusted stamps.
fn collect(tables: &Tables, links: &Links) -> Vec<StampBounds> {
    let mut bounds = vec![StampBounds::default(); tables.contexts.len()];
    for (row, channel) in tables.rows::<KernelCh>() {
        let Some((start_gpu_ns, stop_gpu_ns)) = links.stamps.trusted_stamps(row, channel) else {
            continue;
        };
        let Some(bound) = channel.context_at().and_then(|at| bounds.get_mut(index(at))) else {
            continue;
        };
        bound.not_after(start_gpu_ns, channel.start);
        if let Some(reported) = channel.state_time(state::KERNEL_CH_STOP) {
            bound.not_after(stop_gpu_ns, reported);
        }
        let linked = links.operations.find(tables, channel.parent);
        if let Some(earliest) = linked.and_then(|at| earliest_start(tables, links, at)) {
            bound.not_before(start_gpu_ns, earliest);
        }
        let ran = linked.map(|at| links.gpu.intervals(index(at))).unwrap_or_default();
        for ran in ran.by_cupti.into_iter().chain(ran.by_events) {
            bound.after_kernel_began(start_gpu_ns, ran.start.saturating_sub(ran.uncertainty_ns));
            if !ran.unfinished {
                bound.before_kernel_ended(stop_gpu_ns, ran.end.saturating_add(ran.uncertainty_ns));
            }
        }
    }
    bounds
}

/// The time before which a kernel channel cannot have begun: its kernel's launch. A graph's kernels run long after
/// their launch was captured; they wait for the host function that starts their Coll or P2p.
fn earliest_start(tables: &Tables, links: &Links, at: u32) -> Option<u64> {
    let linked = links.operation(at)?;
    let operation = tables.operation(linked.operation);
    if tables.is_captured(tables.find(operation.parent)?) {
        return Some(operation.start);
    }
    Some(tables[linked.launch?].start)
}

/// How many of the last bounds of a communicator rank are kept for later events.
const KEPT_BOUNDS: usize = 64;

/// What the settled events of a running process leave for those that follow. Contexts are named by their ids.
#[derive(Debug, Default)]
pub(crate) struct History {
    pub(crate) rings: Rings,
    pub(crate) previous: FxHashMap<u64, PreviousKernels>,
    pub(crate) bounds: FxHashMap<u64, StampBounds>,
    /// The replay that each operation of a captured call is, by the operation's id.
    pub(crate) replays: FxHashMap<u64, u64>,
}

/// The GPU clocks of a process, by index of the context. Times must already be nanoseconds. `earlier` has the last
/// bounds of events that have left the tables, and gets those of the tables.
fn gpu_clocks(
    tables: &Tables,
    links: &Links,
    comms: &Comms,
    earlier: Option<&mut FxHashMap<u64, StampBounds>>,
) -> Vec<GpuClock> {
    let mut bounds = collect(tables, links);
    if let Some(earlier) = earlier {
        for (context, bounds) in tables.contexts.iter().zip(&mut bounds) {
            if let Some(earlier) = earlier.get(&context.id) {
                bounds.add(earlier);
            }
            if !bounds.is_empty() {
                earlier.insert(context.id, bounds.last(KEPT_BOUNDS));
            }
        }
    }
    let mut by_gpu: BTreeMap<u32, StampBounds> = BTreeMap::new();
    for (member, rank_bounds) in comms.members.iter().zip(&bounds) {
        by_gpu.entry(member.gpu).or_default().add(rank_bounds);
    }
    let pooled: BTreeMap<u32, GpuClock> = by_gpu.iter().map(|(&gpu, bounds)| (gpu, bounds.clock())).gather();
    let of_rank = comms.members.iter().zip(&bounds).map(|(member, own)| {
        let pooled = pooled.get(&member.gpu).cloned().unwrap_or_default();
        match pooled.quality.calibration {
            _ if own.is_empty() => GpuClock::default(),
            GpuCalibration::Inconsistent => own.clock(),
            // Pooled bounds also bend if two GPUs were taken for one: the rank's own must bend, too.
            GpuCalibration::Piecewise => match own.clock() {
                own if own.quality.calibration == GpuCalibration::Piecewise => pooled,
                own => own,
            },
            _ => pooled,
        }
    });
    of_rank.collect()
}

/// Reads a journal without the events and GPU work before `ticks`; with all ranges, which can be open then.
pub fn read_since(journal: Journal, ticks: u64) -> Result<(TableBuilder, Outcome), Error> {
    let mut since = TablesSince { ticks, builder: TableBuilder::default() };
    let outcome = journal.read(&mut since)?;
    Ok((since.builder, outcome))
}

/// Drops events and GPU work before a time, and passes on all other records.
struct TablesSince {
    ticks: u64,
    builder: TableBuilder,
}

impl Records for TablesSince {
    fn record(&mut self, record: Record) {
        let is_work = matches!(
            record.body,
            RecordBody::Gpu(GpuRecord::Kernel(_) | GpuRecord::Copy(_) | GpuRecord::LaunchTime(_))
                | RecordBody::Start(_)
                | RecordBody::Stop
                | RecordBody::State { .. }
        );
        if record.ticks >= self.ticks || !is_work {
            self.builder.record(record);
        }
    }

    #[inline]
    fn start(&mut self, slot: u16, ticks: u64, id: u64, start: &Start<Symbol>) {
        if ticks >= self.ticks {
            self.builder.start(slot, ticks, id, start);
        }
    }

    #[inline]
    fn stop(&mut self, slot: u16, ticks: u64, id: u64) {
        if ticks >= self.ticks {
            self.builder.stop(slot, ticks, id);
        }
    }

    #[inline]
    fn state(&mut self, slot: u16, ticks: u64, id: u64, state: (u32, StateArgs)) {
        if ticks >= self.ticks {
            self.builder.state(slot, ticks, id, state);
        }
    }
}

/// The meaning of a string that names a data type or a function.
#[derive(Clone, Copy, Debug, Default)]
struct Meaning {
    element_bytes: u64,
    function: Option<Function>,
}

/// The meanings of a journal's strings. Every operation repeats the same few, so each is interpreted once.
#[derive(Debug, Default)]
pub struct Meanings(Vec<Meaning>);

impl Meanings {
    pub fn new(symbols: &Symbols) -> Self {
        let none = Meaning::default();
        let named = symbols.all().map(|symbol| {
            let text = symbols.text(symbol);
            Meaning { element_bytes: element_bytes(text), function: Function::named(text) }
        });
        Self([none].into_iter().chain(named).collect())
    }

    /// Bytes of an element of a data type, see [`element_bytes`].
    #[inline]
    fn element_bytes(&self, datatype: Symbol) -> u64 {
        self.0.get(index(datatype.0)).map_or(0, |meaning| meaning.element_bytes)
    }

    #[inline]
    pub fn bytes(&self, count: u64, datatype: Symbol) -> u64 {
        count.saturating_mul(self.element_bytes(datatype))
    }

    #[inline]
    pub fn function(&self, func: Symbol) -> Option<Function> {
        self.0.get(index(func.0))?.function
    }

    #[inline]
    pub fn collective(&self, func: Symbol) -> Option<Collective> {
        self.function(func)?.collective()
    }
}
