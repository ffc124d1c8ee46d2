//! What the journal says of GPUs. Times are on a clock of the GPU's ([`GpuClock`]); samples of that clock against
//! ticks are recorded beside them, and the writing half turns them into time.
//!
//! `N` is a string: a [`crate::Name`] on the way in, a a symbol of the journal on the way out.

mod count;

pub use count::GpuCount;

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
    #[must_use]
    pub const fn from_number(number: u8) -> Option<Self> {
        match number {
            0 => Some(Self::Cupti),
            1 => Some(Self::Events),
            _ => None,
        }
    }
}

/// How times of GPU work are found out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Way {
    /// Not at all.
    Off = 0,
    /// By CUPTI's activity records.
    Cupti = 1,
    /// By CUDA events around launches.
    Events = 2,
}

impl Way {
    /// The way with this number.
    #[must_use]
    pub const fn from_number(number: u8) -> Option<Self> {
        match number {
            0 => Some(Self::Off),
            1 => Some(Self::Cupti),
            2 => Some(Self::Events),
            _ => None,
        }
    }

    /// As it is called in `NCCL_OTF2_GPU` and in archives.
    #[must_use]
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
    DeviceOfCommunicator {
        /// The device's ordinal.
        ordinal: u32,
    },
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
        way: Way,
        /// The line.
        text: N,
    },
    /// Running totals; the last record of the process counts. No id.
    Counts([u64; GpuCount::COUNT]),
}

/// A device, by `cuDeviceGet…`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Device<N> {
    /// CUDA's ordinal in this process, after `CUDA_VISIBLE_DEVICES`.
    pub ordinal: u32,
    /// Whether it is a MIG instance.
    pub is_mig: bool,
    /// `cuDeviceGetUuid_v2`: of the MIG instance where it is one. Zero when not known.
    pub uuid: [u8; 16],
    /// PCI domain.
    pub pci_domain: u32,
    /// PCI bus.
    pub pci_bus: u8,
    /// PCI device.
    pub pci_device: u8,
    /// `cuDriverGetVersion`, 12080 for CUDA 12.8; 0 when not known.
    pub driver_version: u32,
    /// Compute capability, major and minor.
    pub compute_capability: [u16; 2],
    /// Streaming multiprocessors.
    pub multiprocessors: u32,
    /// Product name.
    pub name: N,
}

/// What a clock showed at the record's ticks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClockSample {
    /// Which clock.
    pub clock: GpuClock,
    /// Whose, by ordinal, or [`ALL_DEVICES`].
    pub ordinal: u32,
    /// What it showed.
    pub gpu_ns: u64,
    /// It showed that at most this many ticks before or after the record's.
    pub uncertainty_ticks: u64,
}

/// A kernel, as CUPTI tells it. Times on [`GpuClock::Cupti`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "CUPTI's fields, by CUPTI's names")]
pub struct Kernel<N> {
    pub correlation: u32,
    pub device: u32,
    pub context: u32,
    pub stream: u32,
    pub start_ns: u64,
    pub end_ns: u64,
    pub grid: [u32; 3],
    pub block: [u32; 3],
    pub static_shared_bytes: u32,
    pub dynamic_shared_bytes: u32,
    pub registers_per_thread: u16,
    /// 0 outside of graphs.
    pub graph: u32,
    /// 0 outside of graphs.
    pub graph_node: u64,
    /// The node that was captured, of which `graph_node` is a clone; 0 when CUPTI does not tell (before 13.4).
    pub source_graph_node: u64,
    /// Mangled, as CUPTI gives it.
    pub name: N,
}

impl<N> Kernel<N> {
    /// The same kernel by another name.
    pub fn with_name<M>(self, name: M) -> Kernel<M> {
        Kernel {
            correlation: self.correlation,
            device: self.device,
            context: self.context,
            stream: self.stream,
            start_ns: self.start_ns,
            end_ns: self.end_ns,
            grid: self.grid,
            block: self.block,
            static_shared_bytes: self.static_shared_bytes,
            dynamic_shared_bytes: self.dynamic_shared_bytes,
            registers_per_thread: self.registers_per_thread,
            graph: self.graph,
            graph_node: self.graph_node,
            source_graph_node: self.source_graph_node,
            name,
        }
    }
}

/// A copy, as CUPTI tells it. Times on [`GpuClock::Cupti`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "CUPTI's fields, by CUPTI's names")]
pub struct Copy {
    pub correlation: u32,
    pub device: u32,
    pub context: u32,
    pub stream: u32,
    pub start_ns: u64,
    pub end_ns: u64,
    pub bytes: u64,
    /// `CUpti_ActivityMemcpyKind`.
    pub kind: u8,
    /// `CUpti_ActivityMemoryKind`.
    pub source_kind: u8,
    /// `CUpti_ActivityMemoryKind`.
    pub destination_kind: u8,
    /// How many copies of a batch; 1 for a single one.
    pub count: u32,
    /// 0 outside of graphs.
    pub graph_node: u64,
    /// The device copied from, where both ends are known; else `device`.
    pub source_device: u32,
    /// The device copied to, where both ends are known; else `device`.
    pub destination_device: u32,
}

/// When what a launch enqueued ran, by CUDA events before and behind it. Times on [`GpuClock::Events`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LaunchTime {
    /// The device, by ordinal.
    pub ordinal: u32,
    /// Both times may be off by this much: the resolution of `cuEventElapsedTime`, a 32-bit float of milliseconds.
    pub uncertainty_ns: u32,
    /// The stream's handle, as in the launch.
    pub stream: u64,
    /// When the stream reached the launch.
    pub start_ns: u64,
    /// When it was through with it.
    pub end_ns: u64,
}
