//! v1 passes numbers of NCCL's internal enumerations where later versions pass strings. These are the
//! strings that later versions would pass, for the enumerations of 2.23 (data types: also those added in 2.24).

use std::ffi::CStr;

use nccl_events::Name;

const UNKNOWN: &CStr = c"Unknown";

const FUNCTIONS: [&CStr; 8] =
    [c"Broadcast", c"Reduce", c"AllGather", c"ReduceScatter", c"AllReduce", c"SendRecv", c"Send", c"Recv"];

const DATATYPES: [&CStr; 12] = [
    c"ncclInt8",
    c"ncclUint8",
    c"ncclInt32",
    c"ncclUint32",
    c"ncclInt64",
    c"ncclUint64",
    c"ncclFloat16",
    c"ncclFloat32",
    c"ncclFloat64",
    c"ncclBfloat16",
    c"ncclFloat8e4m3",
    c"ncclFloat8e5m2",
];

const ALGORITHMS: [&CStr; 7] = [c"TREE", c"RING", c"COLLNET_DIRECT", c"COLLNET_CHAIN", c"NVLS", c"NVLS_TREE", c"PAT"];

const PROTOCOLS: [&CStr; 3] = [c"LL", c"LL128", c"SIMPLE"];

#[inline]
fn pick(names: &'static [&'static CStr], number: u8) -> Name<'static> {
    Name::from_cstr(names.get(usize::from(number)).copied().unwrap_or(UNKNOWN))
}

/// `ncclFunc_t`.
#[inline]
pub(super) fn function(number: u8) -> Name<'static> {
    pick(&FUNCTIONS, number)
}

/// `ncclDataType_t`.
#[inline]
pub(super) fn datatype(number: u8) -> Name<'static> {
    pick(&DATATYPES, number)
}

/// `NCCL_ALGO_*`.
#[inline]
pub(super) fn algorithm(number: u8) -> Name<'static> {
    pick(&ALGORITHMS, number)
}

/// `NCCL_PROTO_*`.
#[inline]
pub(super) fn protocol(number: u8) -> Name<'static> {
    pick(&PROTOCOLS, number)
}
