//! What the archive says of locations and regions for programs: the writer and readers share these names
//! (`docs/MAPPING.md` §1 and §2).
//!
//! A location says it in its properties. OTF2's regions have none, so a region says it in its canonical name:
//! `nccl::<class>::<kind of event>::<name>`, without the kind where the region shows no event. Only kernels keep the
//! name that the compiler gave them; they are the regions on locations of the kind `stream` that are no copies.

use crate::Kind;

macro_rules! named {
    ($($(#[$meta:meta])* $name:ident { $($(#[$doc:meta])* $variant:ident $text:literal,)+ })+) => {$(
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum $name {
            $($(#[$doc])* $variant,)+
        }

        impl $name {
            /// All, in order.
            pub const ALL: [Self; [$($text),+].len()] = [$(Self::$variant),+];

            /// The name in archives.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $text,)+
                }
            }

            /// The one of this name.
            pub fn parse(name: &str) -> Option<Self> {
                Self::ALL.into_iter().find(|it| it.name() == name)
            }
        }
    )+};
}

named! {
    /// What a location stands for.
    LocationKind {
        /// A thread that called NCCL.
        ApiThread "api-thread",
        /// A thread of CUDA's that calls host functions.
        CallbackThread "callback-thread",
        /// A proxy thread between transfers.
        ProxyThread "proxy-thread",
        /// A rank of a communicator.
        Communicator "communicator",
        /// A rank of a communicator that nobody recorded.
        NotRecorded "not-recorded",
        /// A CUDA stream.
        Stream "stream",
        /// A channel of a rank.
        Channel "channel",
        /// A network connection of a rank.
        Connection "connection",
        /// A slot of a network connection.
        Slot "slot",
        /// What the network plugin does for a slot.
        NetPlugin "net-plugin",
    }

    /// The classes of regions: names are unique within one.
    RegionClass {
        /// Calls of NCCL's interface.
        Api "call",
        /// Work inside a call: launch plans, enqueueing.
        Enqueue "enqueue",
        /// Kernel launches.
        Launch "launch",
        /// Collective and point-to-point operations as they ran.
        Operation "operation",
        /// Network transfers by the proxy.
        Network "transfer",
        /// Kernel channels.
        Channel "channel",
        /// States of proxy threads.
        Proxy "proxy",
        /// Kernels.
        Kernel "kernel",
        /// Copies by a GPU.
        Copy "copy",
    }

    /// What an operation's interval was measured by: attribute `nccl.timing`.
    Timing {
        /// Its kernel or copies, as CUPTI reports.
        Cupti "cupti",
        /// CUDA events around its launch.
        Event "event",
        /// Kernel channels on the GPU's timer.
        KernelChannel "kernelch",
        /// Kernel channels without GPU time: when the host heard of them.
        KernelChannelHost "kernelch-host",
        /// Kernel launch to last proxy operation.
        Proxy "proxy",
        /// Nothing of its own: while the other operations of its kernel ran.
        Kernel "shared-kernel",
        /// Only the enqueueing is known.
        Enqueue "enqueue",
    }
}

impl Timing {
    /// Whether it says how long an operation ran, not only how long something around it.
    pub const fn is_measured(self) -> bool {
        !matches!(self, Self::Enqueue | Self::Kernel)
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

/// The class of a region, and the kind of event that it shows, by its canonical name. `None` for kernels and for
/// regions of other writers.
pub fn parse_canonical_name(canonical: &str) -> Option<(RegionClass, Option<Kind>)> {
    let mut words = canonical.strip_prefix("nccl::")?.splitn(3, "::");
    let class = RegionClass::parse(words.next()?)?;
    let kind = words.next()?;
    let kinds = words.next().map(|_name| Kind::ALL.into_iter());
    let kind = kinds.and_then(|mut kinds| kinds.find(|known| known.name() == kind));
    Some((class, kind))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_lead_back_to_classes_and_kinds() {
        for class in RegionClass::ALL {
            for kind in Kind::ALL.into_iter().map(Some).chain([None]) {
                // A phase may be called `a::b`.
                for name in ["a name", "a::b"] {
                    let canonical = canonical_name(class, kind, name);
                    assert_eq!(parse_canonical_name(&canonical), Some((class, kind)), "{canonical}");
                }
            }
        }
        for other in ["MPI_Send", "_Z3foov", "nccl::Other::foo()", "nccl::call"] {
            assert_eq!(parse_canonical_name(other), None, "{other}");
        }
        for kind in LocationKind::ALL {
            assert_eq!(LocationKind::parse(kind.name()), Some(kind));
        }
    }
}
