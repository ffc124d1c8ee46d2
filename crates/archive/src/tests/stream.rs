//! Small streams of records with exact times, and the model and timeline built from them.

use std::collections::BTreeMap;

use crate::part::traffic::Traffic;
use journal::format::{CommRecord, Record, RecordBody, Records, Symbol};
use journal::part::environment::Level;
use journal::reader::{Losses, Removed, Symbols};
use model::process::Process;
use model::tables::Tables;
use model::tables::builder::TableBuilder;
use nccl_events::archive::Timing;
use nccl_events::gpu::{ALL_DEVICES, ClockSample, GpuClock, GpuRecord, Kernel};
use nccl_events::ids::index;
use nccl_events::schema::Counts;
use nccl_events::{Body, Kind, Start, StateArgs, event, state};
use timeline::build;
use timeline::builder::LocationKey;
use timeline::instance::InstanceKind;
use timeline::messages::{EventBody, Message, TimelineEvent};

pub(crate) const CONTEXT: u64 = 7 << 48 | 0xfff << 36 | 1;
pub(crate) const FOREIGN: u64 = 9 << 48 | 0xfff << 36 | 1;

/// CUPTI's clock is ahead of the host's by this much.
pub(crate) const CUPTI_AHEAD: u64 = 1_000_000;

/// A stream of records, built in time order.
#[derive(Default)]
pub(crate) struct Stream {
    pub(crate) symbols: Symbols,
    pub(crate) records: Vec<Record>,
    pub(crate) level: Level,
}

/// An interval on a location: kind, start, end.
pub(crate) type Item = (InstanceKind, u64, u64);

/// The result: intervals by location, and the rest.
pub(crate) struct Built {
    pub(crate) model: Process<'static>,
    pub(crate) counts: Counts,
    /// Names of the threads with locations, in the order of the locations.
    pub(crate) threads: Vec<String>,
    pub(crate) records: BTreeMap<LocationKey, Vec<Message>>,
    /// The locations in the order of the archive.
    pub(crate) order: Vec<LocationKey>,
    /// Intervals by location.
    pub(crate) locations: BTreeMap<LocationKey, Vec<Item>>,
    /// What is shown as records, by location, in the order of the archive.
    pub(crate) recorded: BTreeMap<LocationKey, Vec<Item>>,
}

impl Stream {
    /// Rank 0 of a communicator of two.
    pub(crate) fn with_rank() -> Self {
        let mut stream = Self::default();
        stream.init(CONTEXT, 5, 2, 0);
        stream
    }

    pub(crate) fn put(&mut self, slot: u16, ticks: u64, id: u64, body: RecordBody) -> &mut Self {
        let record = Record { slot, ticks, id, body };
        self.records.push(record);
        self
    }

    pub(crate) fn init(&mut self, id: u64, comm_id: u64, ranks: i32, rank: i32) -> &mut Self {
        let comm = CommRecord {
            end_ticks: 1,
            comm_id,
            name: Symbol::NONE,
            nodes: 1,
            ranks,
            rank,
            // The first versions give neither.
            table: if (ranks, rank) == (0, -1) { 3 } else { 6 },
            nccl_version: 0,
            repetition: 0,
        };
        self.put(0, 0, id, RecordBody::CommInit(comm))
    }

    /// Adds a started event, which stops if the span has an end.
    pub(crate) fn event(&mut self, id: u64, parent: u64, span: (u64, Option<u64>), fields: Body<Symbol>) -> &mut Self {
        self.event_of(CONTEXT, id, parent, span, fields)
    }

    pub(crate) fn event_of(
        &mut self,
        context: u64,
        id: u64,
        parent: u64,
        span: (u64, Option<u64>),
        fields: Body<Symbol>,
    ) -> &mut Self {
        let start = Start { parent, context, rank: 1, body: fields };
        self.put(0, span.0, id, RecordBody::Start(start));
        if let Some(end) = span.1 {
            self.put(0, end, id, RecordBody::Stop);
        }
        self
    }

    pub(crate) fn state(&mut self, id: u64, ticks: u64, state: u32, args: StateArgs) -> &mut Self {
        self.put(0, ticks, id, RecordBody::State { state, args })
    }

    /// A call with its launch and its collective: ids `base`, `base + 1` …; the Coll is `base + 3`.
    pub(crate) fn collective(&mut self, base: u64, at: u64, captured: bool) -> &mut Self {
        let call = self.call_on(1, captured);
        let coll = self.coll(base + 100, 0);
        self.event(base, 0, (at, Some(at + 9)), group_api(captured, 1))
            .event(base + 1, base, (at + 1, Some(at + 2)), call)
            .event(base + 2, base, (at + 3, Some(at + 5)), launch_on(1))
            .event(base + 3, base + 1, (at + 6, Some(at + 7)), coll)
    }

    /// A call of `ncclAllReduce` with a CUDA stream.
    pub(crate) fn call_on(&mut self, stream: u64, graph_captured: bool) -> Body<Symbol> {
        let func = self.symbols.intern("AllReduce");
        Body::CollApi(event::CollApi { func, count: 1, stream, graph_captured, ..event::CollApi::default() })
    }

    /// A `Coll` of the launch plan `parent_group`.
    pub(crate) fn add_coll(&mut self, id: u64, parent: u64, span: (u64, u64), parent_group: u64) -> &mut Self {
        let coll = self.coll(parent_group, 0);
        self.event(id, parent, (span.0, Some(span.1)), coll)
    }

    /// A kernel channel that the host saw in `span`, with the GPU's stamps of its start and stop.
    pub(crate) fn channel(&mut self, id: u64, parent: u64, span: (u64, u64), gpu_ns: (u64, u64)) -> &mut Self {
        let args = StateArgs::GpuTime { gpu_ns: gpu_ns.1 };
        self.event(id, parent, (span.0, Some(span.1)), kernel(gpu_ns.0));
        self.state(id, span.1, state::KERNEL_CH_STOP, args)
    }

    /// The events recorded so far, with their ids.
    pub(crate) fn starts_mut(&mut self) -> impl Iterator<Item = (u64, &mut Start<Symbol>)> {
        self.records.iter_mut().filter_map(|record| match &mut record.body {
            RecordBody::Start(start) => Some((record.id, start)),
            _ => None,
        })
    }

    pub(crate) fn coll(&mut self, parent_group: u64, comm_hash: u64) -> Body<Symbol> {
        Body::Coll(event::Coll {
            func: self.symbols.intern("AllReduce"),
            count: 1,
            channels: 1,
            warps: 1,
            parent_group,
            comm_hash,
            ..event::Coll::default()
        })
    }

    /// A communicator of two on GPU 3, and two samples of CUPTI's clock, which is ahead of the host's.
    pub(crate) fn with_gpu() -> Self {
        let mut stream = Self::with_rank();
        stream.gpu(0, CONTEXT, GpuRecord::DeviceOfCommunicator { ordinal: 3 });
        for time in [0, 10_000] {
            stream.sample(GpuClock::Cupti, ALL_DEVICES, time, time + CUPTI_AHEAD);
        }
        stream
    }

    pub(crate) fn gpu(&mut self, time: u64, id: u64, record: GpuRecord<Symbol>) {
        self.put(0, time, id, RecordBody::Gpu(record));
    }

    pub(crate) fn sample(&mut self, clock: GpuClock, ordinal: u32, time: u64, gpu_ns: u64) {
        let sample = ClockSample { clock, ordinal, gpu_ns, uncertainty_ticks: 1 };
        self.gpu(time, 0, GpuRecord::Clock(sample));
    }

    /// An NCCL kernel that ran at this time, by the host's clock.
    pub(crate) fn kernel(&mut self, (start, end): (u64, u64)) -> Kernel<Symbol> {
        Kernel {
            device: 3,
            context: 1,
            stream: 7,
            start_ns: start + CUPTI_AHEAD,
            end_ns: end + CUPTI_AHEAD,
            name: self.symbols.intern("_Z30ncclDevKernel_AllReduce_Sum_f32v"),
            ..Kernel::default()
        }
    }

    pub(crate) fn add_kernel(&mut self, id: u64, span: (u64, u64)) {
        let kernel = self.kernel(span);
        self.gpu(9000, id, GpuRecord::Kernel(kernel));
    }

    fn tables(&mut self, losses: &Losses) -> Tables {
        let mut builder = TableBuilder::default();
        self.records.drain(..).for_each(|record| builder.record(record));
        builder.finish(losses, &Removed::default(), 0)
    }

    /// The traffic in the process's manifest.
    pub(crate) fn traffic(&mut self, losses: &Losses) -> Traffic {
        Traffic::from_process(&Process::new(&self.tables(losses), &self.symbols, &[], Level::default()))
    }

    pub(crate) fn build(&mut self) -> Built {
        let tables = self.tables(&Losses::default());
        // The model borrows the tables for as long as the test runs.
        let tables: &'static Tables = Box::leak(Box::new(tables));
        let symbols: &'static Symbols = Box::leak(Box::new(std::mem::take(&mut self.symbols)));
        let model = Process::new(tables, symbols, &[], self.level);
        let (timeline, mut counts) = build(&model);
        counts.add(&tables.counts);
        let threads = timeline.threads.iter().map(|&thread| tables.threads[index(thread)].name.clone()).collect();
        let order = timeline.locations.iter().map(|location| location.key).collect();
        let mut records: BTreeMap<LocationKey, Vec<Message>> = BTreeMap::new();
        let (mut locations, mut recorded) = (BTreeMap::new(), BTreeMap::<LocationKey, Vec<Item>>::new());
        for mut location in timeline.locations {
            let key = location.key;
            let items = location.instances.iter().map(|one| (one.instance.kind, one.start, one.end));
            locations.insert(key, items.collect());
            location.sort();
            let mut cut = 0;
            let events: Vec<TimelineEvent> = location.events(location.instances.iter(), &mut cut).collect();
            let messages = events.iter().filter_map(|event| match event.body {
                EventBody::Message(message) => Some(message),
                _ => None,
            });
            records.entry(key).or_default().extend(messages);
            let shown = events.iter().filter_map(|event| match event.body {
                EventBody::Record(shown) => Some((shown.instance.kind, shown.start, shown.end)),
                _ => None,
            });
            recorded.entry(key).or_default().extend(shown);
        }
        Built { order, threads, locations, recorded, records, model, counts }
    }
}

impl Built {
    pub(crate) fn operations(&self) -> Vec<(u64, u64, Timing, bool)> {
        let intervals = self.model.intervals.iter().flatten();
        intervals.map(|interval| (interval.start, interval.end, interval.timing, interval.unfinished)).collect()
    }

    /// The regions of a location.
    pub(crate) fn location(&self, key: LocationKey) -> &[Item] {
        &self.locations[&key]
    }

    /// What is shown as records on a location.
    pub(crate) fn recorded(&self, key: LocationKey) -> &[Item] {
        &self.recorded[&key]
    }

    /// How many events were recorded, were written, and are not shown.
    pub(crate) fn fates(&self, kind: Kind) -> (u64, u64, u64) {
        let counts = self.counts.kinds.get(kind);
        assert!(counts.adds_up(), "{kind:?} {counts:?}");
        (counts.seen, counts.written, counts.not_shown)
    }

    /// Replay numbers of the operations, in their order.
    pub(crate) fn replays(&self) -> Vec<Option<u64>> {
        self.model.links.operations.all.iter().map(|linked| linked.replay).collect()
    }
}

pub(crate) fn launch_on(stream: u64) -> Body<Symbol> {
    Body::KernelLaunch(event::KernelLaunch { stream })
}

pub(crate) fn group_api(graph_captured: bool, depth: i32) -> Body<Symbol> {
    Body::GroupApi(event::GroupApi { graph_captured, depth })
}

pub(crate) fn step(step: i32) -> Body<Symbol> {
    Body::ProxyStep(event::ProxyStep { step })
}

pub(crate) fn proxy_op(is_send: bool) -> Body<Symbol> {
    Body::ProxyOp(event::ProxyOp { pid: 1, channel: 0, peer: 0, steps: 1, chunk_bytes: 1, is_send })
}

pub(crate) const fn kernel(gpu_ns: u64) -> Body<Symbol> {
    Body::KernelCh(event::KernelCh { channel: 0, gpu_ns })
}
