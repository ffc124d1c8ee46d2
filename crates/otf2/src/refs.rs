//! Typed references: a region reference cannot be used as a location reference.

use std::fmt;

use otf2_sys as sys;

macro_rules! reference {
    ($($(#[$doc:meta])* $name:ident($raw:ty) undefined $undefined:path;)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name($raw);

        impl $name {
            /// OTF2's value for a reference to nothing.
            pub const UNDEFINED: Self = Self($undefined);

            /// The reference with this number.
            pub const fn new(number: $raw) -> Self {
                Self(number)
            }

            /// The number in the archive.
            pub const fn get(self) -> $raw {
                self.0
            }

            /// Whether the reference refers to anything.
            pub const fn is_defined(self) -> bool {
                self.0 != Self::UNDEFINED.0
            }
        }

        impl Default for $name {
            fn default() -> Self {
                Self::UNDEFINED
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                if self.is_defined() {
                    write!(f, concat!(stringify!($name), "({})"), self.0)
                } else {
                    write!(f, concat!(stringify!($name), "(UNDEFINED)"))
                }
            }
        }
    )*};
}

reference! {
    /// A string of the archive.
    StringRef(u32) undefined sys::OTF2_UNDEFINED_UINT32;
    /// A kind of attribute that events can carry.
    AttributeRef(u32) undefined sys::OTF2_UNDEFINED_UINT32;
    /// A node of the system tree: machine, host, and so on.
    SystemTreeNodeRef(u32) undefined sys::OTF2_UNDEFINED_UINT32;
    /// A group of locations: a process, or an accelerator of a process.
    LocationGroupRef(u32) undefined sys::OTF2_UNDEFINED_UINT32;
    /// A location: one chronological sequence of events, one row of a timeline.
    LocationRef(u64) undefined sys::OTF2_UNDEFINED_UINT64;
    /// A region of the program, entered and left.
    RegionRef(u32) undefined sys::OTF2_UNDEFINED_UINT32;
    /// A group of locations, ranks, regions or metrics.
    GroupRef(u32) undefined sys::OTF2_UNDEFINED_UINT32;
    /// A communicator.
    CommRef(u32) undefined sys::OTF2_UNDEFINED_UINT32;
    /// A window of remote memory access.
    RmaWinRef(u32) undefined sys::OTF2_UNDEFINED_UINT32;
    /// One value of a metric class.
    MetricMemberRef(u32) undefined sys::OTF2_UNDEFINED_UINT32;
    /// A metric class or a metric instance, which share their numbers.
    MetricRef(u32) undefined sys::OTF2_UNDEFINED_UINT32;
    /// A parameter of a region.
    ParameterRef(u32) undefined sys::OTF2_UNDEFINED_UINT32;
    /// A place in the source code.
    SourceCodeLocationRef(u32) undefined sys::OTF2_UNDEFINED_UINT32;
    /// A node of a call tree, as sampling finds it.
    CallingContextRef(u32) undefined sys::OTF2_UNDEFINED_UINT32;
    /// A source of interrupts for sampling.
    InterruptGeneratorRef(u32) undefined sys::OTF2_UNDEFINED_UINT32;
    /// A node of a call tree.
    CallpathRef(u32) undefined sys::OTF2_UNDEFINED_UINT32;
    /// A place where a region is entered.
    CallsiteRef(u32) undefined sys::OTF2_UNDEFINED_UINT32;
    /// A dimension of a topology.
    CartDimensionRef(u32) undefined sys::OTF2_UNDEFINED_UINT32;
    /// A topology of the ranks of a communicator.
    CartTopologyRef(u32) undefined sys::OTF2_UNDEFINED_UINT32;
    /// An interface to files.
    IoParadigmRef(u8) undefined sys::OTF2_UNDEFINED_UINT8;
    /// A file or directory.
    IoFileRef(u32) undefined sys::OTF2_UNDEFINED_UINT32;
    /// An open file.
    IoHandleRef(u32) undefined sys::OTF2_UNDEFINED_UINT32;
}
