//! Converts the descriptors and state arguments of each version of NCCL's interface to the event model. Members whose
//! shape several versions share are converted by one macro or function.

use std::ffi::{CStr, c_void};
use std::ptr;
use std::ptr::NonNull;

use crate::abi;
use crate::abi::{
    Descriptor, StateArguments, ncclProfilerEventDescr_v1_t, ncclProfilerEventDescr_v2_t, ncclProfilerEventDescr_v3_t,
    ncclProfilerEventDescr_v4_t, ncclProfilerEventDescr_v5_t, ncclProfilerEventDescr_v6_t, ncclProfilerEventDescr_v7_t,
    ncclProfilerEventStateArgs_v1_t, ncclProfilerEventStateArgs_v4_t,
};
use crate::host::process;
use nccl_events::collective::ALGORITHMS;
use nccl_events::{Body, Kind, Name, NetData, Start, StateArgs, Table, event, state};

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
    if event_type.is_power_of_two() { Kind::from_bit(event_type.trailing_zeros()) } else { Kind::Unknown }
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
            func: $crate::abi::versions::name!($raw.func),
            send_buffer: $crate::abi::versions::number($raw.sendBuff),
            recv_buffer: $crate::abi::versions::number($raw.recvBuff),
            count: $raw.count as u64,
            root: $raw.root,
            datatype: $crate::abi::versions::name!($raw.datatype),
            channels: $channels,
            warps: $raw.nWarps,
            algorithm: $crate::abi::versions::name!($raw.algo),
            protocol: $crate::abi::versions::name!($raw.proto),
            parent_group: $crate::abi::versions::number($group),
            comm_hash: $hash,
            ..nccl_events::event::Coll::default()
        }
    };
}

/// A send or a receive, built in the same way.
macro_rules! p2p {
    ($raw:ident, channels: $channels:expr, parent_group: $group:expr, comm_hash: $hash:expr) => {
        nccl_events::event::P2p {
            func: $crate::abi::versions::name!($raw.func),
            buffer: $crate::abi::versions::number($raw.buff),
            datatype: $crate::abi::versions::name!($raw.datatype),
            count: $raw.count as u64,
            peer: $raw.peer,
            channels: $channels,
            parent_group: $crate::abi::versions::number($group),
            comm_hash: $hash,
            ..nccl_events::event::P2p::default()
        }
    };
}

/// Reads a descriptor's header and body; the version reads `coll`, `p2p` and kinds that only some versions have.
macro_rules! read {
    ($descriptor:ident, $start:ident, coll: $coll:expr, p2p: $p2p:expr, $($kind:pat => $other:expr,)*) => {
        $crate::abi::versions::header($start, $descriptor.parentObj, $descriptor.rank);
        let event_type = u64::from($descriptor.type_);
        $start.body = match $crate::abi::versions::kind(event_type) {
            Kind::Group => Body::Group(event::Group {}),
            Kind::Coll => Body::Coll($coll),
            Kind::P2p => Body::P2p($p2p),
            Kind::ProxyOp => {
                let raw = $crate::abi::versions::member!($descriptor, proxyOp);
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
                Body::ProxyStep(event::ProxyStep { step: $crate::abi::versions::member!($descriptor, proxyStep).step })
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
        let raw = $crate::abi::versions::member!($descriptor, netPlugin);
        // SAFETY: the descriptor is NCCL's, so the network plugin of this id passed the data.
        let data = unsafe { $crate::abi::versions::net_data(raw.id, raw.data) };
        Body::NetPlugin(event::NetPlugin { id: raw.id, data })
    }};
}

pub(super) use {member, name};

/// Kernel channels of v4 and later.
#[inline]
pub(super) fn kernel_ch<'a>(raw: &abi::ncclProfilerKernelCh_v4_t) -> Body<Name<'a>> {
    Body::KernelCh(event::KernelCh { channel: raw.channelId, gpu_ns: raw.pTimer })
}

/// The `type` of both known network plugins: their only kind of event.
const NET_EVENT: u8 = 1;

/// Copies the data of network plugins with a known layout.
///
/// # Safety
/// `data` is NULL or what a network plugin passed to the profiler callback under this id.
pub(super) unsafe fn net_data(id: i64, data: *const c_void) -> NetData {
    const IB: i64 = abi::ncclProfilerNetIbId_v1 as i64;
    const SOCKET: i64 = abi::ncclProfilerNetSocketId_v1 as i64;
    if data.is_null() {
        return NetData::Opaque;
    }
    match id {
        IB => {
            // SAFETY: not NULL, and the id identifies this layout. The read does not assume any alignment.
            let data = unsafe { data.cast::<abi::ncclProfilerNetIbDescr_v1_t>().read_unaligned() };
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
            let data = unsafe { data.cast::<abi::ncclProfilerNetSockDescr_v1_t>().read_unaligned() };
            if data.type_ != NET_EVENT {
                return NetData::Opaque;
            }
            let sock = member!(data, sock);
            NetData::Socket { descriptor: sock.fd, operation: sock.op, bytes: sock.length as u64 }
        }
        _ => NetData::Opaque,
    }
}

// v1 (2.23.4): operations and proxies. Later versions pass strings where v1 passes numbers of NCCL's internal
// enumerations. The names here are the strings that later versions would pass, for the enumerations of 2.23 (data
// types: also those added in 2.24).

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
                    ..event::Coll::default()
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
                    parent_group: number(descriptor.parentObj),
                    comm_hash: raw.commHash,
                    ..event::P2p::default()
                }
            },
        );
    }
}

// v2 (2.24, 2.25): v1 with strings. v3 (2.26): v2 without traffic bytes; kernel channels (without GPU time) and net
// plugins. The parent of an operation is its group.

macro_rules! read_both {
    ($descriptor:ident, $start:ident, $($kind:pat => $other:expr,)*) => {
        read!($descriptor, $start,
            coll: {
                let raw = member!($descriptor, coll);
                coll!(
                    raw,
                    channels: raw.nMaxChannels, parent_group: $descriptor.parentObj, comm_hash: raw.commHash
                )
            },
            p2p: {
                let raw = member!($descriptor, p2p);
                p2p!(raw, channels: 0, parent_group: $descriptor.parentObj, comm_hash: raw.commHash)
            },
            $($kind => $other,)*
        );
    };
}

impl Descriptor for ncclProfilerEventDescr_v2_t {
    #[inline(always)]
    unsafe fn read(descriptor: NonNull<Self>, start: &mut Start<Name<'_>>) {
        // 2.26.2 to 2.26.5 give a v2 plugin a pointer to v3's descriptor, which is shorter and has other offsets. (They
        // prefer v3, which the plugin exports; but a program may ask for less.)
        if matches!(process::nccl_version(), 22602..=22605) {
            let descriptor = descriptor.cast::<ncclProfilerEventDescr_v3_t>();
            // SAFETY: the contract, except that these releases pass a v3 descriptor.
            return unsafe { ncclProfilerEventDescr_v3_t::read(descriptor, start) };
        }
        // SAFETY: the contract.
        let descriptor = unsafe { descriptor.as_ref() };
        read_both!(descriptor, start,);
    }
}

impl Descriptor for ncclProfilerEventDescr_v3_t {
    #[inline(always)]
    unsafe fn read(descriptor: NonNull<Self>, start: &mut Start<Name<'_>>) {
        // SAFETY: the contract.
        let descriptor = unsafe { descriptor.as_ref() };
        read_both!(descriptor, start,
            Kind::KernelCh => {
                Body::KernelCh(event::KernelCh { channel: member!(descriptor, kernelCh).channelId, gpu_ns: 0 })
            },
            Kind::NetPlugin => net_plugin!(descriptor),
        );
    }
}

// v5 (2.28): API calls and kernel launches. The parent of an operation is its API call; the group has its own field.

impl Descriptor for ncclProfilerEventDescr_v5_t {
    #[inline(always)]
    unsafe fn read(descriptor: NonNull<Self>, start: &mut Start<Name<'_>>) {
        // SAFETY: the contract.
        let descriptor = unsafe { descriptor.as_ref() };
        read!(descriptor, start,
            coll: {
                let raw = member!(descriptor, coll);
                coll!(raw, channels: raw.nChannels, parent_group: raw.parentGroup, comm_hash: 0)
            },
            p2p: {
                let raw = member!(descriptor, p2p);
                p2p!(raw, channels: raw.nChannels, parent_group: raw.parentGroup, comm_hash: 0)
            },
            Kind::KernelCh => kernel_ch(member!(descriptor, kernelCh)),
            Kind::NetPlugin => net_plugin!(descriptor),
            Kind::GroupApi => {
                let raw = member!(descriptor, groupApi);
                Body::GroupApi(event::GroupApi { graph_captured: raw.graphCaptured != 0, depth: raw.groupDepth })
            },
            Kind::CollApi => {
                let raw = member!(descriptor, collApi);
                Body::CollApi(event::CollApi {
                    func: name!(raw.func),
                    count: raw.count as u64,
                    datatype: name!(raw.datatype),
                    root: raw.root,
                    stream: number(raw.stream),
                    graph_captured: raw.graphCaptured != 0,
                    ..event::CollApi::default()
                })
            },
            Kind::P2pApi => {
                let raw = member!(descriptor, p2pApi);
                Body::P2pApi(event::P2pApi {
                    func: name!(raw.func),
                    count: raw.count as u64,
                    datatype: name!(raw.datatype),
                    stream: number(raw.stream),
                    graph_captured: raw.graphCaptured != 0,
                    ..event::P2pApi::default()
                })
            },
            Kind::KernelLaunch => {
                Body::KernelLaunch(event::KernelLaunch { stream: number(member!(descriptor, kernelLaunch).stream) })
            },
        );
    }
}

// v7 (2.31, 2.32): v6, with fields appended to operations and API calls, and kernel phases.
//
// Forks of NCCL before 2.31 export other structures as v7, all of which begin like v6. The plugin therefore reads v7's
// new fields only if the running NCCL reports 2.31 or later.

impl Descriptor for ncclProfilerEventDescr_v7_t {
    #[inline(always)]
    unsafe fn read(pointer: NonNull<Self>, start: &mut Start<Name<'_>>) {
        let v6 = pointer.cast::<ncclProfilerEventDescr_v6_t>();
        // SAFETY: the contract; v7 and the forks' v7 begin with v6's fields at v6's offsets (bindings.rs).
        unsafe { ncclProfilerEventDescr_v6_t::read(v6, start) };
        // Forks of earlier releases export other structures under the name v7.
        if process::nccl_version() >= const { Table::V7.first_of_series() } {
            // SAFETY: the contract, and the release is one whose v7 this is.
            let descriptor = unsafe { pointer.as_ref() };
            // SAFETY: as above; the body was read from this descriptor.
            unsafe { add_v7(&mut start.body, descriptor) };
        }
    }
}

/// Adds the fields that v6 does not have.
///
/// # Safety
/// As for [`Descriptor::read`]; `body` was read from the same descriptor.
#[inline]
unsafe fn add_v7<'a>(body: &mut Body<Name<'a>>, descriptor: &ncclProfilerEventDescr_v7_t) {
    match body {
        Body::Coll(coll) => {
            let raw = member!(descriptor, coll);
            coll.kernel_variant = name!(raw.kernelVariant);
            coll.is_symmetric = raw.isSymColl != 0;
            coll.user_tag = raw.userTag;
        }
        Body::P2p(p2p) => p2p.user_tag = member!(descriptor, p2p).userTag,
        Body::CollApi(event::CollApi { user_tag, .. }) => *user_tag = member!(descriptor, collApi).userTag,
        Body::P2pApi(event::P2pApi { user_tag, .. }) => *user_tag = member!(descriptor, p2pApi).userTag,
        Body::CeColl(coll) => coll.user_tag = member!(descriptor, ceColl).userTag,
        Body::Unknown(event::Unknown { event_type }) if matches!(kind(*event_type), Kind::KernelPhase) => {
            let raw = member!(descriptor, kernelPhase);
            *body = Body::KernelPhase(event::KernelPhase {
                channel: raw.channelId,
                phase: raw.phaseId,
                name: name!(raw.phaseName),
                gpu_ns: raw.pTimer,
            });
        }
        _ => {}
    }
}

// v6 (2.29, 2.30): v5 and copy-engine collectives.

impl Descriptor for ncclProfilerEventDescr_v6_t {
    #[inline(always)]
    unsafe fn read(pointer: NonNull<Self>, start: &mut Start<Name<'_>>) {
        // SAFETY: the contract.
        let descriptor = unsafe { pointer.as_ref() };
        header(start, descriptor.parentObj, descriptor.rank);
        start.body = match kind(descriptor.type_) {
            Kind::CeColl => {
                let raw = member!(descriptor, ceColl);
                Body::CeColl(event::CeColl {
                    sequence: raw.seqNumber,
                    func: name!(raw.func),
                    send_buffer: number(raw.sendBuff),
                    recv_buffer: number(raw.recvBuff),
                    count: raw.count as u64,
                    root: raw.root,
                    datatype: name!(raw.datatype),
                    sync_strategy: name!(raw.syncStrategy),
                    intra_batch_sync: raw.intraBatchSync != 0,
                    batch_size: raw.batchSize,
                    batches: raw.numBatches,
                    ce_sequence: raw.ceSeqNum,
                    stream: number(raw.stream),
                    ..event::CeColl::default()
                })
            }
            Kind::CeSync => {
                let raw = member!(descriptor, ceCollSync);
                Body::CeSync(event::CeSync { complete: raw.isComplete != 0, ranks: raw.nRanks })
            }
            Kind::CeBatch => {
                let raw = member!(descriptor, ceCollBatch);
                Body::CeBatch(event::CeBatch {
                    operations: raw.numOps,
                    bytes: raw.totalBytes as u64,
                    intra_sync: raw.useIntraSync != 0,
                })
            }
            _ => {
                let pointer = pointer.cast::<ncclProfilerEventDescr_v5_t>();
                // SAFETY: the contract; v6 has the size of v5 and v5's members at v5's offsets (bindings.rs).
                return unsafe { ncclProfilerEventDescr_v5_t::read(pointer, start) };
            }
        };
    }
}

// State arguments have two shapes: v1 to v3, and v4 to v7.

macro_rules! field {
    ($arguments:ident.$member:ident.$field:ident) => {{
        // SAFETY: the arguments are NCCL's (contract of `read`) and no smaller than the member.
        let field = unsafe { &raw const (*$arguments.as_ptr()).$member.$field };
        // SAFETY: the state shows that NCCL filled this member.
        unsafe { field.read() }
    }};
}

impl StateArguments for ncclProfilerEventStateArgs_v1_t {
    #[inline]
    unsafe fn read(arguments: NonNull<Self>, state: u32) -> StateArgs {
        match state {
            state::PROXY_OP_SEND_POSTED..=state::PROXY_OP_RECV_DONE => StateArgs::ProxyOp {
                bytes: field!(arguments.proxyOp.transSize) as u64,
                steps: field!(arguments.proxyOp.steps),
            },
            state::PROXY_CTRL_IDLE..=state::PROXY_CTRL_APPEND_END => {
                StateArgs::ProxyCtrl { appended: field!(arguments.proxyCtrl.appendedProxyOps) }
            }
            // Proxy steps: NULL up to 2.26, zeroes from 2.27 on.
            _ => StateArgs::None,
        }
    }
}

impl StateArguments for ncclProfilerEventStateArgs_v4_t {
    #[inline]
    unsafe fn read(arguments: NonNull<Self>, state: u32) -> StateArgs {
        match state {
            state::PROXY_STEP_SEND_GPU_WAIT..=state::PROXY_STEP_RECV_GPU_WAIT | state::PROXY_STEP_SEND_PEER_WAIT => {
                StateArgs::ProxyStep { bytes: field!(arguments.proxyStep.transSize) as u64 }
            }
            state::PROXY_CTRL_IDLE..=state::PROXY_CTRL_APPEND_END => {
                StateArgs::ProxyCtrl { appended: field!(arguments.proxyCtrl.appendedProxyOps) }
            }
            // The event's start identified the network plugin; the state does not repeat it.
            state::NET_PLUGIN_UPDATE => StateArgs::NetPlugin { data: NetData::Opaque },
            state::KERNEL_CH_STOP | state::KERNEL_PHASE_STOP => {
                StateArgs::GpuTime { gpu_ns: field!(arguments.kernelCh.pTimer) }
            }
            // 19 carries zeroes; 23 and 24 carry NULL, or for a v5 plugin from 2.29 on an invalid pointer.
            _ => StateArgs::None,
        }
    }
}

// v4 (2.27): `init` describes the communicator; GPU times. The parent of an operation is its group.

impl Descriptor for ncclProfilerEventDescr_v4_t {
    #[inline]
    unsafe fn read(descriptor: NonNull<Self>, start: &mut Start<Name<'_>>) {
        // SAFETY: the contract.
        let descriptor = unsafe { descriptor.as_ref() };
        read!(descriptor, start,
            coll: {
                let raw = member!(descriptor, coll);
                coll!(raw, channels: raw.nChannels, parent_group: descriptor.parentObj, comm_hash: 0)
            },
            p2p: {
                let raw = member!(descriptor, p2p);
                // 2.27, whose own descriptor this is, sets `nChannels`. From 2.28 on the descriptor is a copy that
                // leaves it unset; a release that cannot be asked may be 2.28 or later.
                let channels = if matches!(process::nccl_version(), 22_700..22_800) { raw.nChannels } else { 0 };
                p2p!(raw, channels: channels, parent_group: descriptor.parentObj, comm_hash: 0)
            },
            Kind::KernelCh => kernel_ch(member!(descriptor, kernelCh)),
            Kind::NetPlugin => net_plugin!(descriptor),
        );
    }
}
