//! v4: the parent is the group. From v5 on the parent is the API call, and the group has a field. What v7 appends is
//! read from 2.31 on only.

use super::*;

const CE_COLL: event::CeColl<Name<'static>> = event::CeColl {
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
            set!(sys::ncclProfileColl, coll: coll!(ncclProfilerColl_v4_t { nChannels: 13 })),
            Body::Coll(event::Coll { parent_group: PARENT, ..COLL }),
        );
        check::<D>(set!(sys::ncclProfileKernelCh, kernelCh: KERNEL_CH), KERNEL_CH_BODY);
        check_unknown!(D: 0_u8, 3_u8, 0xff_u8);
    });
    // 2.28 and later copy the descriptor for a v4 plugin, but not `nChannels`; a release that cannot be asked may be
    // one of those.
    for (running, channels) in [(0, 0), (22_703, 24), (22_707, 24), (22_800, 0), (22_803, 0), (23_203, 0)] {
        version::pretend(running, || {
            check::<D>(
                set!(sys::ncclProfileP2p, p2p: p2p!(ncclProfilerP2p_v4_t { nChannels: 24 })),
                Body::P2p(event::P2p { parent_group: PARENT, channels, ..P2P }),
            );
        });
    }
}

/// What v5 to v7 have in common; the structures of v7 have more fields, from which these values are expected.
macro_rules! check_v5 {
    (
        $descriptor:ty: $coll:ident, $p2p:ident, $coll_api:ident, $p2p_api:ident,
        {$($of_coll:tt)*}, {$($of_all:tt)*}, $expected:expr
    ) => {
        let (kernel_variant, is_symmetric, user_tag) = $expected;
        check_common!($descriptor);
        check_net!($descriptor);
        check::<$descriptor>(
            set!(sys::ncclProfileColl, coll: coll!(
                $coll { nChannels: 13, parentGroup: pointer(GROUP), $($of_coll)* $($of_all)* }
            )),
            Body::Coll(event::Coll { kernel_variant, is_symmetric, user_tag, ..COLL }),
        );
        check::<$descriptor>(
            set!(sys::ncclProfileP2p, p2p: p2p!($p2p { nChannels: 24, parentGroup: pointer(GROUP), $($of_all)* })),
            Body::P2p(event::P2p { user_tag, ..P2P }),
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
                set!(sys::ncclProfileCollApi, collApi: sys::$coll_api {
                    func: c"Broadcast".as_ptr(),
                    count: 51,
                    datatype: c"ncclFloat16".as_ptr(),
                    root: 52,
                    stream: pointer(0x7000),
                    graphCaptured: captured,
                    $($of_all)*
                }),
                Body::CollApi(event::CollApi {
                    func: name(c"Broadcast"),
                    count: 51,
                    datatype: name(c"ncclFloat16"),
                    root: 52,
                    stream: 0x7000,
                    graph_captured,
                    user_tag,
                }),
            );
            check::<$descriptor>(
                set!(sys::ncclProfileP2pApi, p2pApi: sys::$p2p_api {
                    func: c"Send".as_ptr(),
                    count: 61,
                    datatype: c"ncclInt64".as_ptr(),
                    stream: pointer(0x8000),
                    graphCaptured: captured,
                    $($of_all)*
                }),
                Body::P2pApi(event::P2pApi {
                    func: name(c"Send"),
                    count: 61,
                    datatype: name(c"ncclInt64"),
                    stream: 0x8000,
                    graph_captured,
                    user_tag,
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

/// What v6 and v7 have in common.
macro_rules! check_ce {
    ($descriptor:ty: $ce_coll:ident, {$($of_all:tt)*}, $user_tag:expr) => {
        check::<$descriptor>(
            set!(sys::ncclProfileCeColl, ceColl: sys::$ce_coll {
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
                $($of_all)*
            }),
            Body::CeColl(event::CeColl { user_tag: $user_tag, ..CE_COLL }),
        );
        check::<$descriptor>(
            set!(sys::ncclProfileCeSync, ceCollSync: sys::ncclProfilerCeCollSync_v6_t { isComplete: 1, nRanks: 8 }),
            Body::CeSync(event::CeSync { complete: true, ranks: 8 }),
        );
        check::<$descriptor>(
            set!(sys::ncclProfileCeBatch, ceCollBatch: sys::ncclProfilerCeCollBatch_v6_t {
                numOps: 71,
                totalBytes: 72,
                useIntraSync: 0,
            }),
            Body::CeBatch(event::CeBatch { operations: 71, bytes: 72, intra_sync: false }),
        );
    };
}

const NOTHING_MORE: (Name<'static>, bool, u64) = (Name::NONE, false, 0);

#[test]
fn v5() {
    type D = sys::ncclProfilerEventDescr_v5_t;
    check_v5!(
        D: ncclProfilerColl_v5_t, ncclProfilerP2p_v5_t, ncclProfilerCollApi_v5_t, ncclProfilerP2pApi_v5_t,
        {}, {}, NOTHING_MORE
    );
    check_unknown!(D: 0_u64, 3_u64, 0x1000_u64, 0x4000_u64, 0x8000_u64, 1_u64 << 16, 1_u64 << 32, u64::MAX);
}

#[test]
fn v6() {
    type D = sys::ncclProfilerEventDescr_v6_t;
    check_v5!(
        D: ncclProfilerColl_v5_t, ncclProfilerP2p_v5_t, ncclProfilerCollApi_v5_t, ncclProfilerP2pApi_v5_t,
        {}, {}, NOTHING_MORE
    );
    check_ce!(D: ncclProfilerCeColl_v6_t, {}, 0);
    check_unknown!(D: 0_u64, 3_u64, 0x8000_u64, 1_u64 << 16, u64::MAX);
}

/// Forks of NCCL before 2.31, and releases that are not known, are read as v6.
#[test]
fn v7_is_read_from_2_31_on() {
    type D = sys::ncclProfilerEventDescr_v7_t;
    const TAG: u64 = 0x7a67;
    for running in [0, 22_907, 23_007, 23_100, 23_102, 23_203] {
        let has_more = running >= 23_100;
        let expected = if has_more { (name(c"AGxLL_R"), true, TAG) } else { NOTHING_MORE };
        version::pretend(running, || {
            check_v5!(
                D: ncclProfilerColl_v7_t, ncclProfilerP2p_v7_t, ncclProfilerCollApi_v7_t, ncclProfilerP2pApi_v7_t,
                { kernelVariant: c"AGxLL_R".as_ptr(), isSymColl: 1, }, { userTag: TAG, }, expected
            );
            check_ce!(D: ncclProfilerCeColl_v7_t, { userTag: TAG, }, expected.2);
            let (channel, phase, gpu_ns) = (81, 2, 82);
            let phase_body = event::KernelPhase { channel, phase, name: name(c"final_sync"), gpu_ns };
            check::<D>(
                set!(sys::ncclProfileKernelPhase, kernelPhase: sys::ncclProfilerKernelPhase_v7_t {
                    channelId: channel,
                    phaseId: phase,
                    phaseName: c"final_sync".as_ptr(),
                    pTimer: gpu_ns,
                }),
                match has_more {
                    true => Body::KernelPhase(phase_body),
                    false => Body::Unknown(event::Unknown { event_type: 0x8000 }),
                },
            );
            check_unknown!(D: 0_u64, 3_u64, 1_u64 << 16, 1_u64 << 63, u64::MAX);
        });
    }
}

/// The forks' descriptor is as short as v6's: nothing behind it may be touched.
#[test]
fn a_forks_descriptor_ends_where_v6_ends() {
    version::pretend(22_907, || {
        let mut memory = Box::new(garbage::<sys::ncclProfilerEventDescr_v6_t>());
        // SAFETY: integers and raw pointers: any bytes are a value.
        let descriptor = unsafe { memory.assume_init_mut() };
        let sync = sys::ncclProfilerCeCollSync_v6_t { isComplete: 1, nRanks: 2 };
        fill(descriptor, set!(sys::ncclProfileCeSync, ceCollSync: sync));
        let descriptor = NonNull::from(descriptor).cast::<sys::ncclProfilerEventDescr_v7_t>();
        // SAFETY: it is filled as a fork fills it.
        let start = unsafe { read(descriptor) };
        assert!(matches!(start.body, Body::CeSync(event::CeSync { complete: true, ranks: 2 })), "{:?}", start.body);
    });
}
