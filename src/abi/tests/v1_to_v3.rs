//! v1, v2, v3: the parent of an operation is its group.

use super::*;

const OLD_COLL: event::Coll<Name<'static>> = event::Coll { parent_group: PARENT, comm_hash: 15, ..COLL };
const OLD_P2P: event::P2p<Name<'static>> = event::P2p { channels: 0, parent_group: PARENT, comm_hash: 23, ..P2P };

fn coll_v1(func: u8, datatype: u8, algo: u8, proto: u8) -> sys::ncclProfilerColl_v1_t {
    sys::ncclProfilerColl_v1_t {
        name: ptr::null(),
        commHash: 15,
        seqNumber: 11,
        func,
        sendBuff: pointer(0x1000),
        recvBuff: pointer(0x2000),
        count: 12,
        root: 1,
        datatype,
        op: 99,
        trafficBytes: 98,
        nMaxChannels: 13,
        nWarps: 14,
        algo,
        proto,
        isCollnet: 97,
        isNvls: 96,
    }
}

fn coll_v3() -> sys::ncclProfilerColl_v3_t {
    coll!(ncclProfilerColl_v3_t { name: ptr::null(), commHash: 15, nMaxChannels: 13 })
}

fn p2p_v2() -> sys::ncclProfilerP2p_v2_t {
    p2p!(ncclProfilerP2p_v2_t { name: ptr::null(), commHash: 23 })
}

#[test]
fn v1() {
    type D = sys::ncclProfilerEventDescr_v1_t;
    check_common!(D);
    check::<D>(set!(sys::ncclProfileColl, coll: coll_v1(4, 7, 1, 2)), Body::Coll(OLD_COLL));
    check::<D>(
        set!(sys::ncclProfileP2p, p2p: sys::ncclProfilerP2p_v1_t {
            name: ptr::null(),
            commHash: 23,
            func: 6,
            buff: pointer(0x3000),
            datatype: 0,
            count: 21,
            peer: 22,
        }),
        Body::P2p(OLD_P2P),
    );
    check_unknown!(D: 0_u8, 3_u8, 0x40_u8, 0x80_u8, 0xff_u8);
}

#[test]
fn a_number_that_v1_does_not_know_is_named_so() {
    type D = sys::ncclProfilerEventDescr_v1_t;
    let unknown = name(c"Unknown");
    for numbers in [[8, 12, 7, 3], [u8::MAX; 4]] {
        let [func, datatype, algorithm, protocol] = numbers;
        let coll = coll_v1(func, datatype, algorithm, protocol);
        let (func, datatype, algorithm, protocol) = (unknown, unknown, unknown, unknown);
        let expected = event::Coll { func, datatype, algorithm, protocol, ..OLD_COLL };
        check::<D>(set!(sys::ncclProfileColl, coll: coll), Body::Coll(expected));
    }
}

#[test]
fn v2() {
    type D = sys::ncclProfilerEventDescr_v2_t;
    let coll = coll!(ncclProfilerColl_v2_t { name: ptr::null(), commHash: 15, trafficBytes: 98, nMaxChannels: 13 });
    for running in [0, 22_403, 22_501, 22_606, 22_707] {
        version::pretend(running, || {
            check_common!(D);
            check::<D>(set!(sys::ncclProfileColl, coll: coll), Body::Coll(OLD_COLL));
            check::<D>(set!(sys::ncclProfileP2p, p2p: p2p_v2()), Body::P2p(OLD_P2P));
            check_unknown!(D: 0_u8, 3_u8, 0x40_u8, 0x80_u8, 0xff_u8);
        });
    }
}

/// 2.26.2 to 2.26.5 pass v3's descriptor, 8 bytes shorter, to v2's function.
#[test]
fn v2_that_is_v3_in_truth() {
    type V2 = sys::ncclProfilerEventDescr_v2_t;
    type V3 = sys::ncclProfilerEventDescr_v3_t;
    for running in 22_602..=22_605 {
        version::pretend(running, || {
            // Exactly as large as NCCL's, so that a memory checker sees a read beyond it.
            let mut memory = Box::new(garbage::<V3>());
            // SAFETY: integers and raw pointers: any bytes are a value.
            let descriptor = unsafe { memory.assume_init_mut() };
            fill(descriptor, set!(sys::ncclProfileColl, coll: coll_v3()));
            let descriptor = NonNull::from(descriptor).cast::<V2>();
            // SAFETY: it is filled as these releases fill it.
            let start = unsafe { read(descriptor) };
            assert_eq!(format!("{:?}", start.body), format!("{:?}", Body::Coll(OLD_COLL)));
        });
    }
}

#[test]
fn v3() {
    type D = sys::ncclProfilerEventDescr_v3_t;
    check_common!(D);
    check_net!(D);
    check::<D>(set!(sys::ncclProfileColl, coll: coll_v3()), Body::Coll(OLD_COLL));
    check::<D>(set!(sys::ncclProfileP2p, p2p: p2p_v2()), Body::P2p(OLD_P2P));
    check::<D>(
        set!(sys::ncclProfileKernelCh, kernelCh: sys::ncclProfilerKernelCh_v3_t { channelId: 31 }),
        Body::KernelCh(event::KernelCh { channel: 31, gpu_ns: 0 }),
    );
    check_unknown!(D: 0_u8, 3_u8, 0xff_u8);
}

#[test]
fn absent_strings_stay_absent() {
    type D = sys::ncclProfilerEventDescr_v3_t;
    let mut coll = coll_v3();
    coll.func = ptr::null();
    coll.datatype = ptr::null();
    coll.algo = ptr::null();
    coll.proto = ptr::null();
    check::<D>(
        set!(sys::ncclProfileColl, coll: coll),
        Body::Coll(event::Coll {
            func: Name::NONE,
            datatype: Name::NONE,
            algorithm: Name::NONE,
            protocol: Name::NONE,
            ..OLD_COLL
        }),
    );
}
