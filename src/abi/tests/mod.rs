//! Descriptors of every version → the event model, kind by kind.
//!
//! Each descriptor starts as garbage, and only what NCCL fills for that kind is filled: reading anything
//! else shows.

mod states;
mod v1_to_v3;
mod v4_to_v7;

use std::ffi::c_void;
use std::mem::MaybeUninit;
use std::ptr::{self, NonNull};

use super::Descriptor;
use super::sys;
use crate::host::version;
use nccl_events::{Body, Name, NetData, Start, event};

const PARENT: u64 = 0xaa_0000_0002;
const GROUP: u64 = 0x66_0000_0003;
const RANK: i32 = 5;

/// A handle, buffer or stream as NCCL holds it.
fn pointer(number: u64) -> *mut c_void {
    ptr::without_provenance_mut(usize::try_from(number).expect("64 bits"))
}

/// A structure in which every byte is garbage.
fn garbage<T>() -> MaybeUninit<T> {
    let mut memory = MaybeUninit::<T>::uninit();
    // SAFETY: the memory has the size of one T.
    unsafe { memory.as_mut_ptr().write_bytes(0xa5, 1) };
    memory
}

/// The header of a descriptor, which every version has.
macro_rules! header {
    ($descriptor:ident, $event_type:expr) => {
        $descriptor.type_ = $event_type.try_into().expect("fits the version's type");
        $descriptor.parentObj = pointer(PARENT);
        $descriptor.rank = RANK;
    };
}
use header;

fn fill<D>(descriptor: &mut D, fill: impl FnOnce(&mut D)) {
    fill(descriptor);
}

/// Reads a descriptor.
///
/// # Safety
/// As [`Descriptor::read`].
unsafe fn read<'a, D: Descriptor + 'a>(descriptor: NonNull<D>) -> Start<Name<'a>> {
    let mut start = Start { context: 0, parent: 0, rank: 0, body: Body::Unknown(event::Unknown { event_type: 0 }) };
    // SAFETY: the same contract.
    unsafe { D::read(descriptor, &mut start) };
    start
}

/// Fills a garbage descriptor, reads it as NCCL's, and compares the result.
fn check<D: Descriptor>(fill: impl FnOnce(&mut D), expected: Body<Name<'_>>) {
    let mut memory = garbage::<D>();
    // SAFETY: descriptors consist of integers and raw pointers: any bytes are a value.
    let descriptor = unsafe { memory.assume_init_mut() };
    fill(descriptor);
    // SAFETY: `fill` has filled what this kind needs.
    let start = unsafe { read(NonNull::from(descriptor)) };
    assert_eq!((start.parent, start.rank), (PARENT, RANK), "{:?}", start.body);
    assert_eq!(format!("{:?}", start.body), format!("{expected:?}"));
}

fn name(string: &'static std::ffi::CStr) -> Name<'static> {
    Name::from_cstr(string)
}

/// Writes one member of a descriptor's union.
macro_rules! set {
    ($event_type:expr, $member:ident: $value:expr) => {
        |descriptor| {
            header!(descriptor, $event_type);
            descriptor.__bindgen_anon_1.$member = $value;
        }
    };
    ($event_type:expr) => {
        |descriptor| {
            header!(descriptor, $event_type);
        }
    };
}
use set;

// Members that are the same in every version which has them.

const COLL: event::Coll<Name<'static>> = event::Coll {
    sequence: 11,
    func: Name::from_cstr(c"AllReduce"),
    send_buffer: 0x1000,
    recv_buffer: 0x2000,
    count: 12,
    root: 1,
    datatype: Name::from_cstr(c"ncclFloat32"),
    channels: 13,
    warps: 14,
    algorithm: Name::from_cstr(c"RING"),
    protocol: Name::from_cstr(c"SIMPLE"),
    parent_group: GROUP,
    comm_hash: 0,
    kernel_variant: Name::NONE,
    is_symmetric: false,
    user_tag: 0,
};

const P2P: event::P2p<Name<'static>> = event::P2p {
    func: Name::from_cstr(c"Send"),
    buffer: 0x3000,
    datatype: Name::from_cstr(c"ncclInt8"),
    count: 21,
    peer: 22,
    channels: 24,
    parent_group: GROUP,
    comm_hash: 0,
    user_tag: 0,
};

/// NCCL's structure of [`COLL`]: what all versions from 2 on have, and the other fields of this one.
macro_rules! coll {
    ($structure:ident { $($field:ident: $value:expr),* $(,)? }) => {
        sys::$structure {
            seqNumber: 11,
            func: c"AllReduce".as_ptr(),
            sendBuff: pointer(0x1000),
            recvBuff: pointer(0x2000),
            count: 12,
            root: 1,
            datatype: c"ncclFloat32".as_ptr(),
            nWarps: 14,
            algo: c"RING".as_ptr(),
            proto: c"SIMPLE".as_ptr(),
            $($field: $value,)*
        }
    };
}
use coll;

/// NCCL's structure of [`P2P`], in the same way.
macro_rules! p2p {
    ($structure:ident { $($field:ident: $value:expr),* $(,)? }) => {
        sys::$structure {
            func: c"Send".as_ptr(),
            buff: pointer(0x3000),
            datatype: c"ncclInt8".as_ptr(),
            count: 21,
            peer: 22,
            $($field: $value,)*
        }
    };
}
use p2p;

fn proxy_op(is_send: i32) -> sys::ncclProfilerProxyOp_v1_t {
    sys::ncclProfilerProxyOp_v1_t { pid: 4711, channelId: 127, peer: 3, nSteps: 8, chunkSize: 1 << 17, isSend: is_send }
}

fn proxy_op_body(is_send: bool) -> Body<Name<'static>> {
    Body::ProxyOp(event::ProxyOp { pid: 4711, channel: 127, peer: 3, steps: 8, chunk_bytes: 1 << 17, is_send })
}

const STEP: sys::ncclProfilerProxyStep_v1_t = sys::ncclProfilerProxyStep_v1_t { step: 6 };

fn net(id: i64, data: *mut c_void) -> sys::ncclProfilerNetPlugin_v3_t {
    sys::ncclProfilerNetPlugin_v3_t { id, data }
}

/// The kinds that all versions have and that have the same members everywhere.
macro_rules! check_common {
    ($descriptor:ty) => {
        check::<$descriptor>(set!(sys::ncclProfileGroup), Body::Group(event::Group {}));
        check::<$descriptor>(set!(sys::ncclProfileProxyCtrl), Body::ProxyCtrl(event::ProxyCtrl {}));
        check::<$descriptor>(
            set!(sys::ncclProfileProxyOp, proxyOp: proxy_op(1)),
            proxy_op_body(true),
        );
        check::<$descriptor>(
            set!(sys::ncclProfileProxyOp, proxyOp: proxy_op(0)),
            proxy_op_body(false),
        );
        check::<$descriptor>(
            set!(sys::ncclProfileProxyStep, proxyStep: STEP),
            Body::ProxyStep(event::ProxyStep { step: 6 }),
        );
    };
}
use check_common;

/// Types of other versions or of none: counted by the recorder, not misread.
macro_rules! check_unknown {
    ($descriptor:ty: $($event_type:expr),* $(,)?) => {
        $(check::<$descriptor>(
            set!($event_type),
            Body::Unknown(event::Unknown { event_type: u64::from($event_type) }),
        );)*
    };
}
use check_unknown;

/// Net plugin events: known ids are copied, unknown ones and NULL are opaque and not looked at.
macro_rules! check_net {
    ($descriptor:ty) => {
        let mut socket = sys::ncclProfilerNetSockDescr_v1_t {
            type_: 1,
            ..Default::default()
        };
        socket.__bindgen_anon_1.sock = sys::ncclProfilerNetSock_v1_t {
            fd: 9,
            op: 1,
            length: 65_536,
        };
        let mut ib = sys::ncclProfilerNetIbDescr_v1_t {
            type_: 1,
            ..Default::default()
        };
        ib.__bindgen_anon_1.qp = sys::ncclProfilerNetIbQp_v1_t {
            device: 2,
            wr_id: 77,
            opcode: 4,
            qpNum: 1234,
            length: 4096,
        };
        let mut later = socket;
        later.type_ = 2;
        let socket = (&raw mut socket).cast::<c_void>();
        let ib = (&raw mut ib).cast::<c_void>();
        let later = (&raw mut later).cast::<c_void>();
        let nowhere = pointer(0xdead_0000);
        for (id, data, expected) in [
            (0x1_0001, ib, NetData::IbQueuePair { device: 2, work_request: 77, opcode: 4, queue_pair: 1234, bytes: 4096 }),
            (0x2_0001, socket, NetData::Socket { descriptor: 9, operation: 1, bytes: 65_536 }),
            (0x2_0001, later, NetData::Opaque),
            (0x1_0001, ptr::null_mut(), NetData::Opaque),
            (0x2_0001, ptr::null_mut(), NetData::Opaque),
            (0x1_0002, nowhere, NetData::Opaque),
            (0x3_0001, nowhere, NetData::Opaque),
            (-1, nowhere, NetData::Opaque),
        ] {
            check::<$descriptor>(
                set!(sys::ncclProfileNetPlugin, netPlugin: net(id, data)),
                Body::NetPlugin(event::NetPlugin { id, data: expected }),
            );
        }
    };
}
use check_net;

/// A context that stands in for a session's is recognised.
#[test]
fn stand_in_contexts_differ_and_are_known() {
    use super::callbacks::{is_stand_in, stand_in_context};
    let [one, other] = [stand_in_context(), stand_in_context()];
    assert!(one != other && is_stand_in(one) && is_stand_in(other));
    assert!(!is_stand_in(0));
    assert!(!is_stand_in(nccl_events::id::ContextId::new(nccl_events::id::ProcessTag::new(0xffff), 9).get()));
}

#[test]
fn kinds_and_states_have_the_numbers_of_nccl() {
    use nccl_events::{Kind, state};
    let types = [
        (Kind::Group, sys::ncclProfileGroup),
        (Kind::Coll, sys::ncclProfileColl),
        (Kind::P2p, sys::ncclProfileP2p),
        (Kind::ProxyOp, sys::ncclProfileProxyOp),
        (Kind::ProxyStep, sys::ncclProfileProxyStep),
        (Kind::ProxyCtrl, sys::ncclProfileProxyCtrl),
        (Kind::KernelCh, sys::ncclProfileKernelCh),
        (Kind::NetPlugin, sys::ncclProfileNetPlugin),
        (Kind::GroupApi, sys::ncclProfileGroupApi),
        (Kind::CollApi, sys::ncclProfileCollApi),
        (Kind::P2pApi, sys::ncclProfileP2pApi),
        (Kind::KernelLaunch, sys::ncclProfileKernelLaunch),
        (Kind::CeColl, sys::ncclProfileCeColl),
        (Kind::CeSync, sys::ncclProfileCeSync),
        (Kind::CeBatch, sys::ncclProfileCeBatch),
        (Kind::KernelPhase, sys::ncclProfileKernelPhase),
    ];
    assert_eq!(types.len(), Kind::COUNT - 1);
    for (kind, event_type) in types {
        assert_eq!(kind.mask(), event_type);
        assert_eq!(super::shapes::kind(u64::from(event_type)), kind);
    }
    for (ours, nccls) in [
        (state::PROXY_OP_RECV_DONE, sys::ncclProfilerProxyOpRecvDone),
        (state::PROXY_STEP_SEND_GPU_WAIT, sys::ncclProfilerProxyStepSendGPUWait),
        (state::PROXY_STEP_RECV_GPU_WAIT, sys::ncclProfilerProxyStepRecvGPUWait),
        (state::PROXY_CTRL_IDLE, sys::ncclProfilerProxyCtrlIdle),
        (state::PROXY_CTRL_APPEND_END, sys::ncclProfilerProxyCtrlAppendEnd),
        (state::PROXY_OP_IN_PROGRESS, sys::ncclProfilerProxyOpInProgress_v4),
        (state::PROXY_STEP_SEND_PEER_WAIT, sys::ncclProfilerProxyStepSendPeerWait_v4),
        (state::NET_PLUGIN_UPDATE, sys::ncclProfilerNetPluginUpdate),
        (state::KERNEL_CH_STOP, sys::ncclProfilerKernelChStop),
        (state::GROUP_START_API_STOP, sys::ncclProfilerGroupStartApiStop),
        (state::GROUP_END_API_START, sys::ncclProfilerGroupEndApiStart),
        (state::KERNEL_PHASE_STOP, sys::ncclProfilerKernelPhaseStop),
    ] {
        assert_eq!(ours, nccls);
    }
}
