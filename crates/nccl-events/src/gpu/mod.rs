//! What the journal says of GPUs. Times are on a clock of the GPU's ([`GpuClock`]); samples of that clock against
//! ticks are recorded beside them, and the writing half turns them into time.
//!
//! `N` is a string: a [`crate::Name`] on the way in, a symbol of the journal on the way out.
#![expect(missing_docs, reason = "the fields are CUDA's and CUPTI's; ids of devices are CUDA's ordinals")]

mod count;

pub use count::GpuCount;

use crate::event::packed::packed;
use crate::event::{Field, Value, Word};

/// A clock that times of GPU records are on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum GpuClock {
    /// `cuptiGetTimestamp`: one for all devices of the process.
    Cupti = 0,
    /// Nanoseconds since the first reference event of the device (`cuEventElapsedTime`): one for each device.
    Events = 1,
}

impl GpuClock {
    /// The clock with this number.
    pub const fn from_number(number: u8) -> Option<Self> {
        match number {
            0 => Some(Self::Cupti),
            1 => Some(Self::Events),
            _ => None,
        }
    }
}

impl<S> From<GpuClock> for Value<S> {
    fn from(clock: GpuClock) -> Self {
        Self::Text(match clock {
            GpuClock::Cupti => "cupti",
            GpuClock::Events => "events",
        })
    }
}

impl Field for GpuClock {
    #[inline(always)]
    fn put(self, words: &mut [u64], at: usize, shift: u32) {
        (self as u8).put(words, at, shift);
    }

    #[inline(always)]
    fn take(words: &[Word], at: usize, shift: u32) -> Option<Self> {
        Self::from_number(u8::take(words, at, shift)?)
    }
}

/// How times of GPU work are found out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Backend {
    /// Not at all.
    Off = 0,
    /// By CUPTI's activity records.
    Cupti = 1,
    /// By CUDA events around launches.
    Events = 2,
}

impl Backend {
    /// The way with this number.
    pub const fn from_number(number: u8) -> Option<Self> {
        match number {
            0 => Some(Self::Off),
            1 => Some(Self::Cupti),
            2 => Some(Self::Events),
            _ => None,
        }
    }

    /// As it is called in `NCCL_OTF2_GPU` and in archives.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::Cupti => "cupti",
            Self::Events => "events",
        }
    }
}

/// All devices, where a record is about no single one.
pub const ALL_DEVICES: u32 = u32::MAX;

/// A record about GPUs. What the record's id is stands with each.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum GpuRecord<N> {
    /// A device of this process. No id.
    Device(Device<N>),
    /// Which device a communicator's rank uses, by its ordinal. The id is the communicator's context.
    DeviceOfCommunicator { ordinal: u32 },
    /// What a clock showed; the record's ticks are the middle of when it was asked. No id.
    Clock(ClockSample),
    /// A kernel ran. The id is the external correlation id: the event id of the launch, 0 for none.
    Kernel(Kernel<N>),
    /// A copy engine copied. The id as with kernels: the event id of the launch or the copy-engine collective.
    Copy(Copy),
    /// When what a launch enqueued ran, by CUDA events. The id is the launch's event id.
    LaunchTime(LaunchTime),
    /// What was decided on how GPUs are recorded, or what went wrong: a line for people. No id.
    Notice {
        /// The way from here on.
        backend: Backend,
        text: N,
    },
    /// Running totals; the last record of the process counts. No id.
    Counts([u64; GpuCount::COUNT]),
}

packed! {
    /// A device, by `cuDeviceGet…`.
    Device<S>, 6 words {
        /// CUDA's ordinal in this process, after `CUDA_VISIBLE_DEVICES`.
        ordinal: u32 [0 0] "ordinal",
        name: S [5 0] "name",
        /// `cuDeviceGetUuid_v2`: of the MIG instance where it is one. Zero when not known.
        uuid: [u8; 16] [1 0] "uuid",
        pci_domain: u32 [3 0] "pciDomain",
        pci_bus: u8 [3 32] "pciBus",
        pci_device: u8 [3 40] "pciDevice",
        is_mig: bool [flag] "isMig",
        /// `cuDriverGetVersion`, 12080 for CUDA 12.8; 0 when not known.
        driver_version: u32 [0 32] "driverVersion",
        compute_capability: [u16; 2] [4 0] "computeCapability",
        multiprocessors: u32 [4 32] "multiprocessors",
    }
}

packed! {
    /// What a clock showed at the record's ticks.
    ClockSample, 3 words {
        clock: GpuClock [0 0] "clock",
        /// Whose, by ordinal, or [`ALL_DEVICES`].
        ordinal: u32 [0 32] "ordinal",
        gpu_ns: u64 [1 0] "gpuNs",
        /// It showed that at most this many ticks before or after the record's.
        uncertainty_ticks: u64 [2 0] "uncertaintyTicks",
    }
}

packed! {
    /// A kernel, as CUPTI reports it. Times on [`GpuClock::Cupti`].
    #[derive(Default)]
    Kernel<S>, 11 words {
        /// Mangled, as CUPTI gives it.
        name: S [8 0] "name",
        device: u32 [0 32] "device",
        context: u32 [1 0] "context",
        stream: u32 [1 32] "stream",
        correlation: u32 [0 0] "corrId",
        start_ns: u64 [2 0] "startNs",
        end_ns: u64 [3 0] "endNs",
        grid: [u32; 3] [4 0] "grid",
        block: [u32; 3] [5 32] "block",
        registers_per_thread: u16 [8 16] "registers",
        static_shared_bytes: u32 [7 0] "staticSharedBytes",
        dynamic_shared_bytes: u32 [7 32] "dynamicSharedBytes",
        /// 0 outside of graphs.
        graph: u32 [8 32] "graph" rare,
        /// 0 outside of graphs.
        graph_node: u64 [9 0] "graphNode" rare,
        /// The captured node, of which `graph_node` is a clone; 0 where CUPTI does not report it (before 13.4).
        source_graph_node: u64 [10 0] "sourceGraphNode" rare,
    }
}

packed! {
    /// A copy, as CUPTI reports it. Times on [`GpuClock::Cupti`].
    #[derive(Default)]
    Copy, 8 words {
        /// `CUpti_ActivityMemcpyKind`.
        kind: u8 [5 0] "kind",
        bytes: u64 [4 0] "bytes",
        device: u32 [0 32] "device",
        context: u32 [1 0] "context",
        stream: u32 [1 32] "stream",
        correlation: u32 [0 0] "corrId",
        start_ns: u64 [2 0] "startNs",
        end_ns: u64 [3 0] "endNs",
        /// `CUpti_ActivityMemoryKind`.
        source_kind: u8 [5 8] "sourceKind",
        /// `CUpti_ActivityMemoryKind`.
        destination_kind: u8 [5 16] "destinationKind",
        /// The device copied from, where both ends are known; else `device`.
        source_device: u32 [7 0] "sourceDevice",
        /// The device copied to, where both ends are known; else `device`.
        destination_device: u32 [7 32] "destinationDevice",
        /// How many copies of a batch; 1 for a single one.
        count: u32 [5 32] "count",
        /// 0 outside of graphs.
        graph_node: u64 [6 0] "graphNode" rare,
    }
}

packed! {
    /// When what a launch enqueued ran, by CUDA events before and behind it. Times on [`GpuClock::Events`].
    LaunchTime, 4 words {
        ordinal: u32 [0 0] "ordinal",
        /// The stream's handle, as in the launch.
        stream: u64 [1 0] "stream" address,
        /// When the stream reached the launch.
        start_ns: u64 [2 0] "startNs",
        /// When it was through with it.
        end_ns: u64 [3 0] "endNs",
        /// Both times may be off by this much: the resolution of `cuEventElapsedTime`, a 32-bit float of milliseconds.
        uncertainty_ns: u32 [0 32] "uncertaintyNs",
    }
}

/// A kernel's grid or block, as CUDA writes it.
pub fn extent([x, y, z]: [u32; 3]) -> String {
    format!("{x},{y},{z}")
}

/// Whether a kernel is NCCL's, by its mangled name: what graphs replay has no other sign.
pub fn is_of_nccl(mangled: &str) -> bool {
    const NAMES: [&str; 3] = ["ncclDevKernel", "ncclSymkDevKernel", "oneRankReduce"];
    NAMES.iter().any(|name| mangled.contains(name))
}
