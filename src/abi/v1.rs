//! v1 (2.23.4): operations and proxies. Later versions pass strings where v1 passes numbers of NCCL's internal
//! enumerations. The names here are the strings that later versions would pass, for the enumerations of 2.23 (data
//! types: also those added in 2.24).

use std::ffi::CStr;
use std::ptr::NonNull;

use nccl_events::collective::ALGORITHMS;
use nccl_events::{Body, Kind, Name, Start, event};

use super::Descriptor;
use super::shapes::{member, number, read};
use super::sys::ncclProfilerEventDescr_v1_t;

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

const PROTOCOLS: [&CStr; 3] = [c"LL", c"LL128", c"SIMPLE"];

#[inline]
fn pick(names: &'static [&'static CStr], number: u8) -> Name<'static> {
    Name::from_cstr(names.get(usize::from(number)).copied().unwrap_or(c"Unknown"))
}

impl Descriptor for ncclProfilerEventDescr_v1_t {
    #[inline(always)]
    unsafe fn read(descriptor: NonNull<Self>, start: &mut Start<Name<'_>>) {
        // SAFETY: the contract.
        let descriptor = unsafe { descriptor.as_ref() };
        // The parent of an operation is its group.
        read!(descriptor, start,
            coll: {
                let raw = member!(descriptor, coll);
                event::Coll {
                    sequence: raw.seqNumber,
                    func: pick(&FUNCTIONS, raw.func),
                    send_buffer: number(raw.sendBuff),
                    recv_buffer: number(raw.recvBuff),
                    count: raw.count as u64,
                    root: raw.root,
                    datatype: pick(&DATATYPES, raw.datatype),
                    channels: raw.nMaxChannels,
                    warps: raw.nWarps,
                    algorithm: pick(&ALGORITHMS, raw.algo),
                    protocol: pick(&PROTOCOLS, raw.proto),
                    parent_group: number(descriptor.parentObj),
                    comm_hash: raw.commHash,
                    kernel_variant: Name::NONE,
                    is_symmetric: false,
                    user_tag: 0,
                }
            },
            p2p: {
                let raw = member!(descriptor, p2p);
                event::P2p {
                    func: pick(&FUNCTIONS, raw.func),
                    buffer: number(raw.buff),
                    datatype: pick(&DATATYPES, raw.datatype),
                    count: raw.count as u64,
                    peer: raw.peer,
                    channels: 0,
                    parent_group: number(descriptor.parentObj),
                    comm_hash: raw.commHash,
                    user_tag: 0,
                }
            },
        );
    }
}
