//! The properties of processes and locations (`docs/REFERENCE.md` §4).

use crate::carriers::{self, Carrier, Value};

/// A property of a definition. Each is a separate type, so that the compiler knows the type of its values.
pub trait DefinitionProperty {
    /// The name in the archive.
    const NAME: &'static str;
    /// How the property's values are stored.
    type Carrier: Carrier;
}

/// A property as name and value. `S` is the type of texts.
pub fn property<P: DefinitionProperty, S>(
    _: P,
    value: <P::Carrier as Carrier>::Written<S>,
) -> (&'static str, Value<S>) {
    (P::NAME, P::Carrier::put(value))
}

macro_rules! properties {
    ($($name:ident $text:literal $carrier:ident;)+) => {
        /// The names of all properties.
        pub const NAMES: &[&str] = &[$($text,)+];

        $(
            #[doc = concat!("`", $text, "`.")]
            #[derive(Clone, Copy, Debug)]
            pub struct $name;

            impl DefinitionProperty for $name {
                const NAME: &'static str = $text;
                type Carrier = carriers::$carrier;
            }
        )+
    };
}

properties! {
    ProcessId "NCCL::PROCESS_ID" Number;
    LauncherRank "NCCL::RANK" Number;
    ClockSource "NCCL::CLOCK::SOURCE" Word;
    ClockAnchors "NCCL::CLOCK::ANCHORS" Anchors;
    ClockRelation "NCCL::CLOCK::RELATION" Word;
    ClockReference "NCCL::CLOCK::REFERENCE" Word;
    ClockCorrection "NCCL::CLOCK::CORRECTION_NS" Long;
    ClockDrift "NCCL::CLOCK::DRIFT_PPB" Long;
    ClockViolations "NCCL::CLOCK::VIOLATIONS" Number;
    ClockWorstViolation "NCCL::CLOCK::WORST_VIOLATION_NS" Number;
    ClockUncertainty "NCCL::CLOCK::UNCERTAINTY_NS" Number;
    LocationKind "NCCL::LOCATION_KIND" KindOfLocation;
    RankLocation "NCCL::RANK_LOCATION" Place;
    ThreadId "NCCL::THREAD_ID" Number;
    StreamId "NCCL::STREAM_ID" Small;
    Sibling "NCCL::SIBLING" Small;
    GpuClockCalibration "NCCL::GPU_CLOCK::CALIBRATION" Word;
    GpuClockResidual "NCCL::GPU_CLOCK::RESIDUAL_NS" Number;
    GpuClockDrift "NCCL::GPU_CLOCK::DRIFT_PPB" Long;
    GpuClockLines "NCCL::GPU_CLOCK::LINES" Number;
    GpuClockBoundsBelow "NCCL::GPU_CLOCK::BOUNDS_BELOW" Number;
    GpuClockBoundsAbove "NCCL::GPU_CLOCK::BOUNDS_ABOVE" Number;
    GpuClockBoundsOfKernels "NCCL::GPU_CLOCK::BOUNDS_OF_KERNELS" Number;
    GpuPci "NCCL::GPU_PCI" Word;
    GraphRing "NCCL::GRAPH::RING" Word;
    GraphTree "NCCL::GRAPH::TREE" Word;
    GraphCollNetChain "NCCL::GRAPH::COLLNET_CHAIN" Word;
    GraphCollNetDirect "NCCL::GRAPH::COLLNET_DIRECT" Word;
    GraphNvls "NCCL::GRAPH::NVLS" Word;
    ConnectionChannel "NCCL::CHANNEL" Small;
    ConnectionPeer "NCCL::PEER" Small;
    ConnectionIsSend "NCCL::IS_SEND" Flag;
    Nic "NCCL::NIC" Word;
    NicPath "NCCL::NIC_PATH" Word;
    NicDevice "NCCL::NIC_DEVICE" Number;
    NicSpeed "NCCL::NIC_SPEED_MBPS" Number;
    NicGdr "NCCL::NIC_GDR" Flag;
    PciAddress "NCCL::PCI_ADDRESS" Word;
    PciPath "NCCL::PCI_PATH" Word;
    GpuCapability "NCCL::GPU_CAPABILITY" Small;
    GpuNvlinks "NCCL::GPU_NVLINKS" Small;
}
