//! The properties of processes and locations (`docs/REFERENCE.md` §4), and the cutting of an archive's properties to a
//! size that fits into OTF2's anchor file.

use crate::schema::carriers;
use crate::schema::carriers::{Carrier, Value};
use crate::schema::statements::{Grammar as _, Lines, Property};

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
    LauncherSize "NCCL::RANKS" Number;
    Release "NCCL::RELEASE" Word;
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
    CommId "NCCL::COMM_ID" Word;
    ThreadId "NCCL::THREAD_ID" Number;
    StreamId "NCCL::STREAM_ID" Small;
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
    ChannelNics "NCCL::CHANNEL_NICS" Word;
    NicDevice "NCCL::NIC_DEVICE" Number;
    NicSpeed "NCCL::NIC_SPEED_MBPS" Number;
    NicGdr "NCCL::NIC_GDR" Flag;
    PciAddress "NCCL::PCI_ADDRESS" Word;
    PciPath "NCCL::PCI_PATH" Word;
    GpuCapability "NCCL::GPU_CAPABILITY" Small;
    GpuNvlinks "NCCL::GPU_NVLINKS" Small;
}

/// OTF2's anchor is one chunk of 256 KiB for all properties; the rest is for names and the anchor's own numbers.
const MOST_BYTES: usize = 200 << 10;
/// The limit on a list is not halved again below this size, so that lists keep at least half of it.
const SHORT_BYTES: usize = 12 << 10;

/// Cuts the longest lists until all properties together fit. The last line of a cut list says how many are missing.
pub fn within_anchor(mut properties: Vec<Property>) -> Vec<Property> {
    let mut longest = MOST_BYTES;
    loop {
        let lengths = properties.iter().map(|(name, value)| name.len() + value.len());
        if lengths.sum::<usize>() <= MOST_BYTES || longest < SHORT_BYTES {
            return properties;
        }
        longest /= 2;
        for (_, value) in properties.iter_mut().filter(|(_, value)| value.len() > longest) {
            if let Some(mut lines) = Lines::parse(value) {
                lines.cut(longest);
                *value = lines.text();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_lists_are_cut_until_the_anchor_can_take_all() {
        let names: Vec<String> = (0..20_000).map(|n| format!("host-{n}-1234567890")).collect();
        let entry = |name: &str, lines: &[String]| (name.to_owned(), lines.join("\n"));
        let all = vec![entry("NCCL::A", &names[..20]), entry("NCCL::PARTS", &names), entry("NCCL::B", &names[..9000])];
        let cut = within_anchor(all.clone());
        let bytes: usize = cut.iter().map(|(name, value)| name.len() + value.len()).sum();
        assert!(bytes <= MOST_BYTES && bytes > MOST_BYTES / 4, "{bytes}");
        assert_eq!(cut[0], all[0]);
        for ((name, value), (_, before)) in cut.iter().zip(&all).skip(1) {
            let (kept, last) = value.rsplit_once('\n').expect("lines");
            let more = last.strip_prefix("and more: ").expect("says how many are missing");
            let more: usize = more.parse().expect("a number");
            assert_eq!(kept.lines().count() + more, before.lines().count(), "{name}");
            assert!(before.starts_with(kept), "{name}");
        }
        assert_eq!(within_anchor(all[..1].to_vec()), all[..1]);
    }
}
