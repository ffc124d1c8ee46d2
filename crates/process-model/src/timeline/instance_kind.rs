//! Which part of an event an instance shows.

use super::region::RegionKey;
use nccl_events::Kind;
use nccl_events::archive::RegionClass;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum InstanceKind {
    CommInit,
    CommFinalize,
    /// A call that NCCL turns into sends and receives.
    DerivedCall,
    Derived,
    /// An API call or launch, as the calling thread saw it.
    Call,
    /// A range or a mark of the program, or a call that only a range of NCCL's shows.
    Range,
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
    /// A proxy step without a reported state. The kinds of a step's phases are declared in the order the phases occur.
    Step,
    /// Sending step: the GPU has not filled the buffer yet.
    SendGpuWait,
    /// Sending step: the data is ready; the peer has not given credit yet.
    SendPeerWait,
    SendWait,
    /// Receiving step: the network has not delivered yet.
    RecvWait,
    /// Receiving step: the data is being flushed to GPU memory.
    RecvFlushWait,
    /// Receiving step: the GPU has not consumed the buffer yet.
    RecvGpuWait,
    /// A proxy thread ran out of work.
    ProxyIdle,
    ProxyActive,
    ProxySleep,
    ProxyWakeup,
    ProxyAppend,
    Phase,
    /// Work of a network plugin for a sending step.
    PluginSend,
    PluginReceive,
    Work,
}

impl InstanceKind {
    /// Whether the instance shows a proxy step or one of its phases.
    pub const fn is_step(self) -> bool {
        use InstanceKind::{RecvFlushWait, RecvGpuWait, RecvWait, SendGpuWait, SendPeerWait, SendWait, Step};
        matches!(self, Step | SendGpuWait | SendPeerWait | SendWait | RecvWait | RecvFlushWait | RecvGpuWait)
    }

    const fn is_control(self) -> bool {
        use InstanceKind::{ProxyActive, ProxyAppend, ProxyIdle, ProxySleep, ProxyWakeup};
        matches!(self, ProxyIdle | ProxyActive | ProxySleep | ProxyWakeup | ProxyAppend)
    }

    /// Whether the instance shows a part of an event, not the whole event.
    pub const fn is_part(self) -> bool {
        let is_other = matches!(self, Self::Queued | Self::GroupStart | Self::GroupEnd | Self::Phase);
        is_other || self.is_step() || self.is_control()
    }

    /// The region, if the kind alone determines it.
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
