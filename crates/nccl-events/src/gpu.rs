//! Records about GPUs in the journal, and the counters about GPUs. Times are on a GPU clock ([`GpuClock`]). The journal
//! also has samples of these clocks against ticks, from which archives get the time.
//!
//! `N` is a string: a [`crate::Name`] when recording, a symbol of the journal when reading.

#![expect(missing_docs, reason = "the fields are CUDA's and CUPTI's; ids of devices are CUDA's ordinals")]

use crate::event::declare::{Field, Value, Word, packed};

/// A clock for the times in GPU records.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum GpuClock {
    /// `cuptiGetTimestamp`: one clock for all devices of the process.
    Cupti = 0,
    /// Nanoseconds since the device's first reference event (`cuEventElapsedTime`): one clock per device.
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

/// The method by which times of GPU work are measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Backend {
    /// Not measured.
    Off = 0,
    /// By CUPTI's activity records.
    Cupti = 1,
    /// By CUDA events around launches.
    Events = 2,
}

impl Backend {
    /// The method with this number.
    pub const fn from_number(number: u8) -> Option<Self> {
        match number {
            0 => Some(Self::Off),
            1 => Some(Self::Cupti),
            2 => Some(Self::Events),
            _ => None,
        }
    }

    /// The name in `NCCL_OTF2_GPU` and in archives.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::Cupti => "cupti",
            Self::Events => "events",
        }
    }
}

/// Ordinal of records that apply to all devices.
pub const ALL_DEVICES: u32 = u32::MAX;

/// A record about GPUs. Each variant defines the meaning of the record's id.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum GpuRecord<N> {
    /// A device of this process. No id.
    Device(Device<N>),
    /// The ordinal of the device that a communicator's rank uses. The id is the communicator's context.
    DeviceOfCommunicator { ordinal: u32 },
    /// A reading of a clock; the record's ticks are the middle of the reading. No id.
    Clock(ClockSample),
    /// A kernel ran. The id is the external correlation id: the event id of the launch, or 0.
    Kernel(Kernel<N>),
    /// A copy engine copied. The id is the event id of the launch or the copy-engine collective, as for kernels.
    Copy(Copy),
    /// The time of a launch's work, by CUDA events. The id is the event id of the launch.
    LaunchTime(LaunchTime),
    /// A decision on how GPUs are recorded, or an error: a line for users. No id.
    Notice {
        /// The method from here on.
        backend: Backend,
        text: N,
    },
    /// Running totals; the process's last such record has the final values. No id.
    Counts([u64; GpuCount::COUNT]),
}

packed! {
    /// A device, as reported by `cuDeviceGet…`.
    Device<S>, 6 words {
        /// CUDA's ordinal in this process, after `CUDA_VISIBLE_DEVICES`.
        ordinal: u32 [0 0] "ordinal",
        name: S [5 0] "name",
        /// `cuDeviceGetUuid_v2`, for MIG the UUID of the instance. Zero if unknown.
        uuid: [u8; 16] [1 0] "uuid",
        pci_domain: u32 [3 0] "pciDomain",
        pci_bus: u8 [3 32] "pciBus",
        pci_device: u8 [3 40] "pciDevice",
        is_mig: bool [flag] "isMig",
        /// `cuDriverGetVersion`, 12080 for CUDA 12.8; 0 if unknown.
        driver_version: u32 [0 32] "driverVersion",
        compute_capability: [u16; 2] [4 0] "computeCapability",
        multiprocessors: u32 [4 32] "multiprocessors",
    }
}

packed! {
    /// The value of a clock at the record's ticks.
    ClockSample, 3 words {
        clock: GpuClock [0 0] "clock",
        /// The ordinal of the clock's device, or [`ALL_DEVICES`].
        ordinal: u32 [0 32] "ordinal",
        gpu_ns: u64 [1 0] "gpuNs",
        /// The clock had this value at most this many ticks before or after the record's ticks.
        uncertainty_ticks: u64 [2 0] "uncertaintyTicks",
    }
}

packed! {
    /// A kernel as reported by CUPTI. Times are on [`GpuClock::Cupti`].
    #[derive(Default)]
    Kernel<S>, 11 words {
        /// The mangled name from CUPTI.
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
        /// The captured node of which `graph_node` is a clone; 0 if CUPTI does not report it (before 13.4).
        source_graph_node: u64 [10 0] "sourceGraphNode" rare,
    }
}

packed! {
    /// A copy as reported by CUPTI. Times are on [`GpuClock::Cupti`].
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
        /// The source device if both ends are known, otherwise `device`.
        source_device: u32 [7 0] "sourceDevice",
        /// The destination device if both ends are known, otherwise `device`.
        destination_device: u32 [7 32] "destinationDevice",
        /// Number of copies in a batch; 1 for a single copy.
        count: u32 [5 32] "count",
        /// 0 outside of graphs.
        graph_node: u64 [6 0] "graphNode" rare,
    }
}

packed! {
    /// When a launch's work ran, by CUDA events before and behind it. Times are on [`GpuClock::Events`].
    LaunchTime, 4 words {
        ordinal: u32 [0 0] "ordinal",
        /// The stream's handle, as in the launch.
        stream: u64 [1 0] "stream" address,
        /// When the stream reached the launch.
        start_ns: u64 [2 0] "startNs",
        /// When the stream had completed the launch.
        end_ns: u64 [3 0] "endNs",
        /// Maximum error of both times: the resolution of `cuEventElapsedTime`, a 32-bit float in milliseconds.
        uncertainty_ns: u32 [0 32] "uncertaintyNs",
    }
}

/// A kernel's grid or block in CUDA's notation.
pub fn extent([x, y, z]: [u32; 3]) -> String {
    format!("{x},{y},{z}")
}

/// Whether a kernel belongs to NCCL, by its mangled name: kernels replayed by graphs have no other mark.
pub fn is_of_nccl(mangled: &str) -> bool {
    const NAMES: [&str; 3] = ["ncclDevKernel", "ncclSymkDevKernel", "oneRankReduce"];
    NAMES.iter().any(|name| mangled.contains(name))
}

// Nothing is dropped without being counted. `docs/REFERENCE.md` §7 describes the counters.

macro_rules! counts {
    ($($count:ident,)+) => {
        /// A counter, whose value is its index in [`GpuRecord::Counts`].
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[repr(u8)]
        #[expect(missing_docs, reason = "`docs/REFERENCE.md` describes them")]
        pub enum GpuCount {
            $($count,)+
        }

        impl GpuCount {
            /// Number of counters.
            pub const COUNT: usize = Self::ALL.len();

            /// All counters, in order.
            pub const ALL: [Self; [$(stringify!($count),)+].len()] = [$(Self::$count,)+];
        }
    };
}

counts! {
    Launches,
    Captured,
    NoEventLeft,
    Refused,
    OnCallbackThread,
    Unfinished,
    Kernels,
    ForeignKernels,
    KernelsWithoutTimes,
    Copies,
    ForeignCopies,
    CopiesWithoutTimes,
    Unmatched,
    DroppedByCupti,
    BadRecords,
    ForeignBuffers,
    LateBuffers,
    NoBufferLeft,
    NoRoom,
}
