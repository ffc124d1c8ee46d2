//! The definitions in Score-P (regions, roles, attributes), with the names used in archives.

use std::borrow::Cow;
use std::ffi::{CStr, CString, c_int};

use nccl_events::archive::Timing;
use nccl_events::collective;
use nccl_events::collective::Flow;
use nccl_events::schema::attribute::AttributeId;

/// `SCOREP_PARADIGM_USER`: Score-P has no paradigm for NCCL, and treats CUDA's paradigm specially.
pub(super) const PARADIGM: c_int = 1;
const FUNCTION: c_int = 1;
const ONE_TO_ALL: c_int = 11;
const ALL_TO_ONE: c_int = 12;
const ALL_TO_ALL: c_int = 13;
const COLLECTIVE: c_int = 14;
const POINT_TO_POINT: c_int = 15;
const KERNEL_LAUNCH: c_int = 45;

/// The function of a call or operation: an index into [`collective::Function::ALL`], or one past its end if unknown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Function(u8);

pub(super) const FILE: &CStr = c"NCCL";

impl Function {
    pub(super) const NUMBER: usize = collective::Function::ALL.len() + 1;

    pub(super) fn named(name: &[u8]) -> Self {
        let known = collective::Function::ALL.iter().position(|function| function.name().as_bytes() == name);
        // There are about a dozen functions.
        Self(u8::try_from(known.unwrap_or(Self::NUMBER - 1)).unwrap_or(0))
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

fn functions() -> impl Iterator<Item = (&'static CStr, c_int)> {
    let known = collective::Function::ALL.into_iter().map(|function| (function.call(), role(function)));
    known.chain([(c"nccl function", COLLECTIVE)])
}

const fn role(function: collective::Function) -> c_int {
    match function {
        collective::Function::Collective(collective) => match collective.flow() {
            Flow::AllToAll => ALL_TO_ALL,
            Flow::FromRoot => ONE_TO_ALL,
            Flow::ToRoot => ALL_TO_ONE,
        },
        collective::Function::Send | collective::Function::Recv | collective::Function::SendRecv => POINT_TO_POINT,
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OtherCall {
    /// The end of a group, which does the work of its calls: `ncclGroupEnd`, or the call itself outside of groups.
    GroupEnd,
    Launch,
    /// Enqueueing the work of one kernel.
    Plan,
    CommInit,
    CommDestroy,
}

const OTHERS: [(&CStr, c_int); 5] = [
    (c"ncclGroupEnd", FUNCTION),
    (c"ncclKernelLaunch", KERNEL_LAUNCH),
    (c"ncclLaunchPlan", FUNCTION),
    (c"ncclCommInitRank", FUNCTION),
    (c"ncclCommDestroy", FUNCTION),
];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CallRegion {
    Of(Function),
    Other(OtherCall),
}

pub(super) const CALLS: usize = Function::NUMBER + OTHERS.len();

impl CallRegion {
    pub(super) const fn index(self) -> usize {
        match self {
            Self::Of(function) => function.index(),
            Self::Other(other) => Function::NUMBER + other as usize,
        }
    }
}

#[derive(Debug)]
pub(super) struct Region {
    pub(super) name: &'static CStr,
    /// Score-P merges regions with equal definitions; this name keeps operations apart from calls.
    pub(super) canonical: Cow<'static, CStr>,
    pub(super) role: c_int,
}

pub(super) fn calls() -> impl Iterator<Item = Region> {
    functions().chain(OTHERS).map(|(name, role)| Region { name, canonical: name.into(), role })
}

pub(super) fn operations() -> impl Iterator<Item = Region> {
    functions().map(|(name, role)| {
        let canonical = CString::new([name.to_bytes(), b" operation"].concat()).unwrap_or_default();
        Region { name, canonical: canonical.into(), role }
    })
}

/// What can mark the end of an operation here.
pub(super) const TIMINGS: [Timing; 3] = [Timing::KernelChannelHost, Timing::Proxy, Timing::Enqueue];

const UINT64: c_int = 7;
const STRING: c_int = 10;

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

/// The metric of calls: name, description, unit. Profiles have its sum, count, minimum and maximum.
pub(super) const BYTES_METRIC: (&CStr, &CStr, &CStr) =
    (c"nccl_bytes", c"Data of NCCL's calls: number of elements times their size", c"bytes");

/// Name, description and type of each [`Attribute`]. Only for traces: profiles would get a node for each value.
pub(super) const ATTRIBUTES: [(&CStr, &CStr, c_int); 8] = [
    (AttributeId::Bytes.c_name(), c"Number of elements times their size, in bytes", UINT64),
    (AttributeId::Sequence.c_name(), c"Sequence number of the operation, by function and communicator", UINT64),
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
        c"Time from the start to the one shown here, in ticks of this archive's clock: the previous operation on this \
          location had not ended",
        UINT64,
    ),
    (AttributeId::Unfinished.c_name(), c"1: the end is not known; shown up to the last known time", UINT64),
];
