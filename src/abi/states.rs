//! Converts state arguments to the event model. There are two shapes: v1 to v3, and v4 to v7.

use std::ptr::NonNull;

use nccl_events::{NetData, StateArgs, state};

use super::StateArguments;
use super::sys::{ncclProfilerEventStateArgs_v1_t, ncclProfilerEventStateArgs_v4_t};

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
