//! The event model without versions: what NCCL told us, in NCCL's words.
//!
//! `abi::vN` turns a raw descriptor into a [`Start`] or a [`State`]; everything behind it knows only
//! these types. They live on the stack of one callback: a [`Name`] borrows NCCL's string and is gone
//! when the callback returns (the recorder interns it by content).
//!
//! Units: `count` is elements, `bytes` bytes, `gpu_ns` the GPU's globaltimer in nanoseconds. Device
//! pointers and streams are kept as numbers, never followed.

pub mod control;
pub mod gpu;
pub mod id;
mod kind;
mod name;
mod presets;
mod states;

pub use kind::Kind;
pub use name::Name;
pub use presets::{FULL, LIGHT, STANDARD, event_names};
pub use states::{State, StateArgs, state};

/// An event begins.
#[derive(Clone, Copy, Debug)]
pub struct Start<'a> {
    /// What `init` handed out, as NCCL passed it back; PXN passes contexts of other processes.
    pub context: u64,
    /// `parentObj`: the parent's handle, 0 for none; PXN passes handles of other processes.
    pub parent: u64,
    /// The descriptor's rank. Wrong (0) for many kinds in many releases: the context's rank counts.
    pub rank: i32,
    /// What kind of event, and its fields.
    pub body: Body<'a>,
}

/// The fields of an event, by kind.
#[derive(Clone, Copy, Debug)]
#[expect(missing_docs, reason = "the fields are NCCL's, see its headers")]
pub enum Body<'a> {
    Group,
    Coll(Coll<'a>),
    P2p(P2p<'a>),
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
    /// `gpu_ns` is 0 where the release has no GPU time (v3).
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
        func: Name<'a>,
        count: u64,
        datatype: Name<'a>,
        root: i32,
        stream: u64,
        graph_captured: bool,
        user_tag: u64,
    },
    P2pApi {
        func: Name<'a>,
        count: u64,
        datatype: Name<'a>,
        stream: u64,
        graph_captured: bool,
        user_tag: u64,
    },
    KernelLaunch {
        stream: u64,
    },
    CeColl(CeColl<'a>),
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
        name: Name<'a>,
        gpu_ns: u64,
    },
    /// A type this plugin does not know, as NCCL passed it.
    Unknown {
        event_type: u64,
    },
}

impl Body<'_> {
    /// The kind of these fields.
    #[must_use]
    pub const fn kind(&self) -> Kind {
        match self {
            Self::Group => Kind::Group,
            Self::Coll(_) => Kind::Coll,
            Self::P2p(_) => Kind::P2p,
            Self::ProxyOp { .. } => Kind::ProxyOp,
            Self::ProxyStep { .. } => Kind::ProxyStep,
            Self::ProxyCtrl => Kind::ProxyCtrl,
            Self::KernelCh { .. } => Kind::KernelCh,
            Self::NetPlugin { .. } => Kind::NetPlugin,
            Self::GroupApi { .. } => Kind::GroupApi,
            Self::CollApi { .. } => Kind::CollApi,
            Self::P2pApi { .. } => Kind::P2pApi,
            Self::KernelLaunch { .. } => Kind::KernelLaunch,
            Self::CeColl(_) => Kind::CeColl,
            Self::CeSync { .. } => Kind::CeSync,
            Self::CeBatch { .. } => Kind::CeBatch,
            Self::KernelPhase { .. } => Kind::KernelPhase,
            Self::Unknown { .. } => Kind::Unknown,
        }
    }

    /// Of launches, which give work to the GPU: into which stream.
    #[must_use]
    #[inline]
    pub const fn stream_of_launch(&self) -> Option<u64> {
        match self {
            Self::KernelLaunch { stream } | Self::CeColl(CeColl { stream, .. }) => Some(*stream),
            _ => None,
        }
    }
}

/// A collective below the API (`coll`).
#[derive(Clone, Copy, Debug)]
#[expect(missing_docs, reason = "the fields are NCCL's")]
pub struct Coll<'a> {
    pub sequence: u64,
    pub func: Name<'a>,
    pub send_buffer: u64,
    pub recv_buffer: u64,
    pub count: u64,
    pub root: i32,
    pub datatype: Name<'a>,
    pub channels: u8,
    pub warps: u8,
    pub algorithm: Name<'a>,
    pub protocol: Name<'a>,
    /// Handle of the Group event (the parent itself up to v4).
    pub parent_group: u64,
    /// v1–v3 only: the communicator's hash; 0 where it is not given.
    pub comm_hash: u64,
    /// v7 only.
    pub kernel_variant: Name<'a>,
    /// v7 only.
    pub is_symmetric: bool,
    /// v7 only; 0 for none.
    pub user_tag: u64,
}

/// A send or receive below the API (`p2p`).
#[derive(Clone, Copy, Debug)]
#[expect(missing_docs, reason = "the fields are NCCL's")]
pub struct P2p<'a> {
    pub func: Name<'a>,
    pub buffer: u64,
    pub datatype: Name<'a>,
    pub count: u64,
    pub peer: i32,
    /// v4+; garbage when v4 runs on NCCL ≥ 2.28, never size anything by it.
    pub channels: u8,
    /// Handle of the Group event (the parent itself up to v4).
    pub parent_group: u64,
    /// v1–v3 only: the communicator's hash; 0 where it is not given.
    pub comm_hash: u64,
    /// v7 only; 0 for none.
    pub user_tag: u64,
}

/// A copy-engine collective (`ceColl`).
#[derive(Clone, Copy, Debug)]
#[expect(missing_docs, reason = "the fields are NCCL's")]
pub struct CeColl<'a> {
    pub sequence: u64,
    pub func: Name<'a>,
    pub send_buffer: u64,
    pub recv_buffer: u64,
    pub count: u64,
    pub root: i32,
    pub datatype: Name<'a>,
    pub sync_strategy: Name<'a>,
    pub intra_batch_sync: bool,
    pub batch_size: u32,
    pub batches: u32,
    pub ce_sequence: u32,
    pub stream: u64,
    pub user_tag: u64,
}

/// What a net plugin says about one of its own events; copied in the callback, by plugin id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(
    missing_docs,
    reason = "the fields are those of NCCL's net_ib and net_socket descriptors"
)]
pub enum NetData {
    /// An id whose layout we do not know, or NULL data: only the id is kept.
    Opaque,
    IbQueuePair {
        device: i32,
        work_request: u64,
        opcode: i32,
        queue_pair: i32,
        bytes: u64,
    },
    Socket {
        descriptor: i32,
        operation: i32,
        bytes: u64,
    },
}

/// What `init` says about a communicator.
#[derive(Clone, Copy, Debug)]
pub struct CommInit<'a> {
    /// Which table NCCL called: 1 … 7.
    pub table: u8,
    /// NCCL's id of the communicator, equal on all its ranks; 0 where the version has none (v1–v3).
    pub comm_id: u64,
    /// The user's name for it; often absent.
    pub name: Name<'a>,
    /// Number of hosts; 0 where not given.
    pub nodes: i32,
    /// Number of ranks; 0 where not given.
    pub ranks: i32,
    /// This rank; −1 where not given.
    pub rank: i32,
    /// The running NCCL as `ncclGetVersion` says it (22809 = 2.28.9); 0 where it cannot be asked.
    pub nccl_version: u32,
}
