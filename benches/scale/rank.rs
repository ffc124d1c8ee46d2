//! One rank of a large job, recorded by the recording half's own writer.

use nccl_events::event;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use journal::clock::{self, ClockPair};
use journal::part::ProcessInfo;
use journal::writer::{JournalWriter, SlotWriter, WriterOptions};
use nccl_events::ids::{ContextId, EventId, ProcessTag};
use nccl_events::{Body, CommInit, Name, Start, State, StateArgs, state};

const TENSOR: u32 = 8;
/// Stages of a pipeline, where there are ranks for them.
const PIPELINE: u32 = 8;
/// A process id that no process has: pids end at 2²².
const NO_PROCESS: u32 = 1 << 30;
/// Events (starts) of one all-reduce here.
pub(crate) const EVENTS: u64 = 8;

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
    proxy: SlotWriter,
    members: [(ContextId, Member); 4],
    /// Ranks that record one after the other are to have done it at once: their clocks are behind by as much.
    late_ns: u64,
    called: EventId,
}

impl Rank {
    pub(crate) fn begin(out: &Path, rank: u32, ranks: u32, job_ns: u64, late_ns: u64) -> Self {
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
        let mut number = 0;
        let members = communicators(rank, ranks).map(|member| {
            number += 1;
            (ContextId::new(tag, number), member)
        });
        let mut rank = Self {
            part,
            maintenance: writer.register("nccl-otf2-maint").expect("a slot"),
            main: writer.register("main").expect("a slot"),
            proxy: writer.register("proxy").expect("a slot"),
            writer,
            members,
            late_ns,
            called: EventId::NONE,
        };
        rank.clock_pair();
        for (context, member) in rank.members {
            rank.init(context, &member);
        }
        rank
    }

    pub(crate) fn call(&mut self, operation: u64) {
        let (context, member) = self.member(operation);
        self.called = self.all_reduce(context, &member, operation / 4);
        if operation.is_multiple_of(1000) {
            self.writer.keep();
        }
    }

    pub(crate) fn transfers(&mut self, operation: u64) {
        let (context, member) = self.member(operation);
        for is_send in [true, false] {
            self.transfer(context, &member, self.called, is_send);
        }
    }

    fn member(&self, operation: u64) -> (ContextId, Member) {
        self.members[usize::try_from(operation % 4).expect("small")]
    }

    pub(crate) fn end(mut self) -> PathBuf {
        for (context, _) in self.members {
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
                channels: 1,
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

    fn transfer(&mut self, context: ContextId, member: &Member, coll: EventId, is_send: bool) {
        let rank = i32::try_from(member.rank).expect("small");
        let ranks = i32::try_from(member.ranks).expect("small");
        let start = |parent: u64, body| Start { context: context.get(), parent, rank, body };
        let peer = if is_send { rank + 1 } else { rank + ranks - 1 };
        let operation = self.proxy.start(&start(
            coll.get(),
            Body::ProxyOp(event::ProxyOp {
                pid: 0,
                channel: 0,
                peer: peer % ranks,
                steps: 1,
                chunk_bytes: 4000,
                is_send,
            }),
        ));
        let step = self.proxy.start(&start(operation.get(), Body::ProxyStep(event::ProxyStep { step: 0 })));
        let waits = if is_send { state::PROXY_STEP_SEND_WAIT } else { state::PROXY_STEP_RECV_WAIT };
        self.proxy.state(&State { event: step.get(), state: waits, args: StateArgs::ProxyStep { bytes: 4000 } });
        self.proxy.stop(step.get());
        self.proxy.stop(operation.get());
    }
}
