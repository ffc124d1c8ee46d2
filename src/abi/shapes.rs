//! Converts descriptor members whose shape several versions share to the event model.

use std::ffi::c_void;
use std::ptr;

use nccl_events::{Body, Kind, Name, NetData, Start, event};

use super::sys;

/// The union member that the descriptor's `type` names.
macro_rules! member {
    ($descriptor:expr, $member:ident) => {{
        // SAFETY: the contract of `Descriptor::read`: the descriptor is NCCL's, and its type names this member.
        unsafe { &$descriptor.__bindgen_anon_1.$member }
    }};
}

macro_rules! name {
    ($pointer:expr) => {{
        // SAFETY: by the contract of `Descriptor::read`, NULL or a static string of libnccl, which stays loaded.
        unsafe { nccl_events::Name::from_ptr($pointer) }
    }};
}

/// The kind that an event type names; a type is one bit of the activation mask.
#[inline]
pub(super) const fn kind(event_type: u64) -> Kind {
    if event_type.is_power_of_two() { Kind::of_bit(event_type.trailing_zeros()) } else { Kind::Unknown }
}

#[inline]
pub(super) fn number(pointer: *const c_void) -> u64 {
    pointer.addr() as u64
}

#[inline]
pub(super) fn pointer(number: u64) -> *mut c_void {
    #[expect(clippy::cast_possible_truncation, reason = "pointers have 64 bits: bindings.rs asserts LP64")]
    ptr::without_provenance_mut(number as usize)
}

#[inline]
pub(super) fn header(start: &mut Start<Name<'_>>, parent: *mut c_void, rank: i32) {
    start.parent = number(parent);
    start.rank = rank;
}

/// A collective: the C fields that all versions from 2 on have, and the fields that differ.
macro_rules! coll {
    ($raw:ident, channels: $channels:expr, parent_group: $group:expr, comm_hash: $hash:expr) => {
        nccl_events::event::Coll {
            sequence: $raw.seqNumber,
            func: $crate::abi::shapes::name!($raw.func),
            send_buffer: $crate::abi::shapes::number($raw.sendBuff),
            recv_buffer: $crate::abi::shapes::number($raw.recvBuff),
            count: $raw.count as u64,
            root: $raw.root,
            datatype: $crate::abi::shapes::name!($raw.datatype),
            channels: $channels,
            warps: $raw.nWarps,
            algorithm: $crate::abi::shapes::name!($raw.algo),
            protocol: $crate::abi::shapes::name!($raw.proto),
            parent_group: $crate::abi::shapes::number($group),
            comm_hash: $hash,
            kernel_variant: nccl_events::Name::NONE,
            is_symmetric: false,
            user_tag: 0,
        }
    };
}

/// A send or a receive, built in the same way.
macro_rules! p2p {
    ($raw:ident, channels: $channels:expr, parent_group: $group:expr, comm_hash: $hash:expr) => {
        nccl_events::event::P2p {
            func: $crate::abi::shapes::name!($raw.func),
            buffer: $crate::abi::shapes::number($raw.buff),
            datatype: $crate::abi::shapes::name!($raw.datatype),
            count: $raw.count as u64,
            peer: $raw.peer,
            channels: $channels,
            parent_group: $crate::abi::shapes::number($group),
            comm_hash: $hash,
            user_tag: 0,
        }
    };
}

/// Reads a descriptor's header and body; the version reads `coll`, `p2p` and kinds that only some versions have.
macro_rules! read {
    ($descriptor:ident, $start:ident, coll: $coll:expr, p2p: $p2p:expr, $($kind:pat => $other:expr,)*) => {
        $crate::abi::shapes::header($start, $descriptor.parentObj, $descriptor.rank);
        let event_type = u64::from($descriptor.type_);
        $start.body = match $crate::abi::shapes::kind(event_type) {
            Kind::Group => Body::Group(event::Group {}),
            Kind::Coll => Body::Coll($coll),
            Kind::P2p => Body::P2p($p2p),
            Kind::ProxyOp => {
                let raw = $crate::abi::shapes::member!($descriptor, proxyOp);
                Body::ProxyOp(event::ProxyOp {
                    pid: raw.pid,
                    channel: raw.channelId,
                    peer: raw.peer,
                    steps: raw.nSteps,
                    chunk_bytes: raw.chunkSize,
                    is_send: raw.isSend != 0,
                })
            }
            Kind::ProxyStep => {
                Body::ProxyStep(event::ProxyStep { step: $crate::abi::shapes::member!($descriptor, proxyStep).step })
            }
            Kind::ProxyCtrl => Body::ProxyCtrl(event::ProxyCtrl {}),
            $($kind => $other,)*
            _ => Body::Unknown(event::Unknown { event_type }),
        };
    };
}

/// The event of a network plugin, from v3 on.
macro_rules! net_plugin {
    ($descriptor:ident) => {{
        let raw = $crate::abi::shapes::member!($descriptor, netPlugin);
        // SAFETY: the descriptor is NCCL's, so the network plugin of this id passed the data.
        let data = unsafe { $crate::abi::shapes::net_data(raw.id, raw.data) };
        Body::NetPlugin(event::NetPlugin { id: raw.id, data })
    }};
}

pub(super) use {coll, member, name, net_plugin, p2p, read};

/// Kernel channels of v4 and later.
#[inline]
pub(super) fn kernel_ch<'a>(raw: &sys::ncclProfilerKernelCh_v4_t) -> Body<Name<'a>> {
    Body::KernelCh(event::KernelCh { channel: raw.channelId, gpu_ns: raw.pTimer })
}

/// The `type` of both known network plugins: their only kind of event.
const NET_EVENT: u8 = 1;

/// Copies the data of network plugins with a known layout.
///
/// # Safety
/// `data` is NULL or what a network plugin passed to the profiler callback under this id.
pub(super) unsafe fn net_data(id: i64, data: *const c_void) -> NetData {
    const IB: i64 = sys::ncclProfilerNetIbId_v1 as i64;
    const SOCKET: i64 = sys::ncclProfilerNetSocketId_v1 as i64;
    if data.is_null() {
        return NetData::Opaque;
    }
    match id {
        IB => {
            // SAFETY: not NULL, and the id identifies this layout. The read does not assume any alignment.
            let data = unsafe { data.cast::<sys::ncclProfilerNetIbDescr_v1_t>().read_unaligned() };
            if data.type_ != NET_EVENT {
                return NetData::Opaque;
            }
            let qp = member!(data, qp);
            NetData::IbQueuePair {
                device: qp.device,
                work_request: qp.wr_id,
                opcode: qp.opcode,
                queue_pair: qp.qpNum,
                bytes: qp.length as u64,
            }
        }
        SOCKET => {
            // SAFETY: as above.
            let data = unsafe { data.cast::<sys::ncclProfilerNetSockDescr_v1_t>().read_unaligned() };
            if data.type_ != NET_EVENT {
                return NetData::Opaque;
            }
            let sock = member!(data, sock);
            NetData::Socket { descriptor: sock.fd, operation: sock.op, bytes: sock.length as u64 }
        }
        _ => NetData::Opaque,
    }
}
