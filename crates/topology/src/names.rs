//! Names and numbers of NCCL.

macro_rules! named {
    ($(#[doc = $doc:literal] $type:ident { $(#[doc = $of:literal] $name:ident $number:literal $text:literal;)+ })+) => {$(
        #[doc = $doc]
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub enum $type {
            $(#[doc = $of] $name,)+
        }

        impl $type {
            /// All values.
            pub const ALL: &[Self] = &[$(Self::$name),+];

            /// The name in archives.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$name => $text,)+ }
            }

            /// NCCL's number.
            pub const fn number(self) -> u32 {
                match self { $(Self::$name => $number,)+ }
            }

            /// The value with this name.
            pub fn named(name: &str) -> Option<Self> {
                Self::ALL.iter().copied().find(|it| it.name() == name)
            }
        }
    )+};
}

named! {
    /// What a graph is for.
    GraphKind {
        /// Rings.
        Ring 0 "RING";
        /// Trees.
        Tree 1 "TREE";
        /// Chains to a network that reduces.
        CollNetChain 2 "COLLNET_CHAIN";
        /// Switches of NVLink that reduce.
        Nvls 3 "NVLS";
        /// A network that reduces, reached from all GPUs.
        CollNetDirect 4 "COLLNET_DIRECT";
    }

    /// An algorithm of collectives.
    Algorithm {
        /// Trees.
        Tree 0 "TREE";
        /// Rings.
        Ring 1 "RING";
        /// A network that reduces, reached from all GPUs.
        CollNetDirect 2 "COLLNET_DIRECT";
        /// A network that reduces, reached by chains.
        CollNetChain 3 "COLLNET_CHAIN";
        /// Switches of NVLink that reduce.
        Nvls 4 "NVLS";
        /// These within hosts, and trees between them.
        NvlsTree 5 "NVLS_TREE";
        /// Parallel aggregated trees.
        Pat 6 "PAT";
    }

    /// A protocol, by which data and flags are written.
    Protocol {
        /// Four bytes of data, four of a flag.
        Ll 0 "LL";
        /// 120 bytes of data, eight of a flag.
        Ll128 1 "LL128";
        /// Data, then one flag.
        Simple 2 "SIMPLE";
    }

    /// The longest kind of way between two devices, from near to far.
    PathType {
        /// The device itself.
        Loc 0 "LOC";
        /// NVLink.
        Nvl 1 "NVL";
        /// NVLink by another GPU.
        Nvb 2 "NVB";
        /// NVLink between GPU and processor.
        C2c 3 "C2C";
        /// One PCI bridge.
        Pix 4 "PIX";
        /// Several PCI bridges.
        Pxb 5 "PXB";
        /// The processor, reached by NVLink, then its PCI bus.
        P2c 6 "P2C";
        /// The network interface of another GPU, reached by NVLink.
        Pxn 7 "PXN";
        /// The PCI bridge of a processor.
        Phb 8 "PHB";
        /// The connection between processors.
        Sys 9 "SYS";
        /// The network.
        Net 10 "NET";
        /// None.
        Dis 11 "DIS";
    }
}

impl Algorithm {
    /// The graph that it uses.
    pub const fn graph(self) -> GraphKind {
        match self {
            Self::Ring | Self::Pat => GraphKind::Ring,
            Self::Tree => GraphKind::Tree,
            Self::CollNetDirect => GraphKind::CollNetDirect,
            Self::CollNetChain => GraphKind::CollNetChain,
            Self::Nvls | Self::NvlsTree => GraphKind::Nvls,
        }
    }
}
