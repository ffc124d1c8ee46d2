//! The names of states without the prefix `ncclProfiler`; the index is NCCL's number.

use std::borrow::Cow;

use nccl_events::ids::index;

const NAMES: [&str; nccl_events::state::LAST as usize + 1] = [
    "ProxyOpSendPosted",
    "ProxyOpSendRemFifoWait",
    "ProxyOpSendTransmitted",
    "ProxyOpSendDone",
    "ProxyOpRecvPosted",
    "ProxyOpRecvReceived",
    "ProxyOpRecvTransmitted",
    "ProxyOpRecvDone",
    "ProxyStepSendGPUWait",
    "ProxyStepSendWait",
    "ProxyStepRecvWait",
    "ProxyStepRecvFlushWait",
    "ProxyStepRecvGPUWait",
    "ProxyCtrlIdle",
    "ProxyCtrlActive",
    "ProxyCtrlSleep",
    "ProxyCtrlWakeup",
    "ProxyCtrlAppend",
    "ProxyCtrlAppendEnd",
    "ProxyOpInProgress",
    "ProxyStepSendPeerWait",
    "NetPluginUpdate",
    "KernelChStop",
    "GroupStartApiStop",
    "GroupEndApiStart",
    "CeCollStart",
    "CeCollComplete",
    "CeSyncStart",
    "CeSyncComplete",
    "CeBatchStart",
    "CeBatchComplete",
    "KernelPhaseStop",
];

pub(crate) fn name(state: u32) -> Cow<'static, str> {
    NAMES.get(index(state)).map_or_else(|| state.to_string().into(), |name| Cow::Borrowed(*name))
}

pub(crate) const fn has_arguments(state: u32) -> bool {
    matches!(state, 0..=18 | 20..=22 | 31)
}
