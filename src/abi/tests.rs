//! Tests what depends on the calling release, and which pointers must not be followed. `tests/archive/print_journal.rs`
//! tests that each table's fields arrive.

use std::ffi::c_void;
use std::ptr;
use std::ptr::NonNull;

use crate::abi;
use crate::abi::{Descriptor, StateArguments, versions};
use crate::host::process;
use nccl_events::{Body, Name, NetData, Start, StateArgs, event};

fn nowhere() -> *mut c_void {
    ptr::without_provenance_mut(0xdead_0000)
}

/// Reads a descriptor as that of another version.
///
/// # Safety
/// As for [`Descriptor::read`].
unsafe fn read_as<'a, D: Descriptor, T>(descriptor: &'a T) -> Body<Name<'a>> {
    let mut start = Start { context: 0, parent: 0, rank: 0, body: Body::Unknown(event::Unknown { event_type: 0 }) };
    // SAFETY: the same contract.
    unsafe { D::read(NonNull::from(descriptor).cast(), &mut start) };
    start.body
}

/// 2.26.2 to 2.26.5 pass v3's descriptor, 8 bytes shorter, to v2's function.
#[test]
fn v2_that_is_v3_in_truth() {
    let mut descriptor = abi::ncclProfilerEventDescr_v3_t { type_: 2, ..Default::default() };
    descriptor.__bindgen_anon_1.coll =
        abi::ncclProfilerColl_v3_t { nMaxChannels: 13, nWarps: 14, algo: c"RING".as_ptr(), ..Default::default() };
    for running in 22_602..=22_605 {
        // SAFETY: filled as these releases fill it.
        let read = || unsafe { read_as::<abi::ncclProfilerEventDescr_v2_t, _>(&descriptor) };
        let Body::Coll(coll) = process::pretend(running, read) else { panic!("{running}: another kind") };
        assert_eq!((coll.channels, coll.warps, coll.algorithm.bytes()), (13, 14, &b"RING"[..]), "{running}");
    }
}

/// 2.28 and later copy the descriptor for a v4 plugin, but not `nChannels`; a release that cannot be asked may be 2.28
/// or later.
#[test]
fn channels_of_messages_are_read_from_2_27_only() {
    let mut descriptor = abi::ncclProfilerEventDescr_v4_t { type_: 4, ..Default::default() };
    descriptor.__bindgen_anon_1.p2p = abi::ncclProfilerP2p_v4_t { nChannels: 24, ..Default::default() };
    for (running, channels) in [(0, 0), (22_703, 24), (22_707, 24), (22_800, 0), (23_203, 0)] {
        // SAFETY: filled as these releases fill it.
        let read = || unsafe { read_as::<abi::ncclProfilerEventDescr_v4_t, _>(&descriptor) };
        let Body::P2p(p2p) = process::pretend(running, read) else { panic!("{running}: another kind") };
        assert_eq!(p2p.channels, channels, "{running}");
    }
}

#[test]
fn a_number_that_v1_does_not_know_is_named_so() {
    for [func, datatype, algo, proto] in [[8, 12, 7, 3], [u8::MAX; 4]] {
        let mut descriptor = abi::ncclProfilerEventDescr_v1_t { type_: 2, ..Default::default() };
        descriptor.__bindgen_anon_1.coll =
            abi::ncclProfilerColl_v1_t { func, datatype, algo, proto, ..Default::default() };
        // SAFETY: no pointer in the structure is followed.
        let Body::Coll(coll) = (unsafe { read_as::<abi::ncclProfilerEventDescr_v1_t, _>(&descriptor) }) else {
            panic!("another kind");
        };
        let names = [coll.func, coll.datatype, coll.algorithm, coll.protocol];
        assert_eq!(names.map(|name| name.bytes()), [&b"Unknown"[..]; 4]);
    }
}

/// Only data of known ids and types are followed.
#[test]
fn data_of_other_network_plugins_is_opaque() {
    let mut later = abi::ncclProfilerNetSockDescr_v1_t { type_: 2, ..Default::default() };
    let later = (&raw mut later).cast::<c_void>();
    for (id, data) in [
        (0x2_0001, later),
        (0x1_0001, ptr::null_mut()),
        (0x2_0001, ptr::null_mut()),
        (0x1_0002, nowhere()),
        (0x3_0001, nowhere()),
        (-1, nowhere()),
    ] {
        // SAFETY: the data is NULL, has this id's type, or has an unknown id.
        assert_eq!(unsafe { versions::net_data(id, data) }, NetData::Opaque, "{id:#x}");
    }
}

#[test]
fn each_state_has_its_arguments() {
    const BYTES: u64 = (7 << 32) | 9;
    for state in 0..=40_u32 {
        let mut old = abi::ncclProfilerEventStateArgs_v1_t::default();
        old.proxyOp = abi::ncclProfilerProxyOpArgs_v1_t { transSize: (7 << 32) | 9, steps: 3 };
        let old_args = match state {
            0..=7 => StateArgs::ProxyOp { bytes: BYTES, steps: 3 },
            13..=18 => StateArgs::ProxyCtrl { appended: 9 },
            _ => StateArgs::None,
        };
        let mut new = abi::ncclProfilerEventStateArgs_v4_t::default();
        new.proxyStep.transSize = (7 << 32) | 9;
        let new_args = match state {
            8..=12 | 20 => StateArgs::ProxyStep { bytes: BYTES },
            13..=18 => StateArgs::ProxyCtrl { appended: 9 },
            21 => StateArgs::NetPlugin { data: NetData::Opaque },
            22 | 31 => StateArgs::GpuTime { gpu_ns: BYTES },
            _ => StateArgs::None,
        };
        // SAFETY: all bytes of the arguments are filled.
        assert_eq!(unsafe { StateArguments::read(NonNull::from(&mut old), state) }, old_args, "state {state}");
        // SAFETY: as above.
        assert_eq!(unsafe { StateArguments::read(NonNull::from(&mut new), state) }, new_args, "state {state}");
    }
}

/// From 2.29 on a v5 plugin gets an invalid pointer with states 23 and 24.
#[test]
fn states_without_arguments_do_not_look_at_them() {
    let nowhere = NonNull::new(nowhere()).expect("not NULL");
    for state in [19, 23, 24, 25, 30, 32, u32::MAX] {
        // SAFETY: these states have no arguments, so the pointer is not followed.
        let args = unsafe { abi::ncclProfilerEventStateArgs_v4_t::read(nowhere.cast(), state) };
        assert_eq!(args, StateArgs::None, "state {state}");
    }
}
