//! NCCL's profiler interface without its structures: kinds of events, states, and what each version has of them.
//!
//! The rules are those of NCCL 2.30.7 (`profiler.cc`, `profiler_v1.cc` … `_v5.cc`), and of 2.31.2 for version 7.

use std::fmt;

/// The kinds' names without the prefix `ncclProfile`; the place is the bit in the event mask.
#[rustfmt::skip]
pub(crate) const KINDS: [&str; 16] = [
    "Group", "Coll", "P2p", "ProxyOp", "ProxyStep", "ProxyCtrl", "KernelCh", "NetPlugin", "GroupApi", "CollApi",
    "P2pApi", "KernelLaunch", "CeColl", "CeSync", "CeBatch", "KernelPhase",
];

/// The states' names without the prefix `ncclProfiler`; the place is NCCL's number.
#[rustfmt::skip]
pub(crate) const STATES: [&str; 32] = [
    "ProxyOpSendPosted", "ProxyOpSendRemFifoWait", "ProxyOpSendTransmitted", "ProxyOpSendDone",
    "ProxyOpRecvPosted", "ProxyOpRecvReceived", "ProxyOpRecvTransmitted", "ProxyOpRecvDone",
    "ProxyStepSendGPUWait", "ProxyStepSendWait", "ProxyStepRecvWait", "ProxyStepRecvFlushWait",
    "ProxyStepRecvGPUWait", "ProxyCtrlIdle", "ProxyCtrlActive", "ProxyCtrlSleep", "ProxyCtrlWakeup",
    "ProxyCtrlAppend", "ProxyCtrlAppendEnd", "ProxyOpInProgress", "ProxyStepSendPeerWait", "NetPluginUpdate",
    "KernelChStop", "GroupStartApiStop", "GroupEndApiStart", "CeCollStart", "CeCollComplete", "CeSyncStart",
    "CeSyncComplete", "CeBatchStart", "CeBatchComplete", "KernelPhaseStop",
];

/// A descriptor's `type`: one kind of event that NCCL defines, or any other number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Kind(pub(crate) u64);

impl Kind {
    pub(crate) const GROUP: Self = Self(1 << 0);
    pub(crate) const COLL: Self = Self(1 << 1);
    pub(crate) const P2P: Self = Self(1 << 2);
    pub(crate) const PROXY_OP: Self = Self(1 << 3);
    pub(crate) const PROXY_STEP: Self = Self(1 << 4);
    pub(crate) const PROXY_CTRL: Self = Self(1 << 5);
    pub(crate) const KERNEL_CH: Self = Self(1 << 6);
    pub(crate) const NET_PLUGIN: Self = Self(1 << 7);
    pub(crate) const GROUP_API: Self = Self(1 << 8);
    pub(crate) const COLL_API: Self = Self(1 << 9);
    pub(crate) const P2P_API: Self = Self(1 << 10);
    pub(crate) const KERNEL_LAUNCH: Self = Self(1 << 11);
    pub(crate) const CE_COLL: Self = Self(1 << 12);
    pub(crate) const CE_SYNC: Self = Self(1 << 13);
    pub(crate) const CE_BATCH: Self = Self(1 << 14);
    pub(crate) const KERNEL_PHASE: Self = Self(1 << 15);

    /// By name, with or without `ncclProfile`, or by number.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let name = text.strip_prefix("ncclProfile").unwrap_or(text);
        let place = KINDS.iter().position(|known| known.eq_ignore_ascii_case(name));
        place.map(|place| 1 << place).or_else(|| parse_number(text)).map(Self)
    }

    /// The place in [`KINDS`]; `None` for a type that NCCL does not define.
    pub(crate) fn place(self) -> Option<usize> {
        let place = self.0.trailing_zeros() as usize;
        (self.0.is_power_of_two() && place < KINDS.len()).then_some(place)
    }

    pub(crate) fn name(self) -> String {
        let name = self.place().and_then(|place| KINDS.get(place));
        name.map_or_else(|| format!("{:#x}", self.0), |name| (*name).to_owned())
    }

    /// Whether it is a task of a plan: its parent is the Group up to version 4.
    pub(crate) fn is_task(self) -> bool {
        matches!(self, Self::COLL | Self::P2P)
    }

    pub(crate) fn is_below_task(self) -> bool {
        matches!(self, Self::PROXY_OP | Self::PROXY_STEP | Self::KERNEL_CH | Self::NET_PLUGIN)
    }

    /// Whether NCCL 2.28 says the rank in its descriptor; in others it is 0.
    pub(crate) fn has_rank(self) -> bool {
        self.is_task() || (self.is_below_task() && self != Self::KERNEL_CH)
    }
}

/// A state's number by name (with or without `ncclProfiler` or a suffix `_v4`) or by number.
pub(crate) fn parse_state(text: &str) -> Option<u32> {
    let name = text.strip_prefix("ncclProfiler").unwrap_or(text);
    let name = name.strip_suffix("_v4").unwrap_or(name);
    let place = STATES.iter().position(|known| known.eq_ignore_ascii_case(name));
    place.and_then(|place| u32::try_from(place).ok()).or_else(|| text.parse().ok())
}

pub(crate) fn state_name(number: u32) -> String {
    let name = STATES.get(number as usize);
    name.map_or_else(|| number.to_string(), |name| (*name).to_owned())
}

pub(crate) fn parse_number(text: &str) -> Option<u64> {
    match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    }
}

/// The `N` of `ncclProfiler_vN`, 1 to 7.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Version(u8);

impl Version {
    /// All versions in the order in which NCCL looks for them.
    pub(crate) const HIGHEST_FIRST: [Self; 7] = [Self(7), Self(6), Self(5), Self(4), Self(3), Self(2), Self(1)];

    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let number = text.trim_start_matches('v').parse().ok();
        let known = number.filter(|number| (1..=7).contains(number)).map(Self);
        known.ok_or_else(|| "the versions of the interface are 1 to 7".to_owned())
    }

    pub(crate) const fn number(self) -> u8 {
        self.0
    }

    /// Whether NCCL hands events of this kind to a plugin of this version.
    pub(crate) const fn has_kind(self, kind: Kind) -> bool {
        let all = match self.0 {
            1 | 2 => 0x3f,
            3 | 4 => 0xff,
            5 => 0xfff,
            6 => 0x7fff,
            _ => 0xffff,
        };
        kind.0 & all != 0
    }

    /// Whether NCCL 2.27 or later hands this state to a plugin of this version. The states 0 to 7, which only
    /// 2.23 to 2.26 send, go to versions 1 to 3.
    pub(crate) const fn has_state(self, state: u32) -> bool {
        match state {
            0..=7 => self.0 <= 3,
            8..=18 => true,
            19..=22 => self.0 >= 4,
            23 | 24 => self.0 >= 5,
            25..=30 => self.0 >= 6,
            31 => self.0 >= 7,
            _ => false,
        }
    }

    /// Up to version 4 (NCCL 2.27) the parent of a task is the Group, and a NULL parent suppresses the network and
    /// kernel events below it.
    pub(crate) const fn is_before_api_events(self) -> bool {
        self.0 <= 4
    }
}

impl fmt::Display for Version {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "v{}", self.0)
    }
}

/// Whether NCCL starts an event of this kind for a mask: a low bit implies the events above it.
pub(crate) fn wanted(mask: u32, kind: Kind) -> bool {
    const COLL: u64 = 0x2;
    const P2P: u64 = 0x4;
    const BELOW_OP: u64 = 0x10 | 0x80;
    const BELOW_TASK: u64 = 0x8 | BELOW_OP | 0x40;
    let mut mask = u64::from(mask);
    // NCCL 2.31 adds KernelCh when KernelPhase is asked for.
    if mask & Kind::KERNEL_PHASE.0 != 0 {
        mask |= Kind::KERNEL_CH.0;
    }
    let below = match kind {
        Kind::GROUP => COLL | P2P | BELOW_TASK,
        Kind::COLL | Kind::P2P => BELOW_TASK,
        Kind::PROXY_OP | Kind::PROXY_STEP => BELOW_OP,
        Kind::GROUP_API => 0xe00 | 0x1 | COLL | P2P | BELOW_TASK,
        Kind::COLL_API => COLL | BELOW_TASK,
        Kind::P2P_API => P2P | BELOW_TASK,
        Kind::CE_COLL => 0x6000,
        _ => 0,
    };
    mask & (kind.0 | below) != 0
}
