//! The properties of processes and locations (`docs/REFERENCE.md` §4).

use crate::carriers::{self, Carrier, Value};

/// A property of a definition: a type of its own, so that the compiler knows the type of its values.
pub trait DefinitionProperty {
    /// The name in the archive.
    const NAME: &'static str;
    /// The type of its values.
    type Carrier: Carrier;
}

/// A property with its value, with texts of the type `S`.
pub fn property<P: DefinitionProperty, S>(_: P, given: <P::Carrier as Carrier>::Given<S>) -> (&'static str, Value<S>) {
    (P::NAME, P::Carrier::put(given))
}

macro_rules! properties {
    ($($(#[doc = $doc:literal])+ $name:ident $text:literal $carrier:ident;)+) => {
        /// The names of all.
        pub const NAMES: &[&str] = &[$($text,)+];

        $(
            $(#[doc = $doc])+
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
    /// Process: the number that the system gave to it.
    ProcessId "NCCL::PROCESS_ID" Number;
    /// Process: the number that the launcher gave to it.
    LauncherRank "NCCL::RANK" Number;
    /// Process: which counter its ticks are.
    ClockSource "NCCL::CLOCK::SOURCE" Word;
    /// Process: what its clocks showed at the same moments.
    ClockAnchors "NCCL::CLOCK::ANCHORS" Anchors;
    /// Process, with several hosts: how its clock was brought onto the common one.
    ClockRelation "NCCL::CLOCK::RELATION" Word;
    /// Process, with several hosts: the host whose clock it is on.
    ClockReference "NCCL::CLOCK::REFERENCE" Word;
    /// Process, with several hosts: what is added at the first clock offset.
    ClockCorrection "NCCL::CLOCK::CORRECTION_NS" Long;
    /// Process, with several hosts: the mean drift that is corrected.
    ClockDrift "NCCL::CLOCK::DRIFT_PPB" Long;
    /// Process, with several hosts: constraints of its host that do not hold.
    ClockViolations "NCCL::CLOCK::VIOLATIONS" Number;
    /// Process, with several hosts: by how much at most.
    ClockWorstViolation "NCCL::CLOCK::WORST_VIOLATION_NS" Number;
    /// Process, with several hosts: how far its clock, of host and ticks, can be off the common one.
    ClockUncertainty "NCCL::CLOCK::UNCERTAINTY_NS" Number;
    /// Location: what it stands for.
    LocationKind "NCCL::LOCATION_KIND" KindOfLocation;
    /// Location that belongs to a rank of a communicator: the member of the communicator for that rank.
    RankLocation "NCCL::RANK_LOCATION" Place;
    /// Location of a thread: the number that the system gave to it, where it is known.
    ThreadId "NCCL::THREAD_ID" Number;
    /// Location of a stream: CUPTI's number of it.
    StreamId "NCCL::STREAM_ID" Small;
    /// Location with what overlaps on another one of the same kind: 2 for the first of these.
    Sibling "NCCL::SIBLING" Small;
    /// Location with GPU times: how its clock was found.
    GpuClockCalibration "NCCL::GPU_CLOCK::CALIBRATION" Word;
    /// Location with GPU times: how far bounds are from its clock.
    GpuClockResidual "NCCL::GPU_CLOCK::RESIDUAL_NS" Number;
    /// Location with GPU times: the drift of its clock.
    GpuClockDrift "NCCL::GPU_CLOCK::DRIFT_PPB" Long;
    /// Location with GPU times: the straight pieces of its clock.
    GpuClockLines "NCCL::GPU_CLOCK::LINES" Number;
    /// Location with GPU times: bounds from below.
    GpuClockBoundsBelow "NCCL::GPU_CLOCK::BOUNDS_BELOW" Number;
    /// Location with GPU times: bounds from above.
    GpuClockBoundsAbove "NCCL::GPU_CLOCK::BOUNDS_ABOVE" Number;
    /// Location with GPU times: bounds that are kernel times.
    GpuClockBoundsOfKernels "NCCL::GPU_CLOCK::BOUNDS_OF_KERNELS" Number;
}
