//! NCCL's event kinds and states by number and name.

/// The kinds' names without the prefix `ncclProfile`; the place is the bit in the event mask.
pub const KINDS: [&str; 16] = [
    "Group",
    "Coll",
    "P2p",
    "ProxyOp",
    "ProxyStep",
    "ProxyCtrl",
    "KernelCh",
    "NetPlugin",
    "GroupApi",
    "CollApi",
    "P2pApi",
    "KernelLaunch",
    "CeColl",
    "CeSync",
    "CeBatch",
    "KernelPhase",
];

/// The states' names without the prefix `ncclProfiler`; the place is NCCL's number.
pub const STATES: [&str; 32] = [
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

/// One kind of event that NCCL defines, or a type that it does not define.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Kind(u64);

#[expect(missing_docs, reason = "the names are NCCL's")]
impl Kind {
    pub const GROUP: Self = Self(1 << 0);
    pub const COLL: Self = Self(1 << 1);
    pub const P2P: Self = Self(1 << 2);
    pub const PROXY_OP: Self = Self(1 << 3);
    pub const PROXY_STEP: Self = Self(1 << 4);
    pub const PROXY_CTRL: Self = Self(1 << 5);
    pub const KERNEL_CH: Self = Self(1 << 6);
    pub const NET_PLUGIN: Self = Self(1 << 7);
    pub const GROUP_API: Self = Self(1 << 8);
    pub const COLL_API: Self = Self(1 << 9);
    pub const P2P_API: Self = Self(1 << 10);
    pub const KERNEL_LAUNCH: Self = Self(1 << 11);
    pub const CE_COLL: Self = Self(1 << 12);
    pub const CE_SYNC: Self = Self(1 << 13);
    pub const CE_BATCH: Self = Self(1 << 14);
    pub const KERNEL_PHASE: Self = Self(1 << 15);
}

impl Kind {
    /// A descriptor's `type`, whatever its value.
    #[must_use]
    pub const fn from_type(event_type: u64) -> Self {
        Self(event_type)
    }

    /// A kind by name, with or without `ncclProfile`.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        let name = name.strip_prefix("ncclProfile").unwrap_or(name);
        let place = KINDS
            .iter()
            .position(|known| known.eq_ignore_ascii_case(name))?;
        Some(Self(1 << place))
    }

    /// The descriptor's `type`, which is also the bit in the mask.
    #[must_use]
    pub const fn event_type(self) -> u64 {
        self.0
    }

    /// The place in [`KINDS`]; `None` for a type that NCCL does not define.
    #[must_use]
    pub fn place(self) -> Option<usize> {
        let place = self.0.trailing_zeros() as usize;
        (self.0.is_power_of_two() && place < KINDS.len()).then_some(place)
    }

    /// The name, or the number in hexadecimal.
    #[must_use]
    pub fn name(self) -> String {
        self.place()
            .and_then(|place| KINDS.get(place))
            .map_or_else(|| format!("{:#x}", self.0), |name| (*name).to_owned())
    }
}

/// A state's number by name (with or without `ncclProfiler` or a suffix `_v4`) or by number.
#[must_use]
pub fn state_number(text: &str) -> Option<u32> {
    let name = text.strip_prefix("ncclProfiler").unwrap_or(text);
    let name = name.strip_suffix("_v4").unwrap_or(name);
    STATES
        .iter()
        .position(|known| known.eq_ignore_ascii_case(name))
        .and_then(|place| u32::try_from(place).ok())
        .or_else(|| text.parse().ok())
}

/// A state's name, or its number.
#[must_use]
pub fn state_name(number: u32) -> String {
    usize::try_from(number)
        .ok()
        .and_then(|place| STATES.get(place))
        .map_or_else(|| number.to_string(), |name| (*name).to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_numbers_meet() {
        assert_eq!(
            Kind::from_name("ncclProfileKernelPhase"),
            Some(Kind::KERNEL_PHASE)
        );
        assert_eq!(Kind::KERNEL_PHASE.event_type(), 0x8000);
        assert_eq!(
            Kind::from_name("coll").map(Kind::name).as_deref(),
            Some("Coll")
        );
        assert_eq!(Kind::from_type(0x10000).name(), "0x10000");
        assert_eq!(Kind::from_type(3).place(), None);
        assert_eq!(state_number("KernelChStop"), Some(22));
        assert_eq!(state_number("ncclProfilerProxyOpInProgress_v4"), Some(19));
        assert_eq!(state_number("KernelPhaseStop"), Some(31));
        assert_eq!(state_number("99"), Some(99));
        assert_eq!(state_name(8), "ProxyStepSendGPUWait");
    }
}
