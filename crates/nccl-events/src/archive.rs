//! What the archive says of locations and regions for programs: the writer and readers share these names
//! (`docs/MAPPING.md` §1 and §2).
//!
//! A location says it in its properties. OTF2's regions have none, so a region says it in its canonical name:
//! `nccl::<class>::<kind of event>::<name>`, without the kind where the region shows no event. Only kernels keep the
//! name that the compiler gave them; they are the regions on locations of the kind `stream` that are no copies.

use crate::Kind;

/// What a location stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum LocationKind {
    /// A thread that called NCCL.
    ApiThread,
    /// A thread of CUDA's that calls host functions.
    CallbackThread,
    /// A proxy thread between transfers.
    ProxyThread,
    /// A rank of a communicator.
    Communicator,
    /// A rank of a communicator that nobody recorded.
    NotRecorded,
    /// A CUDA stream.
    Stream,
    /// A channel of a rank.
    Channel,
    /// A network connection of a rank.
    Connection,
    /// A slot of a network connection.
    Slot,
    /// What the network plugin does for a slot.
    NetPlugin,
}

impl LocationKind {
    const ALL: [(Self, &'static str); 10] = [
        (Self::ApiThread, "api-thread"),
        (Self::CallbackThread, "callback-thread"),
        (Self::ProxyThread, "proxy-thread"),
        (Self::Communicator, "communicator"),
        (Self::NotRecorded, "not-recorded"),
        (Self::Stream, "stream"),
        (Self::Channel, "channel"),
        (Self::Connection, "connection"),
        (Self::Slot, "slot"),
        (Self::NetPlugin, "net-plugin"),
    ];

    /// The value of the property.
    pub fn name(self) -> &'static str {
        let found = Self::ALL.iter().find(|(kind, _)| *kind == self);
        found.map_or("", |(_, name)| name)
    }

    /// The kind of this name.
    pub fn parse(name: &str) -> Option<Self> {
        let found = Self::ALL.iter().find(|(_, known)| *known == name);
        found.map(|(kind, _)| *kind)
    }
}

/// The classes of regions: names are unique within one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RegionClass {
    /// Calls of NCCL's interface.
    Api,
    /// Work inside a call: launch plans, enqueueing.
    Enqueue,
    /// Kernel launches.
    Launch,
    /// Collective and point-to-point operations as they ran.
    Operation,
    /// Network transfers by the proxy.
    Network,
    /// Kernel channels.
    Channel,
    /// States of proxy threads.
    Proxy,
    /// Kernels.
    Kernel,
    /// Copies by a GPU.
    Copy,
}

impl RegionClass {
    const ALL: [(Self, &'static str); 9] = [
        (Self::Api, "call"),
        (Self::Enqueue, "enqueue"),
        (Self::Launch, "launch"),
        (Self::Operation, "operation"),
        (Self::Network, "transfer"),
        (Self::Channel, "channel"),
        (Self::Proxy, "proxy"),
        (Self::Kernel, "kernel"),
        (Self::Copy, "copy"),
    ];

    /// Its name in canonical names.
    pub fn name(self) -> &'static str {
        let found = Self::ALL.iter().find(|(class, _)| *class == self);
        found.map_or("", |(_, name)| name)
    }
}

/// The canonical name of a region that is no kernel.
pub fn canonical_name(class: RegionClass, kind: Option<Kind>, name: &str) -> String {
    let class = class.name();
    match kind {
        Some(kind) => format!("nccl::{class}::{}::{name}", kind.name()),
        None => format!("nccl::{class}::{name}"),
    }
}

/// The class of a region, and the kind of event that it shows, by its canonical name; none of kernels and of regions of
/// other writers.
pub fn parse_canonical_name(canonical: &str) -> Option<(RegionClass, Option<Kind>)> {
    let mut words = canonical.strip_prefix("nccl::")?.splitn(3, "::");
    let class = words.next()?;
    let (class, _) = RegionClass::ALL.iter().find(|(_, known)| *known == class)?;
    let kind = words.next()?;
    let kinds = words.next().map(|_name| Kind::ALL.into_iter());
    let kind = kinds.and_then(|mut kinds| kinds.find(|known| known.name() == kind));
    Some((*class, kind))
}

/// What an operation's interval was measured by: attribute `nccl.timing`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Timing {
    /// Its kernel or copies, as CUPTI reports.
    Cupti,
    /// CUDA events around its launch.
    Event,
    /// Kernel channels on the GPU's timer.
    KernelChannel,
    /// Kernel channels without GPU time: when the host heard of them.
    KernelChannelHost,
    /// Kernel launch to last proxy operation.
    Proxy,
    /// Nothing of its own: while the other operations of its kernel ran.
    Kernel,
    /// Only the enqueueing is known.
    Enqueue,
}

impl Timing {
    /// All, in order.
    pub const ALL: [Self; 7] = [
        Self::Cupti,
        Self::Event,
        Self::KernelChannel,
        Self::KernelChannelHost,
        Self::Proxy,
        Self::Kernel,
        Self::Enqueue,
    ];

    /// The attribute's value.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Cupti => "cupti",
            Self::Event => "event",
            Self::KernelChannel => "kernelch",
            Self::KernelChannelHost => "kernelch-host",
            Self::Proxy => "proxy",
            Self::Kernel => "shared-kernel",
            Self::Enqueue => "enqueue",
        }
    }

    /// What has this name.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|timing| timing.name() == name)
    }

    /// Whether it says how long an operation ran, not only how long something around it.
    pub const fn is_measured(self) -> bool {
        !matches!(self, Self::Enqueue | Self::Kernel)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_lead_back_to_classes_and_kinds() {
        for (class, name) in RegionClass::ALL {
            assert_eq!(class.name(), name);
            for kind in Kind::ALL.into_iter().map(Some).chain([None]) {
                let canonical = canonical_name(class, kind, "a name");
                assert_eq!(parse_canonical_name(&canonical), Some((class, kind)), "{canonical}");
            }
        }
        // A phase that NCCL calls so.
        let canonical = canonical_name(RegionClass::Channel, Some(Kind::KernelPhase), "a::b");
        assert_eq!(parse_canonical_name(&canonical), Some((RegionClass::Channel, Some(Kind::KernelPhase))));
        for other in ["MPI_Send", "_Z3foov", "nccl::Other::foo()", "nccl::call"] {
            assert_eq!(parse_canonical_name(other), None, "{other}");
        }
        for (kind, name) in LocationKind::ALL {
            assert_eq!((kind.name(), LocationKind::parse(name)), (name, Some(kind)));
        }
    }
}
