//! One rank of a large job, recorded by the recording half's own writer.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;

use journal::clock::{self, ClockPair};
use journal::part::ProcessInfo;
use journal::writer::{JournalWriter, SlotWriter, WriterOptions};
use nccl_events::ids::{ContextId, EventId, ProcessTag};
use nccl_events::{Body, CommInit, Name, Start, State, StateArgs, event, state};

const TENSOR: u32 = 8;
/// Stages of a pipeline, where there are ranks for them.
const PIPELINE: u32 = 8;
/// A process id that no process has: pids end at 2²².
const NO_PROCESS: u32 = 1 << 30;
/// What the ranks of a job do.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Job {
    pub(crate) ranks: u32,
    /// From 1 to 4: all, tensor, pipeline, data.
    pub(crate) communicators: u32,
    pub(crate) channels: u8,
    /// Whether the operations are all-to-alls of all ranks, instead of all-reduces of the communicators in turn.
    pub(crate) is_all_to_all: bool,
}

impl Job {
    /// Events (starts) of one operation of a rank: an all-reduce has a transfer and its step in both directions on each
    /// channel, an all-to-all with each rank.
    pub(crate) fn events(self) -> u64 {
        match self.is_all_to_all {
            false => 4 + 4 * u64::from(self.channels),
            true => 3 + 8 * u64::from(self.ranks),
        }
    }
}

#[derive(Clone, Copy)]
struct Member {
    id: u64,
    rank: u32,
    ranks: u32,
}

/// The communicators of a rank of a job that is parallel in three ways: all, its tensor group, its pipeline, its
/// replicas.
fn communicators(rank: u32, ranks: u32) -> [Member; 4] {
    let stages = PIPELINE.min((ranks / TENSOR).max(1));
    let tensor = TENSOR.min(ranks);
    let replicas = (ranks / (tensor * stages)).max(1);
    let (in_tensor, host) = (rank % tensor, rank / tensor);
    let (replica, stage) = (host % replicas, host / replicas);
    let id = |kind: u64, group: u32| 0x5ca1_e000_0000_0000 | kind << 32 | u64::from(group);
    [
        Member { id: id(0, 0), rank, ranks },
        Member { id: id(1, host), rank: in_tensor, ranks: tensor },
        Member { id: id(2, replica * tensor + in_tensor), rank: stage, ranks: stages },
        Member { id: id(3, stage * tensor + in_tensor), rank: replica, ranks: replicas },
    ]
}

pub(crate) struct Rank {
    part: PathBuf,
    writer: Arc<JournalWriter>,
    maintenance: SlotWriter,
    main: SlotWriter,
    members: Vec<RankOfCommunicator>,
    job: Job,
    /// Ranks that record one after the other are to have done it at once: their clocks are behind by as much.
    late_ns: u64,
    /// The operations of the last call, with their peers if they are sends and receives.
    called: Vec<(EventId, Option<(i32, bool)>)>,
}

struct RankOfCommunicator {
    context: ContextId,
    member: Member,
    /// The proxy thread, which NCCL makes for each communicator.
    proxy: SlotWriter,
}

impl Rank {
    pub(crate) fn begin(out: &Path, rank: u32, job: Job, job_ns: u64, late_ns: u64) -> Self {
        let ranks = job.ranks;
        let host = rank / TENSOR;
        let pid = NO_PROCESS + rank;
        let part = out.join("parts").join(format!("host{host:05}-{pid}-{job_ns}"));
        fs::create_dir_all(part.join("journal")).expect("a part can be made");
        let mut info = ProcessInfo {
            format: 1,
            host: format!("host{host:05}"),
            boot_id: format!("boot{host}"),
            pid,
            session_start_realtime_ns: job_ns,
            nccl_version: "2.30.7".to_owned(),
            table: 6,
            ..ProcessInfo::default()
        };
        info.environment.rank = Some(rank);
        info.environment.size = Some(ranks);
        let json = serde_json::to_vec(&info).expect("plain data");
        fs::write(part.join("process.json"), json).expect("a file can be written");
        let tag = ProcessTag::new(u16::try_from(1 + rank % 0xfff0).expect("small"));
        let writer = JournalWriter::new(WriterOptions {
            directory: part.join("journal"),
            tag,
            process_id: pid,
            tick_source: clock::select(),
            session_start_realtime_ns: job_ns,
            limit_bytes: 1 << 34,
        });
        let all = communicators(rank, ranks).into_iter().take(usize::try_from(job.communicators).expect("small"));
        let members = (1..).zip(all).map(|(number, member)| RankOfCommunicator {
            context: ContextId::new(tag, number),
            member,
            proxy: of_a_thread(&writer),
        });
        let mut rank = Self {
            part,
            maintenance: writer.register("nccl-otf2-maint").expect("a slot"),
            main: writer.register("main").expect("a slot"),
            members: members.collect(),
            writer,
            job,
            late_ns,
            called: Vec::new(),
        };
        rank.clock_pair();
        for at in 0..rank.members.len() {
            let RankOfCommunicator { context, member, .. } = rank.members[at];
            rank.init(context, &member);
        }
        rank
    }

    pub(crate) fn call(&mut self, operation: u64) {
        let RankOfCommunicator { context, member, .. } = *self.member(operation);
        self.called = match self.job.is_all_to_all {
            true => self.all_to_all(context, &member),
            false => vec![(self.all_reduce(context, &member, operation / self.members.len() as u64), None)],
        };
        if operation.is_multiple_of(1000) {
            self.writer.keep();
        }
    }

    /// What the proxy thread does for the operations of the last call.
    pub(crate) fn transfers(&mut self, operation: u64) {
        let RankOfCommunicator { context, member, .. } = *self.member(operation);
        let (rank, ranks) = (signed(member.rank), signed(member.ranks));
        let (called, channels) = (std::mem::take(&mut self.called), self.job.channels);
        let proxy = &mut self.member(operation).proxy;
        for (at, (event, peer)) in called.into_iter().enumerate() {
            let transfer = |proxy: &mut SlotWriter, channel, peer, is_send| {
                transfer(proxy, (context, rank), event, (channel, peer, is_send));
            };
            match peer {
                Some((peer, is_send)) => {
                    let channel = u8::try_from(at % usize::from(channels)).expect("small");
                    transfer(proxy, channel, peer, is_send);
                }
                None => (0..channels).for_each(|channel| {
                    transfer(proxy, channel, (rank + 1) % ranks, true);
                    transfer(proxy, channel, (rank + ranks - 1) % ranks, false);
                }),
            }
        }
    }

    fn member(&mut self, operation: u64) -> &mut RankOfCommunicator {
        let number = if self.job.is_all_to_all { 0 } else { operation % self.members.len() as u64 };
        &mut self.members[usize::try_from(number).expect("small")]
    }

    pub(crate) fn end(mut self) -> PathBuf {
        for RankOfCommunicator { context, .. } in &self.members {
            self.main.comm_finalize(context.get(), clock::ticks());
        }
        self.clock_pair();
        self.part
    }

    fn clock_pair(&mut self) {
        let mut pair = ClockPair::read();
        pair.monotonic_ns -= self.late_ns;
        pair.realtime_ns -= self.late_ns;
        pair.monotonic_raw_ns -= self.late_ns.min(pair.monotonic_raw_ns);
        self.maintenance.clock_pair(&pair);
    }

    fn init(&mut self, context: ContextId, member: &Member) {
        let comm = CommInit {
            table: nccl_events::Table::V6,
            comm_id: member.id,
            name: Name::NONE,
            nodes: i32::try_from(member.ranks.div_ceil(TENSOR)).expect("small"),
            ranks: i32::try_from(member.ranks).expect("small"),
            rank: i32::try_from(member.rank).expect("small"),
            nccl_version: 23_007,
        };
        self.main.comm_init(context.get(), clock::ticks(), 0, &comm);
    }

    fn all_reduce(&mut self, context: ContextId, member: &Member, sequence: u64) -> EventId {
        let rank = i32::try_from(member.rank).expect("small");
        let start = |parent: u64, rank: i32, body| Start { context: context.get(), parent, rank, body };
        let group = self.main.start(&start(0, 0, Body::GroupApi(event::GroupApi { graph_captured: false, depth: 1 })));
        let call = self.main.start(&start(
            group.get(),
            0,
            Body::CollApi(event::CollApi {
                func: Name::from_cstr(c"AllReduce"),
                count: 1000,
                datatype: Name::from_cstr(c"ncclFloat32"),
                stream: 0x5000,
                ..event::CollApi::default()
            }),
        ));
        self.main.stop(call.get());
        let launch =
            self.main.start(&start(group.get(), 0, Body::KernelLaunch(event::KernelLaunch { stream: 0x5000 })));
        self.main.stop(launch.get());
        let coll = self.main.start(&start(
            call.get(),
            rank,
            Body::Coll(event::Coll {
                sequence,
                func: Name::from_cstr(c"AllReduce"),
                send_buffer: 1,
                recv_buffer: 2,
                count: 1000,
                datatype: Name::from_cstr(c"ncclFloat32"),
                channels: self.job.channels,
                warps: 8,
                algorithm: Name::from_cstr(c"RING"),
                protocol: Name::from_cstr(c"SIMPLE"),
                ..event::Coll::default()
            }),
        ));
        self.main.stop(coll.get());
        self.main.stop(group.get());
        coll
    }

    /// NCCL makes sends and receives of it, which one kernel does.
    fn all_to_all(&mut self, context: ContextId, member: &Member) -> Vec<(EventId, Option<(i32, bool)>)> {
        let start = |parent: u64, rank: i32, body| Start { context: context.get(), parent, rank, body };
        let (rank, ranks) = (signed(member.rank), signed(member.ranks));
        let (count, datatype) = (1000, Name::from_cstr(c"ncclFloat32"));
        let func = |is_send| Name::from_cstr(if is_send { c"Send" } else { c"Recv" });
        let group = self.main.start(&start(0, 0, Body::GroupApi(event::GroupApi { graph_captured: false, depth: 1 })));
        let mut calls = Vec::new();
        for (peer, is_send) in (0..ranks).flat_map(|peer| [(peer, true), (peer, false)]) {
            let api =
                event::P2pApi { func: func(is_send), count, datatype, stream: 0x5000, ..event::P2pApi::default() };
            let call = self.main.start(&start(group.get(), 0, Body::P2pApi(api)));
            self.main.stop(call.get());
            calls.push((call, peer, is_send));
        }
        let launch =
            self.main.start(&start(group.get(), 0, Body::KernelLaunch(event::KernelLaunch { stream: 0x5000 })));
        self.main.stop(launch.get());
        let plan = self.main.start(&start(0, 0, Body::Group(event::Group {})));
        let mut operations = Vec::new();
        for (call, peer, is_send) in calls {
            let p2p = event::P2p {
                func: func(is_send),
                datatype,
                count,
                peer,
                channels: 1,
                parent_group: plan.get(),
                ..event::P2p::default()
            };
            let operation = self.main.start(&start(call.get(), rank, Body::P2p(p2p)));
            self.main.stop(operation.get());
            operations.push((operation, Some((peer, is_send))));
        }
        self.main.stop(plan.get());
        self.main.stop(group.get());
        operations
    }
}

/// A slot of a thread of its own.
fn of_a_thread(writer: &Arc<JournalWriter>) -> SlotWriter {
    let writer = Arc::clone(writer);
    let thread = thread::Builder::new().name("proxy".to_owned());
    let registering = thread.spawn(move || writer.register("proxy").expect("a slot")).expect("a thread");
    registering.join().expect("it registers")
}

fn signed(number: u32) -> i32 {
    i32::try_from(number).expect("small")
}

/// A transfer of one step.
fn transfer(
    proxy: &mut SlotWriter,
    (context, rank): (ContextId, i32),
    operation: EventId,
    (channel, peer, is_send): (u8, i32, bool),
) {
    let start = |parent: u64, body| Start { context: context.get(), parent, rank, body };
    let op = event::ProxyOp { pid: 0, channel, peer, steps: 1, chunk_bytes: 4000, is_send };
    let transfer = proxy.start(&start(operation.get(), Body::ProxyOp(op)));
    let step = proxy.start(&start(transfer.get(), Body::ProxyStep(event::ProxyStep { step: 0 })));
    let waits = if is_send { state::PROXY_STEP_SEND_WAIT } else { state::PROXY_STEP_RECV_WAIT };
    proxy.state(&State { event: step.get(), state: waits, args: StateArgs::ProxyStep { bytes: 4000 } });
    proxy.stop(step.get());
    proxy.stop(transfer.get());
}
