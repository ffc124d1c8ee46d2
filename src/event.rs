//! The event model without versions: what NCCL told us, in NCCL's words.
//!
//! `abi::vN` turns a raw descriptor into a [`Start`] or a [`State`]; everything behind it knows only
//! these types. They live on the stack of one callback: a [`Name`] borrows NCCL's string and is gone
//! when the callback returns (the recorder interns it by content).
//!
//! Units: `count` is elements, `bytes` bytes, `gpu_ns` the GPU's globaltimer in nanoseconds. Device
//! pointers and streams are kept as numbers, never followed.

use std::ffi::{CStr, c_char};
use std::fmt;
use std::marker::PhantomData;

/// The event kinds, numbered by NCCL's own bit: `1 << kind` is the event type in the activation mask
/// (NCCL's `profiler_v7.h`: v1 has bits 0–5, v3 6–7, v5 8–11, v6 12–14, v7 15).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
#[expect(missing_docs, reason = "the names are NCCL's")]
pub enum Kind {
    Group = 0,
    Coll = 1,
    P2p = 2,
    ProxyOp = 3,
    ProxyStep = 4,
    ProxyCtrl = 5,
    KernelCh = 6,
    NetPlugin = 7,
    GroupApi = 8,
    CollApi = 9,
    P2pApi = 10,
    KernelLaunch = 11,
    CeColl = 12,
    CeSync = 13,
    CeBatch = 14,
    KernelPhase = 15,
    /// A type that this version of the plugin does not know: counted, not an error.
    Unknown = 16,
}

impl Kind {
    /// How many kinds there are, [`Kind::Unknown`] included.
    pub const COUNT: usize = 17;

    /// All kinds in the order of their numbers.
    pub const ALL: [Self; Self::COUNT] = [
        Self::Group,
        Self::Coll,
        Self::P2p,
        Self::ProxyOp,
        Self::ProxyStep,
        Self::ProxyCtrl,
        Self::KernelCh,
        Self::NetPlugin,
        Self::GroupApi,
        Self::CollApi,
        Self::P2pApi,
        Self::KernelLaunch,
        Self::CeColl,
        Self::CeSync,
        Self::CeBatch,
        Self::KernelPhase,
        Self::Unknown,
    ];

    /// The kind with this number.
    #[must_use]
    pub fn from_number(number: u8) -> Option<Self> {
        Self::ALL.get(usize::from(number)).copied()
    }

    /// NCCL's name without the prefix `ncclProfile`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Group => "Group",
            Self::Coll => "Coll",
            Self::P2p => "P2p",
            Self::ProxyOp => "ProxyOp",
            Self::ProxyStep => "ProxyStep",
            Self::ProxyCtrl => "ProxyCtrl",
            Self::KernelCh => "KernelCh",
            Self::NetPlugin => "NetPlugin",
            Self::GroupApi => "GroupApi",
            Self::CollApi => "CollApi",
            Self::P2pApi => "P2pApi",
            Self::KernelLaunch => "KernelLaunch",
            Self::CeColl => "CeColl",
            Self::CeSync => "CeSync",
            Self::CeBatch => "CeBatch",
            Self::KernelPhase => "KernelPhase",
            Self::Unknown => "Unknown",
        }
    }

    /// The bit in NCCL's activation mask; zero for [`Kind::Unknown`].
    #[must_use]
    pub const fn mask(self) -> u32 {
        match self {
            Self::Unknown => 0,
            kind => 1 << kind as u32,
        }
    }
}

/// A NUL-terminated string of NCCL's (or of ours), valid during the callback only. May be absent.
#[derive(Clone, Copy)]
pub struct Name<'a> {
    pointer: *const c_char,
    borrowed: PhantomData<&'a CStr>,
}

impl<'a> Name<'a> {
    /// No string: NCCL passed NULL, or this version of the interface has none here.
    pub const NONE: Self = Self {
        pointer: std::ptr::null(),
        borrowed: PhantomData,
    };

    /// The longest name that is kept; longer ones are cut.
    pub const MAX_BYTES: usize = 255;

    /// Borrows a string of NCCL's.
    ///
    /// # Safety
    /// `pointer` is NULL or points to a NUL-terminated string that stays valid and unchanged for `'a`.
    /// The adapters in `abi/` uphold it: NCCL's descriptors hold NULL or static strings of libnccl.
    #[must_use]
    pub const unsafe fn from_ptr(pointer: *const c_char) -> Self {
        Self {
            pointer,
            borrowed: PhantomData,
        }
    }

    /// Borrows a string of ours.
    #[must_use]
    pub const fn from_cstr(string: &'a CStr) -> Self {
        Self {
            pointer: string.as_ptr(),
            borrowed: PhantomData,
        }
    }

    /// Whether there is no string.
    #[must_use]
    pub const fn is_none(self) -> bool {
        self.pointer.is_null()
    }

    /// Where the string lies: the key of the recorder's cache.
    #[must_use]
    pub fn address(self) -> usize {
        self.pointer.addr()
    }

    /// The first sixteen bytes as they lie in memory, two little-endian words; what follows the NUL is not
    /// part of the string. None when there is no string, when reading on to sixteen bytes could leave the
    /// page, or on a processor for which this is not written.
    ///
    /// This is what makes the check of a cached string cheap: no search for the NUL, no call.
    #[must_use]
    #[inline]
    pub fn first_words(self) -> Option<[u64; 2]> {
        const PAGE_BYTES: usize = 4096;
        let pointer = self.pointer;
        if pointer.is_null() || pointer.addr() % PAGE_BYTES > PAGE_BYTES - 16 {
            return None;
        }
        let (first, second): (u64, u64);
        #[cfg(target_arch = "x86_64")]
        // SAFETY: the string's first byte is readable by `from_ptr`'s contract, and so is its page, which
        // holds all sixteen bytes. Assembly, because the bytes after the NUL need not belong to the string's object.
        unsafe {
            std::arch::asm!(
                "mov {first}, qword ptr [{pointer}]",
                "mov {second}, qword ptr [{pointer} + 8]",
                pointer = in(reg) pointer,
                first = out(reg) first,
                second = lateout(reg) second,
                options(nostack, readonly, preserves_flags),
            );
        }
        #[cfg(all(target_arch = "aarch64", target_endian = "little"))]
        // SAFETY: as for x86-64.
        unsafe {
            std::arch::asm!(
                "ldp {first}, {second}, [{pointer}]",
                pointer = in(reg) pointer,
                first = out(reg) first,
                second = lateout(reg) second,
                options(nostack, readonly, preserves_flags),
            );
        }
        #[cfg(not(any(
            target_arch = "x86_64",
            all(target_arch = "aarch64", target_endian = "little")
        )))]
        {
            (first, second) = (0, 0);
            return None;
        }
        #[cfg(any(
            target_arch = "x86_64",
            all(target_arch = "aarch64", target_endian = "little")
        ))]
        Some([first, second])
    }

    /// The bytes without the NUL, cut at [`Self::MAX_BYTES`]; empty when there is no string.
    #[must_use]
    pub fn bytes(self) -> &'a [u8] {
        if self.pointer.is_null() {
            return &[];
        }
        // SAFETY: not NULL, so `from_ptr`'s contract (or the CStr of `from_cstr`) gives a string for 'a.
        let string = unsafe { CStr::from_ptr(self.pointer) };
        let bytes = string.to_bytes();
        bytes.get(..Self::MAX_BYTES).unwrap_or(bytes)
    }
}

impl fmt::Debug for Name<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{:?}", String::from_utf8_lossy(self.bytes()))
    }
}

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

/// An event changes its state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct State {
    /// The event's handle as NCCL passed it; 0 for NULL.
    pub event: u64,
    /// NCCL's state number, known or not (see [`state`]).
    pub state: u32,
    /// The state's argument; [`StateArgs::None`] where NCCL passed NULL.
    pub args: StateArgs,
}

/// The argument of a state, by what the state means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the fields are NCCL's")]
pub enum StateArgs {
    /// NULL, or a state without argument.
    None,
    /// v1–v3 ProxyOp states 0–7: cumulative bytes and steps.
    ProxyOp {
        bytes: u64,
        steps: i32,
    },
    /// Step states: size of the last transfer of the sub-operation.
    ProxyStep {
        bytes: u64,
    },
    ProxyCtrl {
        appended: i32,
    },
    /// KernelChStop and KernelPhaseStop.
    GpuTime {
        gpu_ns: u64,
    },
    NetPlugin {
        data: NetData,
    },
}

/// NCCL's state numbers (`ncclProfilerEventState_v7_t`).
#[expect(missing_docs, reason = "the names are NCCL's")]
pub mod state {
    pub const PROXY_OP_SEND_POSTED: u32 = 0;
    pub const PROXY_OP_SEND_REM_FIFO_WAIT: u32 = 1;
    pub const PROXY_OP_SEND_TRANSMITTED: u32 = 2;
    pub const PROXY_OP_SEND_DONE: u32 = 3;
    pub const PROXY_OP_RECV_POSTED: u32 = 4;
    pub const PROXY_OP_RECV_RECEIVED: u32 = 5;
    pub const PROXY_OP_RECV_TRANSMITTED: u32 = 6;
    pub const PROXY_OP_RECV_DONE: u32 = 7;
    pub const PROXY_STEP_SEND_GPU_WAIT: u32 = 8;
    pub const PROXY_STEP_SEND_WAIT: u32 = 9;
    pub const PROXY_STEP_RECV_WAIT: u32 = 10;
    pub const PROXY_STEP_RECV_FLUSH_WAIT: u32 = 11;
    pub const PROXY_STEP_RECV_GPU_WAIT: u32 = 12;
    pub const PROXY_CTRL_IDLE: u32 = 13;
    pub const PROXY_CTRL_ACTIVE: u32 = 14;
    pub const PROXY_CTRL_SLEEP: u32 = 15;
    pub const PROXY_CTRL_WAKEUP: u32 = 16;
    pub const PROXY_CTRL_APPEND: u32 = 17;
    pub const PROXY_CTRL_APPEND_END: u32 = 18;
    pub const PROXY_OP_IN_PROGRESS: u32 = 19;
    pub const PROXY_STEP_SEND_PEER_WAIT: u32 = 20;
    pub const NET_PLUGIN_UPDATE: u32 = 21;
    pub const KERNEL_CH_STOP: u32 = 22;
    pub const GROUP_START_API_STOP: u32 = 23;
    pub const GROUP_END_API_START: u32 = 24;
    pub const KERNEL_PHASE_STOP: u32 = 31;
    /// The highest number any release defines.
    pub const LAST: u32 = KERNEL_PHASE_STOP;
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
