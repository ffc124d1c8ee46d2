//! Arguments of every state, in both shapes.

use super::*;
use crate::abi::StateArguments;
use nccl_events::StateArgs;

fn read_state<A: StateArguments>(arguments: &mut A, state: u32) -> StateArgs {
    // SAFETY: all bytes of the arguments are filled.
    unsafe { A::read(NonNull::from(arguments), state) }
}

#[test]
fn v1_to_v3() {
    for state in 0..=40_u32 {
        let mut arguments = sys::ncclProfilerEventStateArgs_v1_t::default();
        arguments.proxyOp = sys::ncclProfilerProxyOpArgs_v1_t { transSize: (7 << 32) | 9, steps: 3 };
        let expected = match state {
            0..=7 => StateArgs::ProxyOp { bytes: (7 << 32) | 9, steps: 3 },
            13..=18 => StateArgs::ProxyCtrl { appended: 9 },
            _ => StateArgs::None,
        };
        assert_eq!(read_state(&mut arguments, state), expected, "state {state}");
    }
}

#[test]
fn v4_to_v7() {
    for state in 0..=40_u32 {
        let mut arguments = sys::ncclProfilerEventStateArgs_v4_t::default();
        arguments.proxyStep.transSize = (7 << 32) | 9;
        let expected = match state {
            8..=12 | 20 => StateArgs::ProxyStep { bytes: (7 << 32) | 9 },
            13..=18 => StateArgs::ProxyCtrl { appended: 9 },
            21 => StateArgs::NetPlugin { data: NetData::Opaque },
            22 | 31 => StateArgs::GpuTime { gpu_ns: (7 << 32) | 9 },
            _ => StateArgs::None,
        };
        assert_eq!(read_state(&mut arguments, state), expected, "state {state}");
    }
}

/// From 2.29 on a v5 plugin gets a pointer to nothing with states 23 and 24.
#[test]
fn states_without_arguments_do_not_look_at_them() {
    let nowhere = NonNull::new(pointer(0xdead_0000)).expect("not NULL");
    for state in [19, 23, 24, 25, 30, 32, u32::MAX] {
        // SAFETY: these states have no arguments, so the pointer is not followed.
        let args = unsafe { sys::ncclProfilerEventStateArgs_v4_t::read(nowhere.cast(), state) };
        assert_eq!(args, StateArgs::None, "state {state}");
    }
    for state in [8, 12, 19, 23, 24, u32::MAX] {
        // SAFETY: as above.
        let args = unsafe { sys::ncclProfilerEventStateArgs_v1_t::read(nowhere.cast(), state) };
        assert_eq!(args, StateArgs::None, "state {state}");
    }
}
