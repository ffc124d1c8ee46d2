//! What NCCL reports about an event between its start and its stop.

use crate::NetData;

/// A change of an event's state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct State {
    /// The event's handle as NCCL passed it; 0 for NULL.
    pub event: u64,
    /// NCCL's state number, which need not be known (see [`state`]).
    pub state: u32,
    /// The state's argument; [`StateArgs::None`] if NCCL passed NULL.
    pub args: StateArgs,
}

/// The argument of a state, by the meaning of the state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the fields are NCCL's")]
pub enum StateArgs {
    /// NULL, or a state without argument.
    None,
    /// v1–v3 ProxyOp states 0–7: cumulative bytes and steps.
    ProxyOp {
        bytes: u64,
        steps: i32,
    },
    /// Step states: size of the last transfer of the sub-operation.
    ProxyStep {
        bytes: u64,
    },
    ProxyCtrl {
        appended: i32,
    },
    /// KernelChStop and KernelPhaseStop.
    GpuTime {
        gpu_ns: u64,
    },
    NetPlugin {
        data: NetData,
    },
}

/// NCCL's state numbers (`ncclProfilerEventState_v7_t`).
#[expect(missing_docs, reason = "the names are NCCL's")]
pub mod state {
    pub const PROXY_OP_SEND_POSTED: u32 = 0;
    pub const PROXY_OP_SEND_REM_FIFO_WAIT: u32 = 1;
    pub const PROXY_OP_SEND_TRANSMITTED: u32 = 2;
    pub const PROXY_OP_SEND_DONE: u32 = 3;
    pub const PROXY_OP_RECV_POSTED: u32 = 4;
    pub const PROXY_OP_RECV_RECEIVED: u32 = 5;
    pub const PROXY_OP_RECV_TRANSMITTED: u32 = 6;
    pub const PROXY_OP_RECV_DONE: u32 = 7;
    pub const PROXY_STEP_SEND_GPU_WAIT: u32 = 8;
    pub const PROXY_STEP_SEND_WAIT: u32 = 9;
    pub const PROXY_STEP_RECV_WAIT: u32 = 10;
    pub const PROXY_STEP_RECV_FLUSH_WAIT: u32 = 11;
    pub const PROXY_STEP_RECV_GPU_WAIT: u32 = 12;
    pub const PROXY_CTRL_IDLE: u32 = 13;
    pub const PROXY_CTRL_ACTIVE: u32 = 14;
    pub const PROXY_CTRL_SLEEP: u32 = 15;
    pub const PROXY_CTRL_WAKEUP: u32 = 16;
    pub const PROXY_CTRL_APPEND: u32 = 17;
    pub const PROXY_CTRL_APPEND_END: u32 = 18;
    pub const PROXY_OP_IN_PROGRESS: u32 = 19;
    pub const PROXY_STEP_SEND_PEER_WAIT: u32 = 20;
    pub const NET_PLUGIN_UPDATE: u32 = 21;
    pub const KERNEL_CH_STOP: u32 = 22;
    pub const GROUP_START_API_STOP: u32 = 23;
    pub const GROUP_END_API_START: u32 = 24;
    pub const KERNEL_PHASE_STOP: u32 = 31;
    /// The highest number that any release defines.
    pub const LAST: u32 = crate::Table::NEWEST.facts().last_state;
}
