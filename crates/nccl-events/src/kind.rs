//! Kinds of events by NCCL's numbers and names.

/// The event kinds, numbered by NCCL's own bit: `1 << kind` is the event type in the activation mask
/// (NCCL's `profiler_v7.h`: v1 has bits 0–5, v3 6–7, v5 8–11, v6 12–14, v7 15).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
#[expect(missing_docs, reason = "the names are NCCL's")]
pub enum Kind {
    Group = 0,
    Coll = 1,
    P2p = 2,
    ProxyOp = 3,
    ProxyStep = 4,
    ProxyCtrl = 5,
    KernelCh = 6,
    NetPlugin = 7,
    GroupApi = 8,
    CollApi = 9,
    P2pApi = 10,
    KernelLaunch = 11,
    CeColl = 12,
    CeSync = 13,
    CeBatch = 14,
    KernelPhase = 15,
    /// A type that this version of the plugin does not know: counted, not an error.
    Unknown = 16,
}

impl Kind {
    /// How many kinds there are, [`Kind::Unknown`] included.
    pub const COUNT: usize = 17;

    /// All kinds in the order of their numbers.
    pub const ALL: [Self; Self::COUNT] = [
        Self::Group,
        Self::Coll,
        Self::P2p,
        Self::ProxyOp,
        Self::ProxyStep,
        Self::ProxyCtrl,
        Self::KernelCh,
        Self::NetPlugin,
        Self::GroupApi,
        Self::CollApi,
        Self::P2pApi,
        Self::KernelLaunch,
        Self::CeColl,
        Self::CeSync,
        Self::CeBatch,
        Self::KernelPhase,
        Self::Unknown,
    ];

    /// The kind with this number.
    #[must_use]
    pub fn from_number(number: u8) -> Option<Self> {
        Self::ALL.get(usize::from(number)).copied()
    }

    /// NCCL's name without the prefix `ncclProfile`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Group => "Group",
            Self::Coll => "Coll",
            Self::P2p => "P2p",
            Self::ProxyOp => "ProxyOp",
            Self::ProxyStep => "ProxyStep",
            Self::ProxyCtrl => "ProxyCtrl",
            Self::KernelCh => "KernelCh",
            Self::NetPlugin => "NetPlugin",
            Self::GroupApi => "GroupApi",
            Self::CollApi => "CollApi",
            Self::P2pApi => "P2pApi",
            Self::KernelLaunch => "KernelLaunch",
            Self::CeColl => "CeColl",
            Self::CeSync => "CeSync",
            Self::CeBatch => "CeBatch",
            Self::KernelPhase => "KernelPhase",
            Self::Unknown => "Unknown",
        }
    }

    /// The bit in NCCL's activation mask; zero for [`Kind::Unknown`].
    #[must_use]
    pub const fn mask(self) -> u32 {
        match self {
            Self::Unknown => 0,
            kind => 1 << kind as u32,
        }
    }
}
