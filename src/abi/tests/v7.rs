//! v7: what it appends is read from 2.31 on only.

use super::v4_to_v6::{CE_COLL, COLL, P2P};
use super::*;
use nccl_events::event;

type D = sys::ncclProfilerEventDescr_v7_t;

const TAG: u64 = 0x7a67;

fn coll() -> sys::ncclProfilerColl_v7_t {
    sys::ncclProfilerColl_v7_t {
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
        kernelVariant: c"AGxLL_R".as_ptr(),
        isSymColl: 1,
        userTag: TAG,
    }
}

fn p2p() -> sys::ncclProfilerP2p_v7_t {
    sys::ncclProfilerP2p_v7_t {
        func: c"Recv".as_ptr(),
        buff: pointer(0x3000),
        datatype: c"ncclInt8".as_ptr(),
        count: 21,
        peer: 22,
        nChannels: 24,
        parentGroup: pointer(GROUP),
        userTag: TAG,
    }
}

fn coll_api() -> sys::ncclProfilerCollApi_v7_t {
    sys::ncclProfilerCollApi_v7_t {
        func: c"Broadcast".as_ptr(),
        count: 51,
        datatype: c"ncclFloat16".as_ptr(),
        root: 52,
        stream: pointer(0x7000),
        graphCaptured: 1,
        userTag: TAG,
    }
}

fn p2p_api() -> sys::ncclProfilerP2pApi_v7_t {
    sys::ncclProfilerP2pApi_v7_t {
        func: c"Send".as_ptr(),
        count: 61,
        datatype: c"ncclInt64".as_ptr(),
        stream: pointer(0x8000),
        graphCaptured: 0,
        userTag: TAG,
    }
}

fn ce_coll() -> sys::ncclProfilerCeColl_v7_t {
    sys::ncclProfilerCeColl_v7_t {
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
        userTag: TAG,
    }
}

fn kernel_phase() -> sys::ncclProfilerKernelPhase_v7_t {
    sys::ncclProfilerKernelPhase_v7_t { channelId: 81, phaseId: 2, phaseName: c"final_sync".as_ptr(), pTimer: 82 }
}

/// Every kind that v7 changed, with the tag that is expected.
fn check_operations(user_tag: u64, kernel_variant: Name<'static>, is_symmetric: bool) {
    check::<D>(
        set!(sys::ncclProfileColl, coll: coll()),
        Body::Coll(event::Coll { kernel_variant, is_symmetric, user_tag, ..COLL }),
    );
    check::<D>(set!(sys::ncclProfileP2p, p2p: p2p()), Body::P2p(event::P2p { user_tag, ..P2P }));
    check::<D>(
        set!(sys::ncclProfileCollApi, collApi: coll_api()),
        Body::CollApi(event::CollApi {
            func: name(c"Broadcast"),
            count: 51,
            datatype: name(c"ncclFloat16"),
            root: 52,
            stream: 0x7000,
            graph_captured: true,
            user_tag,
        }),
    );
    check::<D>(
        set!(sys::ncclProfileP2pApi, p2pApi: p2p_api()),
        Body::P2pApi(event::P2pApi {
            func: name(c"Send"),
            count: 61,
            datatype: name(c"ncclInt64"),
            stream: 0x8000,
            graph_captured: false,
            user_tag,
        }),
    );
    check::<D>(set!(sys::ncclProfileCeColl, ceColl: ce_coll()), Body::CeColl(event::CeColl { user_tag, ..CE_COLL }));
}

/// Every kind that v7 took over as it was.
fn check_unchanged() {
    check_common!(D);
    check_net!(D);
    check::<D>(
        set!(sys::ncclProfileKernelCh, kernelCh: sys::ncclProfilerKernelCh_v4_t {
            channelId: 31,
            pTimer: 32,
        }),
        Body::KernelCh(event::KernelCh { channel: 31, gpu_ns: 32 }),
    );
    check::<D>(
        set!(sys::ncclProfileGroupApi, groupApi: sys::ncclProfilerGroupApi_v5_t {
            graphCaptured: 0,
            groupDepth: 1,
        }),
        Body::GroupApi(event::GroupApi { graph_captured: false, depth: 1 }),
    );
    check::<D>(
        set!(sys::ncclProfileKernelLaunch, kernelLaunch: sys::ncclProfilerKernelLaunch_v5_t {
            stream: pointer(0x9000),
        }),
        Body::KernelLaunch(event::KernelLaunch { stream: 0x9000 }),
    );
    check::<D>(
        set!(sys::ncclProfileCeSync, ceCollSync: sys::ncclProfilerCeCollSync_v6_t {
            isComplete: 0,
            nRanks: 8,
        }),
        Body::CeSync(event::CeSync { complete: false, ranks: 8 }),
    );
    check::<D>(
        set!(sys::ncclProfileCeBatch, ceCollBatch: sys::ncclProfilerCeCollBatch_v6_t {
            numOps: 71,
            totalBytes: 72,
            useIntraSync: 1,
        }),
        Body::CeBatch(event::CeBatch { operations: 71, bytes: 72, intra_sync: true }),
    );
    check_unknown!(D: 0_u64, 3_u64, 1_u64 << 16, 1_u64 << 63, u64::MAX);
}

#[test]
fn from_2_31_on_all_of_it_is_read() {
    for running in [23_100, 23_102, 23_203] {
        version::pretend(running, || {
            check_unchanged();
            check_operations(TAG, name(c"AGxLL_R"), true);
            check::<D>(
                set!(sys::ncclProfileKernelPhase, kernelPhase: kernel_phase()),
                Body::KernelPhase(event::KernelPhase { channel: 81, phase: 2, name: name(c"final_sync"), gpu_ns: 82 }),
            );
        });
    }
}

#[test]
fn a_fork_before_2_31_or_an_unknown_release_is_read_as_v6() {
    for running in [0, 22_907, 23_007] {
        version::pretend(running, || {
            check_unchanged();
            check_operations(0, Name::NONE, false);
            check_unknown!(D: 0x8000_u64);
        });
    }
}

/// The forks' descriptor is as short as v6's: nothing behind it may be touched.
#[test]
fn a_forks_descriptor_ends_where_v6_ends() {
    type V6 = sys::ncclProfilerEventDescr_v6_t;
    version::pretend(22_907, || {
        let mut memory = Box::new(garbage::<V6>());
        // SAFETY: integers and raw pointers: any bytes are a value.
        let descriptor = unsafe { memory.assume_init_mut() };
        fill(
            descriptor,
            set!(sys::ncclProfileCeSync, ceCollSync: sys::ncclProfilerCeCollSync_v6_t {
                isComplete: 1,
                nRanks: 2,
            }),
        );
        let descriptor = NonNull::from(descriptor).cast::<D>();
        // SAFETY: it is filled as a fork fills it.
        let start = unsafe { read(descriptor) };
        assert_eq!(
            format!("{:?}", start.body),
            format!("{:?}", Body::<Name<'static>>::CeSync(event::CeSync { complete: true, ranks: 2 }))
        );
    });
}
