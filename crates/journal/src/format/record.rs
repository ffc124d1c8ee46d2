//! What a record says, as plain data.

use nccl_events::control::Switch;
use nccl_events::gpu::GpuRecord;
use nccl_events::{Kind, NetData, StateArgs};

/// A string of the journal, by number. Zero stands for "no string".
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Symbol(pub u32);

impl Symbol {
    /// No string.
    pub const NONE: Self = Self(0);
}

/// One record.
#[derive(Clone, Debug, PartialEq)]
pub struct Record {
    /// The slot it was written in.
    pub slot: u16,
    /// The tick source's reading when it was written.
    pub ticks: u64,
    /// The event or context it is about; 0 where it is about none.
    pub id: u64,
    /// What it says.
    pub body: RecordBody,
}

/// What a record says.
#[derive(Clone, Debug, PartialEq)]
#[expect(
    missing_docs,
    reason = "fields named after the event model or the clocks they hold"
)]
pub enum RecordBody {
    ThreadBegin {
        thread_id: u32,
        name: String,
    },
    ThreadEnd,
    ClockPair {
        monotonic_ns: u64,
        realtime_ns: u64,
        monotonic_raw_ns: u64,
        uncertainty_ticks: u64,
    },
    CommInit(CommRecord),
    CommKnown(CommRecord),
    CommFinalize {
        end_ticks: u64,
    },
    /// What is recorded was changed.
    Switch(Switch),
    /// Starts that were not wanted, by kind.
    NotWanted([u64; Kind::COUNT]),
    /// About GPUs; what the record's id is depends on it.
    Gpu(GpuRecord<Symbol>),
    Start(StartRecord),
    Stop,
    State {
        state: u32,
        args: StateArgs,
    },
}

/// A communicator's beginning. The record's ticks are those of the call's start.
#[derive(Clone, Debug, PartialEq)]
#[expect(missing_docs, reason = "the fields of event::CommInit")]
pub struct CommRecord {
    pub end_ticks: u64,
    pub comm_id: u64,
    pub name: Symbol,
    pub nodes: i32,
    pub ranks: i32,
    pub rank: i32,
    pub table: u8,
    pub nccl_version: u32,
    /// The how-manieth communicator with this id and size in the process, from 0.
    pub repetition: u32,
}

/// An event's start.
#[derive(Clone, Copy, Debug, PartialEq)]
#[expect(missing_docs, reason = "the fields of event::Start")]
pub struct StartRecord {
    pub parent: u64,
    pub context: u64,
    pub rank: i32,
    pub fields: Fields,
}

/// The fields of a start, by event kind: `event::Body` with strings as [`Symbol`]s.
#[derive(Clone, Copy, Debug, PartialEq)]
#[expect(missing_docs, reason = "the fields of event::Body")]
pub enum Fields {
    Group,
    Coll {
        sequence: u64,
        func: Symbol,
        send_buffer: u64,
        recv_buffer: u64,
        count: u64,
        root: i32,
        datatype: Symbol,
        channels: u8,
        warps: u8,
        algorithm: Symbol,
        protocol: Symbol,
        parent_group: u64,
        comm_hash: u64,
        kernel_variant: Symbol,
        is_symmetric: bool,
        user_tag: u64,
    },
    P2p {
        func: Symbol,
        buffer: u64,
        datatype: Symbol,
        count: u64,
        peer: i32,
        channels: u8,
        parent_group: u64,
        comm_hash: u64,
        user_tag: u64,
    },
    ProxyOp {
        pid: i32,
        channel: u8,
        peer: i32,
        steps: i32,
        chunk_bytes: i32,
        is_send: bool,
    },
    ProxyStep {
        step: i32,
    },
    ProxyCtrl,
    KernelCh {
        channel: u8,
        gpu_ns: u64,
    },
    NetPlugin {
        id: i64,
        data: NetData,
    },
    GroupApi {
        graph_captured: bool,
        depth: i32,
    },
    CollApi {
        func: Symbol,
        count: u64,
        datatype: Symbol,
        root: i32,
        stream: u64,
        graph_captured: bool,
        user_tag: u64,
    },
    P2pApi {
        func: Symbol,
        count: u64,
        datatype: Symbol,
        stream: u64,
        graph_captured: bool,
        user_tag: u64,
    },
    KernelLaunch {
        stream: u64,
    },
    CeColl {
        sequence: u64,
        func: Symbol,
        send_buffer: u64,
        recv_buffer: u64,
        count: u64,
        root: i32,
        datatype: Symbol,
        sync_strategy: Symbol,
        intra_batch_sync: bool,
        batch_size: u32,
        batches: u32,
        ce_sequence: u32,
        stream: u64,
        user_tag: u64,
    },
    CeSync {
        complete: bool,
        ranks: i32,
    },
    CeBatch {
        operations: i32,
        bytes: u64,
        intra_sync: bool,
    },
    KernelPhase {
        channel: u8,
        phase: u8,
        name: Symbol,
        gpu_ns: u64,
    },
    Unknown {
        event_type: u64,
    },
}

impl Fields {
    /// The event kind of these fields.
    #[must_use]
    pub const fn kind(&self) -> Kind {
        match self {
            Self::Group => Kind::Group,
            Self::Coll { .. } => Kind::Coll,
            Self::P2p { .. } => Kind::P2p,
            Self::ProxyOp { .. } => Kind::ProxyOp,
            Self::ProxyStep { .. } => Kind::ProxyStep,
            Self::ProxyCtrl => Kind::ProxyCtrl,
            Self::KernelCh { .. } => Kind::KernelCh,
            Self::NetPlugin { .. } => Kind::NetPlugin,
            Self::GroupApi { .. } => Kind::GroupApi,
            Self::CollApi { .. } => Kind::CollApi,
            Self::P2pApi { .. } => Kind::P2pApi,
            Self::KernelLaunch { .. } => Kind::KernelLaunch,
            Self::CeColl { .. } => Kind::CeColl,
            Self::CeSync { .. } => Kind::CeSync,
            Self::CeBatch { .. } => Kind::CeBatch,
            Self::KernelPhase { .. } => Kind::KernelPhase,
            Self::Unknown { .. } => Kind::Unknown,
        }
    }
}

/// Takes the records of a journal. What there is most of has a way of its own: a record that is put together for each costs as
/// much as reading it.
pub trait Records {
    /// Takes any record.
    fn record(&mut self, record: Record);

    /// Takes an event's start.
    #[inline]
    fn start(&mut self, slot: u16, ticks: u64, id: u64, start: &StartRecord) {
        let body = RecordBody::Start(*start);
        self.record(Record {
            slot,
            ticks,
            id,
            body,
        });
    }

    /// Takes an event's stop.
    #[inline]
    fn stop(&mut self, slot: u16, ticks: u64, id: u64) {
        self.record(Record {
            slot,
            ticks,
            id,
            body: RecordBody::Stop,
        });
    }

    /// Takes a change of state.
    #[inline]
    fn state(&mut self, slot: u16, ticks: u64, id: u64, (state, args): (u32, StateArgs)) {
        self.record(Record {
            slot,
            ticks,
            id,
            body: RecordBody::State { state, args },
        });
    }
}

impl<F: FnMut(Record)> Records for F {
    fn record(&mut self, record: Record) {
        self(record);
    }
}
