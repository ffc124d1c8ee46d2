//! v4: the parent is the group. v5, v6: the parent is the API call, the group has a field.

use super::*;
use nccl_events::Name;
use nccl_events::event;

pub(super) const COLL: event::Coll<Name<'static>> = event::Coll {
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

pub(super) const P2P: event::P2p<Name<'static>> = event::P2p {
    func: Name::from_cstr(c"Recv"),
    buffer: 0x3000,
    datatype: Name::from_cstr(c"ncclInt8"),
    count: 21,
    peer: 22,
    channels: 24,
    parent_group: GROUP,
    comm_hash: 0,
    user_tag: 0,
};

pub(super) const CE_COLL: event::CeColl<Name<'static>> = event::CeColl {
    sequence: 41,
    func: Name::from_cstr(c"AllGather"),
    send_buffer: 0x4000,
    recv_buffer: 0x5000,
    count: 42,
    root: 43,
    datatype: Name::from_cstr(c"ncclUint8"),
    sync_strategy: Name::from_cstr(c"MC"),
    intra_batch_sync: true,
    batch_size: 44,
    batches: 45,
    ce_sequence: 46,
    stream: 0x6000,
    user_tag: 0,
};

fn p2p_v4() -> sys::ncclProfilerP2p_v4_t {
    sys::ncclProfilerP2p_v4_t {
        func: c"Recv".as_ptr(),
        buff: pointer(0x3000),
        datatype: c"ncclInt8".as_ptr(),
        count: 21,
        peer: 22,
        nChannels: 24,
    }
}

const KERNEL_CH: sys::ncclProfilerKernelCh_v4_t =
    sys::ncclProfilerKernelCh_v4_t { channelId: 31, pTimer: 1_767_766_887_944_922_112 };

const KERNEL_CH_BODY: Body<Name<'static>> =
    Body::KernelCh(event::KernelCh { channel: 31, gpu_ns: 1_767_766_887_944_922_112 });

#[test]
fn v4() {
    type D = sys::ncclProfilerEventDescr_v4_t;
    version::pretend(22_707, || {
        check_common!(D);
        check_net!(D);
        check::<D>(
            set!(sys::ncclProfileColl, coll: sys::ncclProfilerColl_v4_t {
                seqNumber: 11,
                func: c"AllReduce".as_ptr(),
                sendBuff: pointer(0x1000),
                recvBuff: pointer(0x2000),
                count: 12,
                root: 1,
                datatype: c"ncclFloat32".as_ptr(),
                nChannels: 13,
                nWarps: 14,
                algo: c"RING".as_ptr(),
                proto: c"SIMPLE".as_ptr(),
            }),
            Body::Coll(event::Coll { parent_group: PARENT, ..COLL }),
        );
        check::<D>(set!(sys::ncclProfileP2p, p2p: p2p_v4()), Body::P2p(event::P2p { parent_group: PARENT, ..P2P }));
        check::<D>(set!(sys::ncclProfileKernelCh, kernelCh: KERNEL_CH), KERNEL_CH_BODY);
        check_unknown!(D: 0_u8, 3_u8, 0xff_u8);
    });
}

/// 2.28 and later copy the descriptor for a v4 plugin, but not this field; and who does not say may be one of them.
#[test]
fn v4_on_2_28_has_garbage_in_the_channels() {
    type D = sys::ncclProfilerEventDescr_v4_t;
    let releases = [(0, 0), (22_703, 24), (22_707, 24), (22_800, 0), (22_803, 0), (23_203, 0)];
    for (running, channels) in releases {
        version::pretend(running, || {
            check::<D>(
                set!(sys::ncclProfileP2p, p2p: p2p_v4()),
                Body::P2p(event::P2p { parent_group: PARENT, channels, ..P2P }),
            );
        });
    }
}

/// What v5 and v6 have in common.
macro_rules! check_v5 {
    ($descriptor:ty) => {
        check_common!($descriptor);
        check_net!($descriptor);
        check::<$descriptor>(
            set!(sys::ncclProfileColl, coll: sys::ncclProfilerColl_v5_t {
                seqNumber: 11,
                func: c"AllReduce".as_ptr(),
                sendBuff: pointer(0x1000),
                recvBuff: pointer(0x2000),
                count: 12,
                root: 1,
                datatype: c"ncclFloat32".as_ptr(),
                nChannels: 13,
                nWarps: 14,
                algo: c"RING".as_ptr(),
                proto: c"SIMPLE".as_ptr(),
                parentGroup: pointer(GROUP),
            }),
            Body::Coll(COLL),
        );
        check::<$descriptor>(
            set!(sys::ncclProfileP2p, p2p: sys::ncclProfilerP2p_v5_t {
                func: c"Recv".as_ptr(),
                buff: pointer(0x3000),
                datatype: c"ncclInt8".as_ptr(),
                count: 21,
                peer: 22,
                nChannels: 24,
                parentGroup: pointer(GROUP),
            }),
            Body::P2p(P2P),
        );
        check::<$descriptor>(set!(sys::ncclProfileKernelCh, kernelCh: KERNEL_CH), KERNEL_CH_BODY);
        // A byte that is neither 0 nor 1 is true, as in C.
        for (captured, graph_captured) in [(0, false), (1, true), (0xa5, true)] {
            check::<$descriptor>(
                set!(sys::ncclProfileGroupApi, groupApi: sys::ncclProfilerGroupApi_v5_t {
                    graphCaptured: captured,
                    groupDepth: 2,
                }),
                Body::GroupApi(event::GroupApi { graph_captured, depth: 2 }),
            );
            check::<$descriptor>(
                set!(sys::ncclProfileCollApi, collApi: sys::ncclProfilerCollApi_v5_t {
                    func: c"Broadcast".as_ptr(),
                    count: 51,
                    datatype: c"ncclFloat16".as_ptr(),
                    root: 52,
                    stream: pointer(0x7000),
                    graphCaptured: captured,
                }),
                Body::CollApi(event::CollApi {
                    func: name(c"Broadcast"),
                    count: 51,
                    datatype: name(c"ncclFloat16"),
                    root: 52,
                    stream: 0x7000,
                    graph_captured,
                    user_tag: 0,
                }),
            );
            check::<$descriptor>(
                set!(sys::ncclProfileP2pApi, p2pApi: sys::ncclProfilerP2pApi_v5_t {
                    func: c"Send".as_ptr(),
                    count: 61,
                    datatype: c"ncclInt64".as_ptr(),
                    stream: pointer(0x8000),
                    graphCaptured: captured,
                }),
                Body::P2pApi(event::P2pApi {
                    func: name(c"Send"),
                    count: 61,
                    datatype: name(c"ncclInt64"),
                    stream: 0x8000,
                    graph_captured,
                    user_tag: 0,
                }),
            );
        }
        check::<$descriptor>(
            set!(sys::ncclProfileKernelLaunch, kernelLaunch: sys::ncclProfilerKernelLaunch_v5_t {
                stream: pointer(0x9000),
            }),
            Body::KernelLaunch(event::KernelLaunch { stream: 0x9000 }),
        );
    };
}

#[test]
fn v5() {
    type D = sys::ncclProfilerEventDescr_v5_t;
    check_v5!(D);
    check_unknown!(D: 0_u64, 3_u64, 0x1000_u64, 0x4000_u64, 0x8000_u64, 1_u64 << 16, 1_u64 << 32, u64::MAX);
}

#[test]
fn v6() {
    type D = sys::ncclProfilerEventDescr_v6_t;
    check_v5!(D);
    check::<D>(
        set!(sys::ncclProfileCeColl, ceColl: sys::ncclProfilerCeColl_v6_t {
            seqNumber: 41,
            func: c"AllGather".as_ptr(),
            sendBuff: pointer(0x4000),
            recvBuff: pointer(0x5000),
            count: 42,
            root: 43,
            datatype: c"ncclUint8".as_ptr(),
            syncStrategy: c"MC".as_ptr(),
            intraBatchSync: 1,
            batchSize: 44,
            numBatches: 45,
            ceSeqNum: 46,
            stream: pointer(0x6000),
        }),
        Body::CeColl(CE_COLL),
    );
    check::<D>(
        set!(sys::ncclProfileCeSync, ceCollSync: sys::ncclProfilerCeCollSync_v6_t {
            isComplete: 1,
            nRanks: 8,
        }),
        Body::CeSync(event::CeSync { complete: true, ranks: 8 }),
    );
    check::<D>(
        set!(sys::ncclProfileCeBatch, ceCollBatch: sys::ncclProfilerCeCollBatch_v6_t {
            numOps: 71,
            totalBytes: 72,
            useIntraSync: 0,
        }),
        Body::CeBatch(event::CeBatch { operations: 71, bytes: 72, intra_sync: false }),
    );
    check_unknown!(D: 0_u64, 3_u64, 0x8000_u64, 1_u64 << 16, u64::MAX);
}
