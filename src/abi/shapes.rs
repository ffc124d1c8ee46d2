//! Members of descriptors whose shape several versions share → the event model.

use nccl_events::event;
use std::ffi::c_void;
use std::ptr;

use nccl_events::{Body, Kind, Name, NetData, Start};

use super::sys;

/// The member of the descriptor's union that its `type` names.
macro_rules! member {
    ($descriptor:expr, $member:ident) => {{
        // SAFETY: the contract of `Descriptor::read`: the descriptor is NCCL's, and its type names this member.
        unsafe { &$descriptor.__bindgen_anon_1.$member }
    }};
}

macro_rules! name {
    ($pointer:expr) => {{
        // SAFETY: the contract of `Descriptor::read`: NULL or a static string of libnccl, which stays loaded while
        // it calls us.
        unsafe { nccl_events::Name::from_ptr($pointer) }
    }};
}

pub(super) use {member, name};

/// The kind that an event type names; a type is one bit of the activation mask.
#[inline]
pub(super) const fn kind(event_type: u64) -> Kind {
    if event_type.is_power_of_two() { Kind::of_bit(event_type.trailing_zeros()) } else { Kind::Unknown }
}

/// A pointer that is kept as a number.
#[inline]
pub(super) fn number(pointer: *const c_void) -> u64 {
    pointer.addr() as u64
}

/// A number as NCCL holds it.
#[inline]
pub(super) fn pointer(number: u64) -> *mut c_void {
    #[expect(clippy::cast_possible_truncation, reason = "pointers have 64 bits: bindings.rs asserts LP64")]
    ptr::without_provenance_mut(number as usize)
}

/// What every version's header says.
#[inline]
pub(super) fn header(start: &mut Start<Name<'_>>, parent: *mut c_void, rank: i32) {
    start.parent = number(parent);
    start.rank = rank;
}

#[inline]
pub(super) fn proxy_op<'a>(raw: &sys::ncclProfilerProxyOp_v1_t) -> Body<Name<'a>> {
    Body::ProxyOp(event::ProxyOp {
        pid: raw.pid,
        channel: raw.channelId,
        peer: raw.peer,
        steps: raw.nSteps,
        chunk_bytes: raw.chunkSize,
        is_send: raw.isSend != 0,
    })
}

#[inline]
pub(super) fn proxy_step<'a>(raw: &sys::ncclProfilerProxyStep_v1_t) -> Body<Name<'a>> {
    Body::ProxyStep(event::ProxyStep { step: raw.step })
}

/// v2 and v3; the parent of operations is the group.
///
/// # Safety
/// `raw` is of a descriptor as `Descriptor::read` demands it, for `'a`.
#[inline]
pub(super) unsafe fn p2p_v2<'a>(raw: &sys::ncclProfilerP2p_v2_t, parent: *mut c_void) -> Body<Name<'a>> {
    Body::P2p(event::P2p {
        func: name!(raw.func),
        buffer: number(raw.buff),
        datatype: name!(raw.datatype),
        count: raw.count as u64,
        peer: raw.peer,
        channels: 0,
        parent_group: number(parent),
        comm_hash: raw.commHash,
        user_tag: 0,
    })
}

/// v4; the fields that v5 and v7 append stay empty.
///
/// # Safety
/// `raw` is of a descriptor as `Descriptor::read` demands it, for `'a`.
#[inline]
pub(super) unsafe fn coll_v4<'a>(raw: &sys::ncclProfilerColl_v4_t, parent_group: *mut c_void) -> event::Coll<Name<'a>> {
    event::Coll {
        sequence: raw.seqNumber,
        func: name!(raw.func),
        send_buffer: number(raw.sendBuff),
        recv_buffer: number(raw.recvBuff),
        count: raw.count as u64,
        root: raw.root,
        datatype: name!(raw.datatype),
        channels: raw.nChannels,
        warps: raw.nWarps,
        algorithm: name!(raw.algo),
        protocol: name!(raw.proto),
        parent_group: number(parent_group),
        comm_hash: 0,
        kernel_variant: Name::NONE,
        is_symmetric: false,
        user_tag: 0,
    }
}

/// v4 and later.
#[inline]
pub(super) fn kernel_ch<'a>(raw: &sys::ncclProfilerKernelCh_v4_t) -> Body<Name<'a>> {
    Body::KernelCh(event::KernelCh { channel: raw.channelId, gpu_ns: raw.pTimer })
}

/// v3 and later.
///
/// # Safety
/// `raw` is of a descriptor as `Descriptor::read` demands it.
#[inline]
pub(super) unsafe fn net_plugin<'a>(raw: &sys::ncclProfilerNetPlugin_v3_t) -> Body<Name<'a>> {
    Body::NetPlugin(event::NetPlugin {
        id: raw.id,
        // SAFETY: the descriptor is NCCL's, so the data is what the net plugin of this id passed.
        data: unsafe { net_data(raw.id, raw.data) },
    })
}

/// In `type` of both known net plugins: the only kind of event that they have.
const NET_EVENT: u8 = 1;

/// Copies the data of net plugins whose layout we know.
///
/// # Safety
/// `data` is NULL or what a net plugin passed to the profiler callback under this id.
unsafe fn net_data(id: i64, data: *const c_void) -> NetData {
    const IB: i64 = sys::ncclProfilerNetIbId_v1 as i64;
    const SOCKET: i64 = sys::ncclProfilerNetSocketId_v1 as i64;
    if data.is_null() {
        return NetData::Opaque;
    }
    match id {
        IB => {
            // SAFETY: not NULL, and the id says that this is the layout; its alignment is the plugin's affair.
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
