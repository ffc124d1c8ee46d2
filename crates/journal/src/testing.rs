//! For tests: processes recorded with the journal's own writer. Feature `testing` only.

#![expect(
    missing_docs,
    clippy::missing_panics_doc,
    clippy::expect_used,
    reason = "what is not as it should be fails the test"
)]

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::clock;
use crate::clock::ClockPair;
use crate::part::ProcessInfo;
use crate::writer::{JournalWriter, SlotWriter, WriterOptions};
use nccl_events::event::Start;
use nccl_events::ids::{ContextId, EventId, ProcessTag};
use nccl_events::{Body, CommInit, Name, State, StateArgs, Table, event};

/// A process id that no process has: Linux allows ids up to 2²².
pub const NO_PROCESS: u32 = 1 << 30;
/// How far the GPU's timer lags CLOCK_MONOTONIC.
const GPU_OFFSET_NS: u64 = 1000;

/// A recording process: one rank of one communicator.
#[derive(Debug)]
pub struct Process {
    pub part: PathBuf,
    /// The slot of the thread that calls NCCL.
    pub main: SlotWriter,
    pub proxy: SlotWriter,
    pub maintenance: SlotWriter,
    /// The communicator's context.
    pub context: ContextId,
    pub rank: i32,
    writer: Arc<JournalWriter>,
}

/// Properties of a process.
#[derive(Clone, Copy, Debug)]
pub struct ProcessIdentity {
    /// Rank in the job and in the communicator.
    pub rank: u32,
    /// Size of the communicator.
    pub ranks: u32,
    /// Whether the environment contains the launcher's rank and size.
    pub in_environment: bool,
}

/// The start of an event.
pub fn start<'a>(context: ContextId, parent: u64, rank: i32, body: Body<Name<'a>>) -> Start<Name<'a>> {
    Start { context: context.get(), parent, rank, body }
}

/// A change of an event's state.
pub fn state(event: EventId, state: u32, args: StateArgs) -> State {
    State { event: event.get(), state, args }
}

/// The fields of an all-reduce of 1000 floats.
pub fn all_reduce(sequence: u64, parent_group: u64) -> Body<Name<'static>> {
    Body::Coll(event::Coll {
        sequence,
        func: Name::from_cstr(c"AllReduce"),
        send_buffer: 1,
        recv_buffer: 2,
        count: 1000,
        datatype: Name::from_cstr(c"ncclFloat32"),
        channels: 2,
        warps: 8,
        algorithm: Name::from_cstr(c"RING"),
        protocol: Name::from_cstr(c"SIMPLE"),
        parent_group,
        ..event::Coll::default()
    })
}

impl Process {
    /// Begins recording in `out/parts/`, with two processes per host.
    pub fn begin(out: &Path, who: ProcessIdentity) -> Self {
        let host = who.rank / 2;
        let mut info = ProcessInfo {
            format: 1,
            host: format!("host{host}"),
            boot_id: format!("boot{host}"),
            pid: NO_PROCESS + who.rank,
            session_start_realtime_ns: clock::realtime_ns(),
            nccl_version: "2.30.7".to_owned(),
            table: 6,
            ..ProcessInfo::default()
        };
        if who.in_environment {
            info.environment.rank = Some(who.rank);
            info.environment.size = Some(who.ranks);
        }
        let name = format!("host{host}-{}-{}", info.pid, info.session_start_realtime_ns);
        Self::begin_as(&out.join("parts").join(name), who, &info)
    }

    /// Begins recording in `part` as the process that `info` describes.
    pub fn begin_as(part: &Path, who: ProcessIdentity, info: &ProcessInfo) -> Self {
        let tick_source = clock::select();
        fs::create_dir_all(part.join("journal")).expect("a part can be made");
        let json = serde_json::to_vec(info).expect("plain data");
        fs::write(part.join("process.json"), json).expect("a file can be written");
        let tag = ProcessTag::new(u16::try_from(0x100 + who.rank).expect("few ranks"));
        let writer = JournalWriter::new(WriterOptions {
            directory: part.join("journal"),
            tag,
            process_id: info.pid,
            tick_source,
            session_start_realtime_ns: info.session_start_realtime_ns,
            limit_bytes: 1 << 30,
        });
        let slot = |name: &str| writer.register(name).expect("a slot");
        let (mut maintenance, mut main) = (slot("nccl-otf2-maint"), slot("main"));
        let proxy = slot("proxy");
        maintenance.clock_pair(&ClockPair::read());
        let context = ContextId::new(tag, 1);
        let rank = i32::try_from(who.rank).expect("few ranks");
        let comm = CommInit {
            table: Table::from_number(info.table).expect("a table"),
            comm_id: 0xabcd_ef01_2345_6789,
            name: Name::NONE,
            nodes: 1,
            ranks: i32::try_from(who.ranks).expect("few ranks"),
            rank,
            nccl_version: version_number(&info.nccl_version),
        };
        main.comm_init(context.get(), clock::ticks(), 0, &comm);
        Self { part: part.to_owned(), main, proxy, maintenance, context, rank, writer }
    }

    /// The slot of another thread.
    pub fn thread(&self, name: &str) -> SlotWriter {
        let writer = &self.writer;
        let register = || writer.register(name).expect("a slot");
        std::thread::scope(|scope| scope.spawn(register).join().expect("registered"))
    }

    /// The thread of a slot ends.
    pub fn end_thread(&self, slot: SlotWriter) {
        self.writer.retire(slot);
    }

    fn event<'a>(&self, parent: EventId, body: Body<Name<'a>>) -> Start<Name<'a>> {
        start(self.context, parent.get(), self.rank, body)
    }

    /// Starts an event on the thread that calls NCCL.
    fn start(&mut self, parent: EventId, body: Body<Name<'_>>) -> EventId {
        let event = self.event(parent, body);
        self.main.start(&event)
    }

    /// Starts an event on the proxy thread.
    fn start_proxy(&mut self, parent: EventId, body: Body<Name<'_>>) -> EventId {
        let event = self.event(parent, body);
        self.proxy.start(&event)
    }

    /// A collective without a call, a launch or children.
    pub fn collective(&mut self, sequence: u64) {
        let operation = self.start(EventId::NONE, all_reduce(sequence, 0));
        self.main.stop(operation.get());
    }

    /// One grouped call with launch, Coll, two proxy operations and two kernel channels. Returns launch and Coll.
    pub fn all_reduce(&mut self, sequence: u64) -> [EventId; 2] {
        let group = event::GroupApi { graph_captured: false, depth: 1 };
        let group = self.start(EventId::NONE, Body::GroupApi(group));
        self.main.state(&state(group, nccl_events::state::GROUP_START_API_STOP, StateArgs::None));
        let call = event::CollApi {
            func: Name::from_cstr(c"AllReduce"),
            count: 1000,
            datatype: Name::from_cstr(c"ncclFloat32"),
            stream: 0x5000,
            ..event::CollApi::default()
        };
        let call = self.start(group, Body::CollApi(call));
        self.main.stop(call.get());
        self.main.state(&state(group, nccl_events::state::GROUP_END_API_START, StateArgs::None));
        let launch = self.start(group, Body::KernelLaunch(event::KernelLaunch { stream: 0x5000 }));
        let gpu_start_ns = clock::monotonic_ns() - GPU_OFFSET_NS;
        self.main.stop(launch.get());
        let plan = self.start(EventId::NONE, Body::Group(event::Group {}));
        let coll = self.start(call, all_reduce(sequence, plan.get()));
        for event in [coll, plan, group] {
            self.main.stop(event.get());
        }
        self.transfers(coll);
        self.channels(coll, gpu_start_ns);
        [launch, coll]
    }

    fn transfers(&mut self, operation: EventId) {
        let [send, receive] = [true, false].map(|is_send| {
            let body = Body::ProxyOp(event::ProxyOp {
                pid: i32::try_from(NO_PROCESS).expect("it fits") + self.rank,
                channel: 0,
                peer: 1 - self.rank,
                steps: 4,
                chunk_bytes: 512,
                is_send,
            });
            self.start_proxy(operation, body)
        });
        self.proxy.state(&state(send, nccl_events::state::PROXY_OP_IN_PROGRESS, StateArgs::None));
        let step = self.start_proxy(send, Body::ProxyStep(event::ProxyStep { step: 0 }));
        let bytes = StateArgs::ProxyStep { bytes: 4000 };
        self.proxy.state(&state(step, nccl_events::state::PROXY_STEP_SEND_WAIT, bytes));
        for event in [step, send, receive] {
            self.proxy.stop(event.get());
        }
    }

    /// Two kernel channels of an operation, from this time of the GPU's timer until now.
    pub fn channels(&mut self, operation: EventId, gpu_start_ns: u64) {
        for channel in [0, 1] {
            let gpu_ns = gpu_start_ns + u64::from(channel);
            let kernel = self.start_proxy(operation, Body::KernelCh(event::KernelCh { channel, gpu_ns }));
            let stop = StateArgs::GpuTime { gpu_ns: clock::monotonic_ns() - GPU_OFFSET_NS };
            self.proxy.state(&state(kernel, nccl_events::state::KERNEL_CH_STOP, stop));
            self.proxy.stop(kernel.get());
        }
    }

    /// A send to and a receive from the other of two ranks, in one plan, without children.
    pub fn exchange(&mut self) {
        let plan = self.start(EventId::NONE, Body::Group(event::Group {}));
        for func in [c"Send", c"Recv"] {
            let body = Body::P2p(event::P2p {
                func: Name::from_cstr(func),
                buffer: 3,
                datatype: Name::from_cstr(c"ncclInt8"),
                count: 77,
                peer: 1 - self.rank,
                channels: 1,
                parent_group: plan.get(),
                ..event::P2p::default()
            });
            let operation = self.start(EventId::NONE, body);
            self.main.stop(operation.get());
        }
        self.main.stop(plan.get());
    }

    /// Ends like the last `finalize`. Returns the part.
    pub fn end(mut self) -> PathBuf {
        self.main.comm_finalize(self.context.get(), clock::ticks());
        self.leave()
    }

    /// Ends like a killed process: no finalize, and threads do not end. Returns the part.
    pub fn leave(mut self) -> PathBuf {
        self.maintenance.clock_pair(&ClockPair::read());
        drop((self.main, self.proxy, self.maintenance, self.writer));
        self.part
    }
}

/// NCCL's version number for a text such as `2.28.9`.
fn version_number(text: &str) -> u32 {
    let mut parts = text.split('.').map(|part| part.parse().unwrap_or(0));
    let mut next = || parts.next().unwrap_or(0_u32);
    10_000 * next() + 100 * next() + next()
}
