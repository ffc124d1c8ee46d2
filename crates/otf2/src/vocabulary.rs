//! OTF2's enumerations in the vocabulary of version 3.0, typed values of attributes, properties and metrics, and typed
//! references. `Unspecified` is the value that OTF2 calls unknown. Reading never fails on a number from a newer OTF2:
//! it becomes `Unknown`.

use std::fmt;

use otf2_sys as sys;

macro_rules! vocabulary {
    ($($(#[$doc:meta])* $name:ident { $($(#[$variant_doc:meta])* $variant:ident = $constant:ident,)* })*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[non_exhaustive]
        #[allow(missing_docs, clippy::allow_attributes, reason = "most variants have the names of OTF2's constants")]
        pub enum $name {
            $($(#[$variant_doc])* $variant,)*
            /// A value outside the vocabulary of OTF2 3.0.
            Unknown(u8),
        }

        impl $name {
            /// Every value of the vocabulary.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)*];

            /// The value for OTF2's number.
            pub const fn from_raw(raw: u8) -> Self {
                match raw as u32 {
                    $(sys::$constant => Self::$variant,)*
                    _ => Self::Unknown(raw),
                }
            }

            /// OTF2's number.
            #[inline(always)]
            pub const fn raw(self) -> u8 {
                match self {
                    $(Self::$variant => const { byte(sys::$constant) },)*
                    Self::Unknown(raw) => raw,
                }
            }
        }

        impl From<u8> for $name {
            fn from(raw: u8) -> Self {
                Self::from_raw(raw)
            }
        }

        impl From<$name> for u8 {
            fn from(value: $name) -> Self {
                value.raw()
            }
        }
    )*};
}

/// The header declares enumerations as `int`, but libotf2 stores them in one byte.
const fn byte(constant: u32) -> u8 {
    let [low, rest @ ..] = constant.to_le_bytes();
    assert!(matches!(rest, [0, 0, 0]), "OTF2 stores this enumeration in one byte");
    low
}

vocabulary! {
    /// What a location stands for.
    LocationType {
        Unspecified = OTF2_LOCATION_TYPE_UNKNOWN,
        CpuThread = OTF2_LOCATION_TYPE_CPU_THREAD,
        AcceleratorStream = OTF2_LOCATION_TYPE_ACCELERATOR_STREAM,
        Metric = OTF2_LOCATION_TYPE_METRIC,
    }

    /// What a group of locations stands for.
    LocationGroupType {
        Unspecified = OTF2_LOCATION_GROUP_TYPE_UNKNOWN,
        Process = OTF2_LOCATION_GROUP_TYPE_PROCESS,
        Accelerator = OTF2_LOCATION_GROUP_TYPE_ACCELERATOR,
    }

    /// What the members of a system tree node share.
    SystemTreeDomain {
        Machine = OTF2_SYSTEM_TREE_DOMAIN_MACHINE,
        SharedMemory = OTF2_SYSTEM_TREE_DOMAIN_SHARED_MEMORY,
        Numa = OTF2_SYSTEM_TREE_DOMAIN_NUMA,
        Socket = OTF2_SYSTEM_TREE_DOMAIN_SOCKET,
        Cache = OTF2_SYSTEM_TREE_DOMAIN_CACHE,
        Core = OTF2_SYSTEM_TREE_DOMAIN_CORE,
        ProcessingUnit = OTF2_SYSTEM_TREE_DOMAIN_PU,
        AcceleratorDevice = OTF2_SYSTEM_TREE_DOMAIN_ACCELERATOR_DEVICE,
        NetworkingDevice = OTF2_SYSTEM_TREE_DOMAIN_NETWORKING_DEVICE,
    }

    /// What a region does.
    RegionRole {
        Unspecified = OTF2_REGION_ROLE_UNKNOWN,
        Function = OTF2_REGION_ROLE_FUNCTION,
        Wrapper = OTF2_REGION_ROLE_WRAPPER,
        Loop = OTF2_REGION_ROLE_LOOP,
        Code = OTF2_REGION_ROLE_CODE,
        Barrier = OTF2_REGION_ROLE_BARRIER,
        CollOne2All = OTF2_REGION_ROLE_COLL_ONE2ALL,
        CollAll2One = OTF2_REGION_ROLE_COLL_ALL2ONE,
        CollAll2All = OTF2_REGION_ROLE_COLL_ALL2ALL,
        CollOther = OTF2_REGION_ROLE_COLL_OTHER,
        Point2Point = OTF2_REGION_ROLE_POINT2POINT,
        Rma = OTF2_REGION_ROLE_RMA,
        DataTransfer = OTF2_REGION_ROLE_DATA_TRANSFER,
        /// Created by the measurement system.
        Artificial = OTF2_REGION_ROLE_ARTIFICIAL,
        TaskWait = OTF2_REGION_ROLE_TASK_WAIT,
        Allocate = OTF2_REGION_ROLE_ALLOCATE,
        Deallocate = OTF2_REGION_ROLE_DEALLOCATE,
    }

    /// The programming model that a definition belongs to.
    Paradigm {
        Unspecified = OTF2_PARADIGM_UNKNOWN,
        User = OTF2_PARADIGM_USER,
        Compiler = OTF2_PARADIGM_COMPILER,
        OpenMp = OTF2_PARADIGM_OPENMP,
        /// MPI, and everything recorded with MPI's events.
        Mpi = OTF2_PARADIGM_MPI,
        Cuda = OTF2_PARADIGM_CUDA,
        MeasurementSystem = OTF2_PARADIGM_MEASUREMENT_SYSTEM,
        Pthread = OTF2_PARADIGM_PTHREAD,
        Hip = OTF2_PARADIGM_HIP,
        Shmem = OTF2_PARADIGM_SHMEM,
        OpenAcc = OTF2_PARADIGM_OPENACC,
        OpenCl = OTF2_PARADIGM_OPENCL,
        Sampling = OTF2_PARADIGM_SAMPLING,
        None = OTF2_PARADIGM_NONE,
        Kokkos = OTF2_PARADIGM_KOKKOS,
    }

    /// The way in which a paradigm runs things concurrently.
    ParadigmClass {
        Process = OTF2_PARADIGM_CLASS_PROCESS,
        ThreadForkJoin = OTF2_PARADIGM_CLASS_THREAD_FORK_JOIN,
        ThreadCreateWait = OTF2_PARADIGM_CLASS_THREAD_CREATE_WAIT,
        Accelerator = OTF2_PARADIGM_CLASS_ACCELERATOR,
    }

    /// A property of a paradigm.
    ParadigmProperty {
        /// Template for the names of the paradigm's communicators; a string.
        CommNameTemplate = OTF2_PARADIGM_PROPERTY_COMM_NAME_TEMPLATE,
        /// Template for the names of the paradigm's windows; a string.
        RmaWinNameTemplate = OTF2_PARADIGM_PROPERTY_RMA_WIN_NAME_TEMPLATE,
        /// Whether the paradigm's communicators are used only by windows; a boolean.
        RmaOnly = OTF2_PARADIGM_PROPERTY_RMA_ONLY,
    }

    /// The type of a group's members.
    GroupType {
        Unspecified = OTF2_GROUP_TYPE_UNKNOWN,
        Locations = OTF2_GROUP_TYPE_LOCATIONS,
        Regions = OTF2_GROUP_TYPE_REGIONS,
        Metric = OTF2_GROUP_TYPE_METRIC,
        /// Location references: all communicating locations of a paradigm. One such group per paradigm.
        CommLocations = OTF2_GROUP_TYPE_COMM_LOCATIONS,
        /// Indices into the paradigm's [`GroupType::CommLocations`] group, in rank order.
        CommGroup = OTF2_GROUP_TYPE_COMM_GROUP,
        /// Any location's communicator with itself only. Has no members.
        CommSelf = OTF2_GROUP_TYPE_COMM_SELF,
    }

    /// The type of a collective operation.
    CollectiveOp {
        Barrier = OTF2_COLLECTIVE_OP_BARRIER,
        Bcast = OTF2_COLLECTIVE_OP_BCAST,
        Gather = OTF2_COLLECTIVE_OP_GATHER,
        Gatherv = OTF2_COLLECTIVE_OP_GATHERV,
        Scatter = OTF2_COLLECTIVE_OP_SCATTER,
        Scatterv = OTF2_COLLECTIVE_OP_SCATTERV,
        Allgather = OTF2_COLLECTIVE_OP_ALLGATHER,
        Allgatherv = OTF2_COLLECTIVE_OP_ALLGATHERV,
        Alltoall = OTF2_COLLECTIVE_OP_ALLTOALL,
        Alltoallv = OTF2_COLLECTIVE_OP_ALLTOALLV,
        Alltoallw = OTF2_COLLECTIVE_OP_ALLTOALLW,
        Allreduce = OTF2_COLLECTIVE_OP_ALLREDUCE,
        Reduce = OTF2_COLLECTIVE_OP_REDUCE,
        ReduceScatter = OTF2_COLLECTIVE_OP_REDUCE_SCATTER,
        Scan = OTF2_COLLECTIVE_OP_SCAN,
        Exscan = OTF2_COLLECTIVE_OP_EXSCAN,
        ReduceScatterBlock = OTF2_COLLECTIVE_OP_REDUCE_SCATTER_BLOCK,
        CreateHandle = OTF2_COLLECTIVE_OP_CREATE_HANDLE,
        DestroyHandle = OTF2_COLLECTIVE_OP_DESTROY_HANDLE,
        Allocate = OTF2_COLLECTIVE_OP_ALLOCATE,
        Deallocate = OTF2_COLLECTIVE_OP_DEALLOCATE,
    }

    /// The kind of references in events and local definitions that a mapping table translates.
    MappingType {
        String = OTF2_MAPPING_STRING,
        Attribute = OTF2_MAPPING_ATTRIBUTE,
        Location = OTF2_MAPPING_LOCATION,
        Region = OTF2_MAPPING_REGION,
        Group = OTF2_MAPPING_GROUP,
        Metric = OTF2_MAPPING_METRIC,
        Comm = OTF2_MAPPING_COMM,
        Parameter = OTF2_MAPPING_PARAMETER,
        RmaWin = OTF2_MAPPING_RMA_WIN,
        LocationGroup = OTF2_MAPPING_LOCATION_GROUP,
        SourceCodeLocation = OTF2_MAPPING_SOURCE_CODE_LOCATION,
        CallingContext = OTF2_MAPPING_CALLING_CONTEXT,
        InterruptGenerator = OTF2_MAPPING_INTERRUPT_GENERATOR,
        IoFile = OTF2_MAPPING_IO_FILE,
        IoHandle = OTF2_MAPPING_IO_HANDLE,
    }

    /// The type of an attribute, a property or a metric value.
    AttributeType {
        None = OTF2_TYPE_NONE,
        U8 = OTF2_TYPE_UINT8,
        U16 = OTF2_TYPE_UINT16,
        U32 = OTF2_TYPE_UINT32,
        U64 = OTF2_TYPE_UINT64,
        I8 = OTF2_TYPE_INT8,
        I16 = OTF2_TYPE_INT16,
        I32 = OTF2_TYPE_INT32,
        I64 = OTF2_TYPE_INT64,
        F32 = OTF2_TYPE_FLOAT,
        F64 = OTF2_TYPE_DOUBLE,
        String = OTF2_TYPE_STRING,
        Attribute = OTF2_TYPE_ATTRIBUTE,
        Location = OTF2_TYPE_LOCATION,
        Region = OTF2_TYPE_REGION,
        Group = OTF2_TYPE_GROUP,
        Metric = OTF2_TYPE_METRIC,
        Comm = OTF2_TYPE_COMM,
        Parameter = OTF2_TYPE_PARAMETER,
        RmaWin = OTF2_TYPE_RMA_WIN,
        LocationGroup = OTF2_TYPE_LOCATION_GROUP,
    }

    /// The source of a metric.
    MetricType {
        Other = OTF2_METRIC_TYPE_OTHER,
        Papi = OTF2_METRIC_TYPE_PAPI,
        Rusage = OTF2_METRIC_TYPE_RUSAGE,
        User = OTF2_METRIC_TYPE_USER,
    }

    /// The meaning of a metric's value, and the time to which the value applies.
    MetricMode {
        AccumulatedStart = OTF2_METRIC_ACCUMULATED_START,
        AccumulatedPoint = OTF2_METRIC_ACCUMULATED_POINT,
        AccumulatedLast = OTF2_METRIC_ACCUMULATED_LAST,
        AccumulatedNext = OTF2_METRIC_ACCUMULATED_NEXT,
        AbsolutePoint = OTF2_METRIC_ABSOLUTE_POINT,
        AbsoluteLast = OTF2_METRIC_ABSOLUTE_LAST,
        AbsoluteNext = OTF2_METRIC_ABSOLUTE_NEXT,
        RelativePoint = OTF2_METRIC_RELATIVE_POINT,
        RelativeLast = OTF2_METRIC_RELATIVE_LAST,
        RelativeNext = OTF2_METRIC_RELATIVE_NEXT,
    }

    /// When a metric is sampled.
    MetricOccurrence {
        /// At every enter and leave.
        SynchronousStrict = OTF2_METRIC_SYNCHRONOUS_STRICT,
        /// At some enters and leaves.
        Synchronous = OTF2_METRIC_SYNCHRONOUS,
        /// At any time.
        Asynchronous = OTF2_METRIC_ASYNCHRONOUS,
    }

    /// Whether a metric's exponent applies to base 2 or 10.
    MetricBase {
        Binary = OTF2_BASE_BINARY,
        Decimal = OTF2_BASE_DECIMAL,
    }

    /// The kind of location that records a metric class.
    RecorderKind {
        Unspecified = OTF2_RECORDER_KIND_UNKNOWN,
        /// Only through metric instances.
        Abstract = OTF2_RECORDER_KIND_ABSTRACT,
        Cpu = OTF2_RECORDER_KIND_CPU,
        Gpu = OTF2_RECORDER_KIND_GPU,
    }

    /// The type of a parameter.
    ParameterType {
        String = OTF2_PARAMETER_TYPE_STRING,
        I64 = OTF2_PARAMETER_TYPE_INT64,
        U64 = OTF2_PARAMETER_TYPE_UINT64,
    }

    /// Whether the measurement is on.
    MeasurementMode {
        On = OTF2_MEASUREMENT_ON,
        Off = OTF2_MEASUREMENT_OFF,
    }
}

/// Flags of a region; none by default.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RegionFlags(pub u32);

impl RegionFlags {
    /// No flag.
    pub const NONE: Self = Self(sys::OTF2_REGION_FLAG_NONE);
    /// Instances of the region differ and must be distinguished.
    pub const DYNAMIC: Self = Self(sys::OTF2_REGION_FLAG_DYNAMIC);
    /// The region is a phase of the program.
    pub const PHASE: Self = Self(sys::OTF2_REGION_FLAG_PHASE);
}

impl From<u32> for RegionFlags {
    fn from(flags: u32) -> Self {
        Self(flags)
    }
}

impl From<RegionFlags> for u32 {
    fn from(flags: RegionFlags) -> Self {
        flags.0
    }
}

macro_rules! attribute_values {
    ($($variant:ident($rust:ty) = $field:ident { |$value:ident| $raw:expr, $from_raw:expr };)*) => {
        /// The value of an attribute or property.
        #[derive(Clone, Copy, Debug, PartialEq, PartialOrd)]
        #[non_exhaustive]
        #[expect(missing_docs, reason = "the names of the types")]
        pub enum AttributeValue {
            $($variant($rust),)*
            /// A value of a type that this crate does not interpret.
            Other { attribute_type: AttributeType, bits: u64 },
        }

        impl AttributeValue {
            /// The type of this value.
            #[inline(always)]
            pub const fn attribute_type(self) -> AttributeType {
                match self {
                    $(Self::$variant(_) => AttributeType::$variant,)*
                    Self::Other { attribute_type, .. } => attribute_type,
                }
            }

            // Most callers know the type at compile time, so that inlining removes the match.
            #[inline(always)]
            pub(crate) fn to_raw(self) -> sys::OTF2_AttributeValue {
                // Initialise all bytes: libotf2 may copy the whole union.
                let mut raw = sys::OTF2_AttributeValue { uint64: 0 };
                match self {
                    $(Self::$variant($value) => raw.$field = $raw,)*
                    Self::Other { bits, .. } => raw.uint64 = bits,
                }
                raw
            }

            // Inlined, so that the value is made where it is kept: a copy of what was just written stalls the
            // processor.
            #[inline(always)]
            pub(crate) fn from_raw(attribute_type: sys::OTF2_Type, raw: sys::OTF2_AttributeValue) -> Self {
                match AttributeType::from_raw(attribute_type) {
                    $(AttributeType::$variant => {
                        // SAFETY: every field of the union is a number, for which all bits are valid; libotf2 sets the
                        // field that corresponds to the type.
                        let value = unsafe { raw.$field };
                        Self::$variant($from_raw(value))
                    })*
                    attribute_type => {
                        // SAFETY: as above.
                        let bits = unsafe { raw.uint64 };
                        Self::Other { attribute_type, bits }
                    }
                }
            }
        }
    };
}

attribute_values! {
    U8(u8) = uint8 { |v| v, u8::from };
    U16(u16) = uint16 { |v| v, u16::from };
    U32(u32) = uint32 { |v| v, u32::from };
    U64(u64) = uint64 { |v| v, u64::from };
    I8(i8) = int8 { |v| v, i8::from };
    I16(i16) = int16 { |v| v, i16::from };
    I32(i32) = int32 { |v| v, i32::from };
    I64(i64) = int64 { |v| v, i64::from };
    F32(f32) = float32 { |v| v, f32::from };
    F64(f64) = float64 { |v| v, f64::from };
    String(StringRef) = stringRef { |v| v.get(), StringRef::new };
    Attribute(AttributeRef) = attributeRef { |v| v.get(), AttributeRef::new };
    Location(LocationRef) = locationRef { |v| v.get(), LocationRef::new };
    Region(RegionRef) = regionRef { |v| v.get(), RegionRef::new };
    Group(GroupRef) = groupRef { |v| v.get(), GroupRef::new };
    Metric(MetricRef) = metricRef { |v| v.get(), MetricRef::new };
    Comm(CommRef) = commRef { |v| v.get(), CommRef::new };
    Parameter(ParameterRef) = parameterRef { |v| v.get(), ParameterRef::new };
    RmaWin(RmaWinRef) = rmaWinRef { |v| v.get(), RmaWinRef::new };
    LocationGroup(LocationGroupRef) = locationGroupRef { |v| v.get(), LocationGroupRef::new };
}

/// One value of a metric event.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd)]
#[expect(missing_docs, reason = "the names of the types")]
pub enum MetricValue {
    U64(u64),
    I64(i64),
    F64(f64),
}

impl MetricValue {
    pub(crate) fn raw_type(self) -> sys::OTF2_Type {
        match self {
            Self::U64(_) => AttributeType::U64,
            Self::I64(_) => AttributeType::I64,
            Self::F64(_) => AttributeType::F64,
        }
        .raw()
    }

    pub(crate) fn to_raw(self) -> sys::OTF2_MetricValue {
        match self {
            Self::U64(value) => sys::OTF2_MetricValue { unsigned_int: value },
            Self::I64(value) => sys::OTF2_MetricValue { signed_int: value },
            Self::F64(value) => sys::OTF2_MetricValue { floating_point: value },
        }
    }

    /// libotf2 widens narrow types to 64 bits, so three fields cover all types.
    pub(crate) fn from_raw(value_type: sys::OTF2_Type, raw: sys::OTF2_MetricValue) -> Self {
        match AttributeType::from_raw(value_type) {
            AttributeType::F32 | AttributeType::F64 => {
                // SAFETY: the union's fields are 64-bit numbers, for which all bits are valid.
                Self::F64(unsafe { raw.floating_point })
            }
            AttributeType::I8 | AttributeType::I16 | AttributeType::I32 | AttributeType::I64 => {
                // SAFETY: as above.
                Self::I64(unsafe { raw.signed_int })
            }
            _ => {
                // SAFETY: as above.
                Self::U64(unsafe { raw.unsigned_int })
            }
        }
    }
}

// References are typed: a region reference cannot be used as a location reference.

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_number_survives_the_round_trip() {
        for raw in 0..=u8::MAX {
            assert_eq!((RegionRole::from_raw(raw).raw(), Paradigm::from_raw(raw).raw()), (raw, raw));
        }
    }
}
