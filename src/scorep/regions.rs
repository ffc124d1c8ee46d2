//! The definitions in Score-P: regions, roles, attributes. Names are those of the archive.

use std::ffi::{CStr, c_int};

use schema::AttributeId;

/// `SCOREP_PARADIGM_USER`: NCCL has no paradigm of its own, and Score-P treats that of CUDA in a special way.
pub(super) const PARADIGM: c_int = 1;
const FUNCTION: c_int = 1;
const ONE_TO_ALL: c_int = 11;
const ALL_TO_ONE: c_int = 12;
const ALL_TO_ALL: c_int = 13;
const COLLECTIVE: c_int = 14;
const POINT_TO_POINT: c_int = 15;
const KERNEL_LAUNCH: c_int = 45;

/// A function of NCCL: an index into `FUNCTIONS`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Function(u8);

/// The source file of all regions.
pub(super) const FILE: &CStr = c"NCCL";

/// NCCL's name, the name of the regions of its calls and its operations, the operation's canonical name, the role.
///
/// Score-P takes regions for one whose definitions are equal: the canonical name keeps operations apart from calls.
const FUNCTIONS: [(&[u8], &CStr, &CStr, c_int); 11] = [
    (b"AllReduce", c"ncclAllReduce", c"ncclAllReduce operation", ALL_TO_ALL),
    (b"AllGather", c"ncclAllGather", c"ncclAllGather operation", ALL_TO_ALL),
    (b"ReduceScatter", c"ncclReduceScatter", c"ncclReduceScatter operation", ALL_TO_ALL),
    (b"AlltoAll", c"ncclAlltoAll", c"ncclAlltoAll operation", ALL_TO_ALL),
    (b"Broadcast", c"ncclBroadcast", c"ncclBroadcast operation", ONE_TO_ALL),
    (b"Scatter", c"ncclScatter", c"ncclScatter operation", ONE_TO_ALL),
    (b"Reduce", c"ncclReduce", c"ncclReduce operation", ALL_TO_ONE),
    (b"Gather", c"ncclGather", c"ncclGather operation", ALL_TO_ONE),
    (b"Send", c"ncclSend", c"ncclSend operation", POINT_TO_POINT),
    (b"Recv", c"ncclRecv", c"ncclRecv operation", POINT_TO_POINT),
    // The last entry stands for all functions that this version does not know.
    (b"", c"nccl function", c"nccl function operation", COLLECTIVE),
];

impl Function {
    /// The number of functions.
    pub(super) const NUMBER: usize = FUNCTIONS.len();

    /// The function with this name.
    pub(super) fn named(name: &[u8]) -> Self {
        let known = FUNCTIONS.iter().position(|(known, ..)| *known == name);
        let index = known.unwrap_or(Self::NUMBER - 1);
        Self(u8::try_from(index).unwrap_or(0))
    }

    pub(super) const fn from_number(number: u8) -> Self {
        Self(number)
    }

    pub(super) const fn number(self) -> u8 {
        self.0
    }

    pub(super) const fn index(self) -> usize {
        self.0 as usize
    }
}

/// A call that is no function of NCCL.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Other {
    /// The end of a group, which does the work of its calls: `ncclGroupEnd`, or the call itself outside of groups.
    GroupEnd,
    /// The launch of a kernel.
    Launch,
    /// The enqueueing of the work of one kernel.
    Plan,
    /// A communicator is made.
    CommInit,
    /// A communicator ends.
    CommDestroy,
}

const OTHERS: [(&CStr, c_int); 5] = [
    (c"ncclGroupEnd", FUNCTION),
    (c"ncclKernelLaunch", KERNEL_LAUNCH),
    (c"ncclLaunchPlan", FUNCTION),
    (c"ncclCommInitRank", FUNCTION),
    (c"ncclCommDestroy", FUNCTION),
];

/// A region on the location of a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CallRegion {
    Of(Function),
    Other(Other),
}

/// The number of regions of calls.
pub(super) const CALLS: usize = FUNCTIONS.len() + OTHERS.len();

impl CallRegion {
    /// Its index among the regions of calls.
    pub(super) const fn index(self) -> usize {
        match self {
            Self::Of(function) => function.index(),
            Self::Other(other) => FUNCTIONS.len() + other as usize,
        }
    }
}

/// A region that is to be defined.
#[derive(Clone, Copy, Debug)]
pub(super) struct Region {
    pub(super) name: &'static CStr,
    pub(super) canonical: &'static CStr,
    pub(super) role: c_int,
}

/// The regions of calls, by index.
pub(super) fn calls() -> impl Iterator<Item = Region> {
    let functions = FUNCTIONS.iter().map(|(_, name, _, role)| (*name, *role));
    functions.chain(OTHERS).map(|(name, role)| Region { name, canonical: name, role })
}

/// The regions of operations, by index.
pub(super) fn operations() -> impl Iterator<Item = Region> {
    FUNCTIONS.iter().map(|&(_, name, canonical, role)| Region { name, canonical, role })
}

/// NCCL's algorithms, which are defined in Score-P beforehand.
pub(super) const ALGORITHMS: [&CStr; 7] =
    [c"TREE", c"RING", c"COLLNET_DIRECT", c"COLLNET_CHAIN", c"NVLS", c"NVLS_TREE", c"PAT"];

/// What measured the end of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Timing {
    /// The last kernel channel's stop, as reported to the host.
    Channels,
    /// The last proxy operation's stop.
    Proxy,
    /// The end of the enqueueing.
    Enqueue,
}

/// The names of [`Timing`], in order, as in the archive.
pub(super) const TIMINGS: [&CStr; 3] = [c"kernelch-host", c"proxy", c"enqueue"];

const UINT64: c_int = 7;
const STRING: c_int = 10;

/// An attribute of a call or an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Attribute {
    Bytes,
    Sequence,
    CommId,
    Peer,
    Algorithm,
    Timing,
    StartMoved,
    Unfinished,
}

/// The metric of calls: name, description, unit. Profiles have its sum, number, least and largest value.
pub(super) const BYTES_METRIC: (&CStr, &CStr, &CStr) =
    (c"nccl_bytes", c"Data of NCCL's calls: number of elements times their size", c"bytes");

/// Name, description and type of [`Attribute`], in order. They go into traces only: a profile would get a node for each
/// value of a parameter.
pub(super) const ATTRIBUTES: [(&CStr, &CStr, c_int); 8] = [
    (
        AttributeId::Bytes.c_name(),
        c"Number of elements times their size, in bytes",
        UINT64,
    ),
    (
        AttributeId::Sequence.c_name(),
        c"Sequence number of the operation, by function and communicator",
        UINT64,
    ),
    (AttributeId::CommId.c_name(), c"NCCL's id of the communicator", UINT64),
    (AttributeId::Peer.c_name(), c"Rank of the other end", UINT64),
    (AttributeId::Algorithm.c_name(), c"Algorithm", STRING),
    (
        AttributeId::Timing.c_name(),
        c"What measured the end: kernelch-host, proxy, or enqueue (then only the enqueueing is shown)",
        STRING,
    ),
    (
        c"nccl.start_moved_ticks",
        c"Time from the start to the one shown here, in ticks of this archive's clock: the previous operation on this location had not ended",
        UINT64,
    ),
    (
        AttributeId::Unfinished.c_name(),
        c"1: the end is not known; shown up to the last known time",
        UINT64,
    ),
];

/// The size of an element by NCCL's name of the type; 0 for a type that this version does not know.
pub(super) fn element_bytes(datatype: &[u8]) -> u64 {
    let name = datatype.strip_prefix(b"nccl").unwrap_or(datatype);
    match name {
        b"Int8" | b"Char" | b"Uint8" | b"Float8e4m3" | b"Float8e5m2" => 1,
        b"Float16" | b"Half" | b"Bfloat16" => 2,
        b"Int32" | b"Int" | b"Uint32" | b"Float32" | b"Float" => 4,
        b"Int64" | b"Uint64" | b"Float64" | b"Double" => 8,
        _ => 0,
    }
}
