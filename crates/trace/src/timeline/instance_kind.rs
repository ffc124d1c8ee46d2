//! Which part of an event is shown, and what the parts are like.

use super::region::RegionKey;
use nccl_events::Kind;
use nccl_events::archive::RegionClass;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum InstanceKind {
    CommInit,
    CommFinalize,
    /// A call that NCCL makes into sends and receives.
    DerivedCall,
    Derived,
    /// An API call or launch, as the calling thread saw it.
    Call,
    /// `ncclGroupStart` inside a GroupApi.
    GroupStart,
    /// `ncclGroupEnd` inside a GroupApi.
    GroupEnd,
    /// The enqueueing of a Coll, P2p or CeColl.
    Enqueue,
    Operation,
    Net,
    /// The beginning of a proxy operation, before it makes progress.
    Queued,
    Channel,
    /// A proxy step of which NCCL reported no state. Phases of one step are in the order they come in.
    Step,
    /// A step to send: the GPU has not filled the buffer yet.
    SendGpuWait,
    /// The data is there; the peer gives no credit yet.
    SendPeerWait,
    SendWait,
    /// A step to receive: the network has not delivered yet.
    RecvWait,
    /// The data is being flushed to the GPU's memory.
    RecvFlushWait,
    /// The GPU has not consumed the buffer yet.
    RecvGpuWait,
    /// A proxy thread ran out of work.
    ProxyIdle,
    ProxyActive,
    ProxySleep,
    ProxyWakeup,
    ProxyAppend,
    Phase,
    /// What a network plugin does for a step that sends.
    PluginSend,
    PluginReceive,
    Work,
}

/// A set of [`InstanceKind`]s: bit n is kind n.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct InstanceKinds(u32);

impl InstanceKinds {
    const fn of(shapes: &[InstanceKind]) -> Self {
        let mut bits = 0;
        let mut left = shapes;
        while let [first, others @ ..] = left {
            bits |= 1 << *first as u32;
            left = others;
        }
        Self(bits)
    }

    const fn with(self, others: Self) -> Self {
        Self(self.0 | others.0)
    }

    pub(crate) const fn has(self, kind: InstanceKind) -> bool {
        self.0 & 1 << kind as u32 != 0
    }
}

pub(crate) const STEPS: InstanceKinds = InstanceKinds::of(&[
    InstanceKind::Step,
    InstanceKind::SendGpuWait,
    InstanceKind::SendPeerWait,
    InstanceKind::SendWait,
    InstanceKind::RecvWait,
    InstanceKind::RecvFlushWait,
    InstanceKind::RecvGpuWait,
]);

pub(crate) const CONTROLS: InstanceKinds = InstanceKinds::of(&[
    InstanceKind::ProxyIdle,
    InstanceKind::ProxyActive,
    InstanceKind::ProxySleep,
    InstanceKind::ProxyWakeup,
    InstanceKind::ProxyAppend,
]);

/// What does not stand for an event, but for a part of one.
pub(crate) const PARTS: InstanceKinds = STEPS.with(CONTROLS).with(InstanceKinds::of(&[
    InstanceKind::Queued,
    InstanceKind::GroupStart,
    InstanceKind::GroupEnd,
    InstanceKind::Phase,
]));

impl InstanceKind {
    /// The region, where the kind alone decides it.
    pub(crate) const fn region(self) -> Option<RegionKey> {
        let (class, name) = match self {
            Self::CommInit => (RegionClass::Api, "ncclCommInitRank"),
            Self::CommFinalize => (RegionClass::Api, "ncclCommDestroy"),
            Self::GroupStart => (RegionClass::Api, "ncclGroupStart"),
            Self::GroupEnd => (RegionClass::Api, "ncclGroupEnd"),
            Self::Queued => (RegionClass::Network, "queued"),
            Self::Channel => (RegionClass::Channel, "ncclKernelChannel"),
            Self::Step => (RegionClass::Network, "ProxyStep"),
            Self::SendGpuWait => (RegionClass::Network, "SendGPUWait"),
            Self::SendPeerWait => (RegionClass::Network, "SendPeerWait"),
            Self::SendWait => (RegionClass::Network, "SendWait"),
            Self::RecvWait => (RegionClass::Network, "RecvWait"),
            Self::RecvFlushWait => (RegionClass::Network, "RecvFlushWait"),
            Self::RecvGpuWait => (RegionClass::Network, "RecvGPUWait"),
            Self::ProxyIdle => (RegionClass::Proxy, "ProxyIdle"),
            Self::ProxyActive => (RegionClass::Proxy, "ProxyActive"),
            Self::ProxySleep => (RegionClass::Proxy, "ProxySleep"),
            Self::ProxyWakeup => (RegionClass::Proxy, "ProxyWakeup"),
            Self::ProxyAppend => (RegionClass::Proxy, "ProxyAppend"),
            _ => return None,
        };
        let key = RegionKey::fixed(class, name);
        Some(match self {
            Self::Channel => key.showing(Kind::KernelCh),
            _ if STEPS.has(self) => key.showing(Kind::ProxyStep),
            _ if CONTROLS.has(self) => key.showing(Kind::ProxyCtrl),
            _ => key,
        })
    }
}
