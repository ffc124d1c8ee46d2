//! Which part of an event is shown, and what the parts are like.

use super::region::RegionKey;
use nccl_events::Kind;
use nccl_events::archive::RegionClass;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum InstanceKind {
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

impl InstanceKind {
    /// Whether it is a proxy step, or what one waits for.
    pub const fn is_step(self) -> bool {
        use InstanceKind::{RecvFlushWait, RecvGpuWait, RecvWait, SendGpuWait, SendPeerWait, SendWait, Step};
        matches!(self, Step | SendGpuWait | SendPeerWait | SendWait | RecvWait | RecvFlushWait | RecvGpuWait)
    }

    const fn is_control(self) -> bool {
        use InstanceKind::{ProxyActive, ProxyAppend, ProxyIdle, ProxySleep, ProxyWakeup};
        matches!(self, ProxyIdle | ProxyActive | ProxySleep | ProxyWakeup | ProxyAppend)
    }

    /// Whether it stands for a part of an event, not for the event.
    pub const fn is_part(self) -> bool {
        let is_other = matches!(self, Self::Queued | Self::GroupStart | Self::GroupEnd | Self::Phase);
        is_other || self.is_step() || self.is_control()
    }

    /// The region, where the kind alone decides it.
    pub const fn region(self) -> Option<RegionKey> {
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
            _ if self.is_step() => key.showing(Kind::ProxyStep),
            _ if self.is_control() => key.showing(Kind::ProxyCtrl),
            _ => key,
        })
    }
}
