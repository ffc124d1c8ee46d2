//! v1, v2, v3: the parent of an operation is its group.

use super::*;
use nccl_events::Name;
use nccl_events::event;

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
    parent_group: PARENT,
    comm_hash: 15,
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
    channels: 0,
    parent_group: PARENT,
    comm_hash: 23,
    user_tag: 0,
};

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
    sys::ncclProfilerColl_v3_t {
        name: ptr::null(),
        commHash: 15,
        seqNumber: 11,
        func: c"AllReduce".as_ptr(),
        sendBuff: pointer(0x1000),
        recvBuff: pointer(0x2000),
        count: 12,
        root: 1,
        datatype: c"ncclFloat32".as_ptr(),
        nMaxChannels: 13,
        nWarps: 14,
        algo: c"RING".as_ptr(),
        proto: c"SIMPLE".as_ptr(),
    }
}

fn p2p_v2() -> sys::ncclProfilerP2p_v2_t {
    sys::ncclProfilerP2p_v2_t {
        name: ptr::null(),
        commHash: 23,
        func: c"Send".as_ptr(),
        buff: pointer(0x3000),
        datatype: c"ncclInt8".as_ptr(),
        count: 21,
        peer: 22,
    }
}

#[test]
fn v1() {
    type D = sys::ncclProfilerEventDescr_v1_t;
    check_common!(D);
    check::<D>(set!(sys::ncclProfileColl, coll: coll_v1(4, 7, 1, 2)), Body::Coll(COLL));
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
        Body::P2p(P2P),
    );
    check_unknown!(D: 0_u8, 3_u8, 0x40_u8, 0x80_u8, 0xff_u8);
}

#[test]
fn v1_names_of_numbers() {
    type D = sys::ncclProfilerEventDescr_v1_t;
    let functions = [
        c"Broadcast",
        c"Reduce",
        c"AllGather",
        c"ReduceScatter",
        c"AllReduce",
        c"SendRecv",
        c"Send",
        c"Recv",
        c"Unknown",
    ];
    let datatypes = [
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
        c"Unknown",
    ];
    let algorithms = [c"TREE", c"RING", c"COLLNET_DIRECT", c"COLLNET_CHAIN", c"NVLS", c"NVLS_TREE", c"PAT", c"Unknown"];
    let protocols = [c"LL", c"LL128", c"SIMPLE", c"Unknown"];
    for number in 0..=255_u8 {
        let at = |names: &[&'static std::ffi::CStr]| name(names[usize::from(number).min(names.len() - 1)]);
        let expected = event::Coll {
            func: at(&functions),
            datatype: at(&datatypes),
            algorithm: at(&algorithms),
            protocol: at(&protocols),
            ..COLL
        };
        check::<D>(set!(sys::ncclProfileColl, coll: coll_v1(number, number, number, number)), Body::Coll(expected));
    }
}

#[test]
fn v2() {
    type D = sys::ncclProfilerEventDescr_v2_t;
    let coll = sys::ncclProfilerColl_v2_t {
        name: ptr::null(),
        commHash: 15,
        seqNumber: 11,
        func: c"AllReduce".as_ptr(),
        sendBuff: pointer(0x1000),
        recvBuff: pointer(0x2000),
        count: 12,
        root: 1,
        datatype: c"ncclFloat32".as_ptr(),
        trafficBytes: 98,
        nMaxChannels: 13,
        nWarps: 14,
        algo: c"RING".as_ptr(),
        proto: c"SIMPLE".as_ptr(),
    };
    for running in [0, 22_403, 22_501, 22_606, 22_707] {
        version::pretend(running, || {
            check_common!(D);
            check::<D>(set!(sys::ncclProfileColl, coll: coll), Body::Coll(COLL));
            check::<D>(set!(sys::ncclProfileP2p, p2p: p2p_v2()), Body::P2p(P2P));
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
            assert_eq!(format!("{:?}", start.body), format!("{:?}", Body::Coll(COLL)));
        });
    }
}

#[test]
fn v3() {
    type D = sys::ncclProfilerEventDescr_v3_t;
    check_common!(D);
    check_net!(D);
    check::<D>(set!(sys::ncclProfileColl, coll: coll_v3()), Body::Coll(COLL));
    check::<D>(set!(sys::ncclProfileP2p, p2p: p2p_v2()), Body::P2p(P2P));
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
            ..COLL
        }),
    );
}
