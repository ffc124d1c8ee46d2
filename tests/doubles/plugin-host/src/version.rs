//! The seven versions of the interface: which kinds and states NCCL hands to a plugin of each version,
//! and which kinds it starts for a mask.
//!
//! The rules are those of NCCL 2.30.7 `profiler.cc` and its shims `profiler_v1.cc` … `profiler_v5.cc`,
//! and of 2.31.2 for version 7.

use std::fmt;

use crate::kind::Kind;

/// A version of NCCL's profiler interface: the `N` of `ncclProfiler_vN`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[expect(missing_docs, reason = "the numbers say it all")]
pub enum Version {
    V1 = 1,
    V2,
    V3,
    V4,
    V5,
    V6,
    V7,
}

impl Version {
    /// All versions in the order in which NCCL looks for them.
    pub const HIGHEST_FIRST: [Self; 7] = [
        Self::V7,
        Self::V6,
        Self::V5,
        Self::V4,
        Self::V3,
        Self::V2,
        Self::V1,
    ];

    /// The version with this number.
    #[must_use]
    pub fn from_number(number: u8) -> Option<Self> {
        Self::HIGHEST_FIRST
            .into_iter()
            .find(|version| version.number() == number)
    }

    /// The `N` of `ncclProfiler_vN`.
    #[must_use]
    pub const fn number(self) -> u8 {
        self as u8
    }

    /// All event types that this version defines.
    #[must_use]
    pub const fn mask(self) -> u32 {
        match self {
            Self::V1 | Self::V2 => 0x3f,
            Self::V3 | Self::V4 => 0xff,
            Self::V5 => 0xfff,
            Self::V6 => 0x7fff,
            Self::V7 => 0xffff,
        }
    }

    /// Whether NCCL hands events of this kind to a plugin of this version.
    #[must_use]
    pub fn has_kind(self, kind: Kind) -> bool {
        kind.event_type() & u64::from(self.mask()) != 0
    }

    /// Whether a NCCL of 2.27 or later hands this state to a plugin of this version. The states 0 to 7,
    /// which only 2.23 to 2.26 send, go to versions 1 to 3.
    #[must_use]
    pub const fn has_state(self, state: u32) -> bool {
        let version = self.number();
        match state {
            0..=7 => version <= 3,
            8..=18 => true,
            19..=22 => version >= 4,
            23 | 24 => version >= 5,
            25..=30 => version >= 6,
            31 => version >= 7,
            _ => false,
        }
    }

    /// Up to version 4 (NCCL 2.27) the parent of Coll and P2p is the Group, later the API call.
    #[must_use]
    pub const fn parent_is_group(self) -> bool {
        self.number() <= 4
    }

    /// Up to version 4 (NCCL 2.27) a NULL parent suppresses the network and kernel events below it.
    #[must_use]
    pub const fn null_parent_suppresses(self) -> bool {
        self.number() <= 4
    }

    /// Version 1 to 3 have `init(context, mask)` only.
    #[must_use]
    pub const fn init_has_arguments(self) -> bool {
        self.number() >= 4
    }
}

impl fmt::Display for Version {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "v{}", self.number())
    }
}

/// Whether NCCL starts an event of this kind for a mask: a low bit implies the events above it.
#[must_use]
pub fn wanted(mask: u32, kind: Kind) -> bool {
    const GROUP: u32 = 0x1;
    const COLL: u32 = 0x2;
    const P2P: u32 = 0x4;
    const PROXY_OP: u32 = 0x8;
    const BELOW_OP: u32 = 0x10 | 0x80; // ProxyStep, NetPlugin
    const KERNEL_CH: u32 = 0x40;
    const BELOW_TASK: u32 = PROXY_OP | BELOW_OP | KERNEL_CH;
    const API: u32 = 0x200 | 0x400 | 0x800; // CollApi, P2pApi, KernelLaunch
    // NCCL 2.31 adds KernelCh when KernelPhase is asked for.
    let mask = if mask & 0x8000 == 0 {
        mask
    } else {
        mask | KERNEL_CH
    };
    let implied = match kind {
        Kind::GROUP => GROUP | COLL | P2P | BELOW_TASK,
        Kind::COLL => COLL | BELOW_TASK,
        Kind::P2P => P2P | BELOW_TASK,
        Kind::PROXY_OP => PROXY_OP | BELOW_OP,
        Kind::PROXY_STEP => BELOW_OP,
        Kind::GROUP_API => 0x100 | API | GROUP | COLL | P2P | BELOW_TASK,
        Kind::COLL_API => 0x200 | COLL | BELOW_TASK,
        Kind::P2P_API => 0x400 | P2P | BELOW_TASK,
        Kind::CE_COLL => 0x7000,
        other => u32::try_from(other.event_type()).unwrap_or(0),
    };
    mask & implied != 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_low_bit_implies_its_parents() {
        for kind in [
            Kind::GROUP,
            Kind::COLL,
            Kind::P2P,
            Kind::GROUP_API,
            Kind::COLL_API,
            Kind::PROXY_OP,
        ] {
            assert!(wanted(0x10, kind), "ProxyStep implies {}", kind.name());
        }
        for kind in [
            Kind::KERNEL_CH,
            Kind::NET_PLUGIN,
            Kind::PROXY_CTRL,
            Kind::KERNEL_LAUNCH,
        ] {
            assert!(
                !wanted(0x10, kind),
                "ProxyStep does not imply {}",
                kind.name()
            );
        }
        assert!(wanted(0x800, Kind::GROUP_API) && !wanted(0x800, Kind::GROUP));
        assert!(wanted(0x8000, Kind::KERNEL_CH) && wanted(0x8000, Kind::COLL));
        assert!(wanted(0x2000, Kind::CE_COLL) && !wanted(0x2000, Kind::CE_BATCH));
        assert!(!wanted(0x2, Kind::P2P) && !wanted(0x40, Kind::PROXY_OP));
        assert!(!wanted(0, Kind::GROUP_API));
    }

    #[test]
    fn versions_know_their_kinds_and_states() {
        assert!(Version::V3.has_kind(Kind::KERNEL_CH) && !Version::V2.has_kind(Kind::KERNEL_CH));
        assert!(Version::V5.has_kind(Kind::GROUP_API) && !Version::V4.has_kind(Kind::GROUP_API));
        assert!(Version::V4.has_state(22) && !Version::V3.has_state(22));
        assert!(Version::V3.has_state(7) && !Version::V4.has_state(7));
        assert!(Version::V7.has_state(31) && !Version::V6.has_state(31));
        assert_eq!(Version::from_number(8), None);
        assert_eq!(Version::from_number(1), Some(Version::V1));
    }
}
