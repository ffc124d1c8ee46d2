//! A job to write: real journals by the recording half's own writer, one process after the other.

use nccl_events::event;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use journal::clock::{self, ClockPair};
use journal::part::process::ProcessInfo;
use journal::writer::{Cursor, Registry, RegistryOptions};
use nccl_events::id::{ContextId, EventId, ProcessTag};
use nccl_events::{Body, CommInit, Name, Start, State, StateArgs, state as number};

/// A process that records.
pub(crate) struct Process {
    pub(crate) part: PathBuf,
    pub(crate) main: Cursor,
    pub(crate) proxy: Cursor,
    pub(crate) context: ContextId,
    pub(crate) keeper: Cursor,
    registry: Arc<Registry>,
}

/// What a process is to look like.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Who {
    pub(crate) rank: u32,
    pub(crate) ranks: u32,
    /// Whether the launcher's rank and size are known.
    pub(crate) in_environment: bool,
}

/// A process id that no process has: pids end at 2²².
pub(crate) const NO_PROCESS: u32 = 1 << 30;

pub(crate) fn start<'a>(
    context: ContextId,
    parent: u64,
    rank: i32,
    body: Body<Name<'a>>,
) -> Start<Name<'a>> {
    Start {
        context: context.get(),
        parent,
        rank,
        body,
    }
}

pub(crate) fn state(event: EventId, state: u32, args: StateArgs) -> State {
    State {
        event: event.get(),
        state,
        args,
    }
}

impl Process {
    /// Begins recording in `out/parts/`.
    pub(crate) fn begin(out: &Path, who: Who) -> Self {
        let tick_source = clock::select();
        let started_ns = clock::realtime_ns();
        let pid = NO_PROCESS + who.rank;
        let part = out
            .join("parts")
            .join(format!("host{}-{pid}-{started_ns}", who.rank / 2));
        fs::create_dir_all(part.join("journal")).expect("a part can be made");
        let mut info = ProcessInfo {
            format: 1,
            host: format!("host{}", who.rank / 2),
            boot_id: format!("boot{}", who.rank / 2),
            pid,
            session_start_realtime_ns: started_ns,
            nccl_version: "2.30.7".to_owned(),
            table: 6,
            ..ProcessInfo::default()
        };
        if who.in_environment {
            info.environment.rank = Some(who.rank);
            info.environment.size = Some(who.ranks);
        }
        let json = serde_json::to_vec(&info).expect("it is plain data");
        fs::write(part.join("process.json"), json).expect("a file can be written");
        let tag = ProcessTag::new(u16::try_from(0x100 + who.rank).expect("few ranks"));
        let registry = Registry::new(RegistryOptions {
            directory: part.join("journal"),
            tag,
            process_id: pid,
            tick_source,
            session_start_realtime_ns: started_ns,
            limit_bytes: 1 << 30,
        });
        let mut keeper = registry.register("nccl-otf2-keeper").expect("a slot");
        let mut main = registry.register("main").expect("a slot");
        let proxy = registry.register("proxy").expect("a slot");
        keeper.clock_pair(&ClockPair::read());
        let context = ContextId::new(tag, 1);
        let comm = CommInit {
            table: 6,
            comm_id: 0xabcd_ef01_2345_6789,
            name: Name::NONE,
            nodes: 1,
            ranks: i32::try_from(who.ranks).expect("few ranks"),
            rank: i32::try_from(who.rank).expect("few ranks"),
            nccl_version: 23007,
        };
        main.comm_init(context.get(), clock::ticks(), 0, &comm);
        Self {
            part,
            main,
            proxy,
            context,
            keeper,
            registry,
        }
    }

    /// One grouped call with its launch, its Coll, two proxy operations and two kernel channels; gives the launch and
    /// the Coll.
    pub(crate) fn all_reduce(&mut self, rank: i32, sequence: u64) -> [EventId; 2] {
        let context = self.context;
        let group = self.main.start(&start(
            context,
            0,
            0,
            Body::GroupApi(event::GroupApi {
                graph_captured: false,
                depth: 1,
            }),
        ));
        self.main
            .state(&state(group, number::GROUP_START_API_STOP, StateArgs::None));
        let call = self.main.start(&start(
            context,
            group.get(),
            0,
            Body::CollApi(event::CollApi {
                func: Name::from_cstr(c"AllReduce"),
                count: 1000,
                datatype: Name::from_cstr(c"ncclFloat32"),
                root: 0,
                stream: 0x5000,
                graph_captured: false,
                user_tag: 0,
            }),
        ));
        self.main.stop(call.get());
        self.main
            .state(&state(group, number::GROUP_END_API_START, StateArgs::None));
        let launch = self.main.start(&start(
            context,
            group.get(),
            0,
            Body::KernelLaunch(event::KernelLaunch { stream: 0x5000 }),
        ));
        let gpu_start_ns = clock::monotonic_ns() - GPU_OFFSET_NS;
        self.main.stop(launch.get());
        let plan = self
            .main
            .start(&start(context, 0, 0, Body::Group(event::Group {})));
        let coll = self.main.start(&start(
            context,
            call.get(),
            rank,
            Body::Coll(event::Coll {
                sequence,
                func: Name::from_cstr(c"AllReduce"),
                send_buffer: 1,
                recv_buffer: 2,
                count: 1000,
                root: 0,
                datatype: Name::from_cstr(c"ncclFloat32"),
                channels: 2,
                warps: 8,
                algorithm: Name::from_cstr(c"RING"),
                protocol: Name::from_cstr(c"SIMPLE"),
                parent_group: plan.get(),
                comm_hash: 0,
                kernel_variant: Name::NONE,
                is_symmetric: false,
                user_tag: 0,
            }),
        ));
        self.main.stop(coll.get());
        self.main.stop(plan.get());
        self.main.stop(group.get());
        self.children(coll, rank, gpu_start_ns);
        [launch, coll]
    }

    fn children(&mut self, operation: EventId, rank: i32, gpu_start_ns: u64) {
        let context = self.context;
        let op = |is_send| {
            let body = Body::ProxyOp(event::ProxyOp {
                pid: i32::try_from(NO_PROCESS).expect("it fits") + rank,
                channel: 0,
                peer: 1 - rank,
                steps: 4,
                chunk_bytes: 512,
                is_send,
            });
            start(context, operation.get(), rank, body)
        };
        let (send, receive) = (self.proxy.start(&op(true)), self.proxy.start(&op(false)));
        self.proxy
            .state(&state(send, number::PROXY_OP_IN_PROGRESS, StateArgs::None));
        let step = self.proxy.start(&start(
            context,
            send.get(),
            rank,
            Body::ProxyStep(event::ProxyStep { step: 0 }),
        ));
        let bytes = StateArgs::ProxyStep { bytes: 4000 };
        self.proxy
            .state(&state(step, number::PROXY_STEP_SEND_WAIT, bytes));
        self.proxy.stop(step.get());
        self.proxy.stop(send.get());
        self.proxy.stop(receive.get());
        for channel in [0, 1] {
            let gpu_ns = gpu_start_ns + u64::from(channel);
            let body = Body::KernelCh(event::KernelCh { channel, gpu_ns });
            let kernel = self.proxy.start(&start(context, operation.get(), 0, body));
            let gpu_ns = clock::monotonic_ns() - GPU_OFFSET_NS;
            let stop = StateArgs::GpuTime { gpu_ns };
            self.proxy
                .state(&state(kernel, number::KERNEL_CH_STOP, stop));
            self.proxy.stop(kernel.get());
        }
    }

    /// A send and a receive with the other rank of two, in one plan, without children.
    pub(crate) fn exchange(&mut self, rank: i32) {
        let context = self.context;
        let plan = self
            .main
            .start(&start(context, 0, 0, Body::Group(event::Group {})));
        for func in [c"Send", c"Recv"] {
            let body = Body::P2p(event::P2p {
                func: Name::from_cstr(func),
                buffer: 3,
                datatype: Name::from_cstr(c"ncclInt8"),
                count: 77,
                peer: 1 - rank,
                channels: 1,
                parent_group: plan.get(),
                comm_hash: 0,
                user_tag: 0,
            });
            let operation = self.main.start(&start(context, 0, rank, body));
            self.main.stop(operation.get());
        }
        self.main.stop(plan.get());
    }

    /// Ends as the last `finalize` does.
    pub(crate) fn end(mut self) -> PathBuf {
        self.main.comm_finalize(self.context.get(), clock::ticks());
        self.leave()
    }

    /// Ends as a killed process does: no finalize, threads where they were.
    pub(crate) fn leave(mut self) -> PathBuf {
        self.keeper.clock_pair(&ClockPair::read());
        drop((self.main, self.proxy, self.keeper, self.registry));
        self.part
    }
}

/// How far the pretended GPU's timer is behind CLOCK_MONOTONIC.
const GPU_OFFSET_NS: u64 = 1000;

/// A job of two ranks on one host, recorded and not written.
pub(crate) fn record_two_ranks(out: &Path) -> Vec<PathBuf> {
    let parts = [0, 1].map(|rank| {
        let who = Who {
            rank,
            ranks: 2,
            in_environment: true,
        };
        let mut process = Process::begin(out, who);
        let rank = i32::try_from(rank).expect("few ranks");
        for sequence in 0..3 {
            process.all_reduce(rank, sequence);
        }
        process.exchange(rank);
        process.end()
    });
    parts.into()
}

/// The part's event files and sidecar, by name.
pub(crate) fn contents(part: &Path) -> Vec<(String, Vec<u8>)> {
    let mut files: Vec<PathBuf> = fs::read_dir(part.join("traces"))
        .expect("there are event files")
        .map(|entry| entry.expect("readable").path())
        .collect();
    files.push(part.join("definitions"));
    files.sort();
    let read = |path: PathBuf| {
        let name = path.display().to_string();
        (name, fs::read(path).expect("readable"))
    };
    files.into_iter().map(read).collect()
}
