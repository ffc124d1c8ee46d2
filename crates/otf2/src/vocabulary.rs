//! OTF2's enumerations, in the vocabulary of version 3.0.
//!
//! Reading never fails on a number that a newer OTF2 brought: it becomes `Unknown`.

use otf2_sys as sys;

macro_rules! vocabulary {
    ($($(#[$doc:meta])* $name:ident { $($(#[$variant_doc:meta])* $variant:ident = $constant:ident,)* })*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[non_exhaustive]
        pub enum $name {
            $($(#[$variant_doc])* $variant,)*
            /// A value that is not in the vocabulary of OTF2 3.0.
            Unknown(u8),
        }

        impl $name {
            /// Every value of the vocabulary.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)*];

            /// The value for OTF2's number.
            #[must_use]
            pub const fn from_raw(raw: u8) -> Self {
                match raw as u32 {
                    $(sys::$constant => Self::$variant,)*
                    _ => Self::Unknown(raw),
                }
            }

            /// OTF2's number.
            #[must_use]
            #[inline(always)]
            pub const fn raw(self) -> u8 {
                match self {
                    $(Self::$variant => const { byte(sys::$constant) },)*
                    Self::Unknown(raw) => raw,
                }
            }
        }
    )*};
}

/// The header declares its enumerations as `int` and stores them in a byte.
const fn byte(constant: u32) -> u8 {
    let [low, rest @ ..] = constant.to_le_bytes();
    assert!(
        matches!(rest, [0, 0, 0]),
        "OTF2 stores this enumeration in one byte"
    );
    low
}

vocabulary! {
    /// What a location stands for.
    LocationType {
        /// Not said: what OTF2 calls unknown.
        Unspecified = OTF2_LOCATION_TYPE_UNKNOWN,
        /// A thread of a process.
        CpuThread = OTF2_LOCATION_TYPE_CPU_THREAD,
        /// A stream of an accelerator.
        AcceleratorStream = OTF2_LOCATION_TYPE_ACCELERATOR_STREAM,
        /// A recorder of metrics.
        Metric = OTF2_LOCATION_TYPE_METRIC,
    }

    /// What a group of locations stands for.
    LocationGroupType {
        /// Not said: what OTF2 calls unknown.
        Unspecified = OTF2_LOCATION_GROUP_TYPE_UNKNOWN,
        /// A process.
        Process = OTF2_LOCATION_GROUP_TYPE_PROCESS,
        /// An accelerator.
        Accelerator = OTF2_LOCATION_GROUP_TYPE_ACCELERATOR,
    }

    /// What members of a system tree node share.
    SystemTreeDomain {
        /// A machine.
        Machine = OTF2_SYSTEM_TREE_DOMAIN_MACHINE,
        /// A host: its processes share memory.
        SharedMemory = OTF2_SYSTEM_TREE_DOMAIN_SHARED_MEMORY,
        /// A NUMA domain.
        Numa = OTF2_SYSTEM_TREE_DOMAIN_NUMA,
        /// A socket.
        Socket = OTF2_SYSTEM_TREE_DOMAIN_SOCKET,
        /// A cache.
        Cache = OTF2_SYSTEM_TREE_DOMAIN_CACHE,
        /// A core.
        Core = OTF2_SYSTEM_TREE_DOMAIN_CORE,
        /// A processing unit.
        ProcessingUnit = OTF2_SYSTEM_TREE_DOMAIN_PU,
        /// An accelerator.
        AcceleratorDevice = OTF2_SYSTEM_TREE_DOMAIN_ACCELERATOR_DEVICE,
        /// A network adapter.
        NetworkingDevice = OTF2_SYSTEM_TREE_DOMAIN_NETWORKING_DEVICE,
    }

    /// What a region does.
    RegionRole {
        /// Not said: what OTF2 calls unknown.
        Unspecified = OTF2_REGION_ROLE_UNKNOWN,
        /// A function.
        Function = OTF2_REGION_ROLE_FUNCTION,
        /// A wrapper of an API function.
        Wrapper = OTF2_REGION_ROLE_WRAPPER,
        /// A loop.
        Loop = OTF2_REGION_ROLE_LOOP,
        /// A piece of code.
        Code = OTF2_REGION_ROLE_CODE,
        /// A barrier.
        Barrier = OTF2_REGION_ROLE_BARRIER,
        /// A collective operation from one rank to all.
        CollOne2All = OTF2_REGION_ROLE_COLL_ONE2ALL,
        /// A collective operation from all ranks to one.
        CollAll2One = OTF2_REGION_ROLE_COLL_ALL2ONE,
        /// A collective operation among all ranks.
        CollAll2All = OTF2_REGION_ROLE_COLL_ALL2ALL,
        /// Another collective operation.
        CollOther = OTF2_REGION_ROLE_COLL_OTHER,
        /// A send or receive.
        Point2Point = OTF2_REGION_ROLE_POINT2POINT,
        /// An operation of remote memory access.
        Rma = OTF2_REGION_ROLE_RMA,
        /// A transfer of data.
        DataTransfer = OTF2_REGION_ROLE_DATA_TRANSFER,
        /// Made up by the measurement system.
        Artificial = OTF2_REGION_ROLE_ARTIFICIAL,
        /// Waits for tasks.
        TaskWait = OTF2_REGION_ROLE_TASK_WAIT,
        /// Allocates memory.
        Allocate = OTF2_REGION_ROLE_ALLOCATE,
        /// Releases memory.
        Deallocate = OTF2_REGION_ROLE_DEALLOCATE,
    }

    /// The programming model that a definition belongs to.
    Paradigm {
        /// Not said: what OTF2 calls unknown.
        Unspecified = OTF2_PARADIGM_UNKNOWN,
        /// The user's instrumentation.
        User = OTF2_PARADIGM_USER,
        /// The compiler's instrumentation.
        Compiler = OTF2_PARADIGM_COMPILER,
        /// OpenMP.
        OpenMp = OTF2_PARADIGM_OPENMP,
        /// MPI, and what is recorded with MPI's events.
        Mpi = OTF2_PARADIGM_MPI,
        /// CUDA.
        Cuda = OTF2_PARADIGM_CUDA,
        /// The measurement system.
        MeasurementSystem = OTF2_PARADIGM_MEASUREMENT_SYSTEM,
        /// POSIX threads.
        Pthread = OTF2_PARADIGM_PTHREAD,
        /// HIP.
        Hip = OTF2_PARADIGM_HIP,
        /// SHMEM.
        Shmem = OTF2_PARADIGM_SHMEM,
        /// OpenACC.
        OpenAcc = OTF2_PARADIGM_OPENACC,
        /// OpenCL.
        OpenCl = OTF2_PARADIGM_OPENCL,
        /// Sampling.
        Sampling = OTF2_PARADIGM_SAMPLING,
        /// None at all.
        None = OTF2_PARADIGM_NONE,
        /// Kokkos.
        Kokkos = OTF2_PARADIGM_KOKKOS,
    }

    /// How a paradigm makes things happen at the same time.
    ParadigmClass {
        /// By processes.
        Process = OTF2_PARADIGM_CLASS_PROCESS,
        /// By fork and join of threads.
        ThreadForkJoin = OTF2_PARADIGM_CLASS_THREAD_FORK_JOIN,
        /// By creating and waiting for threads.
        ThreadCreateWait = OTF2_PARADIGM_CLASS_THREAD_CREATE_WAIT,
        /// By accelerators.
        Accelerator = OTF2_PARADIGM_CLASS_ACCELERATOR,
    }

    /// A property of a paradigm.
    ParadigmProperty {
        /// Template for the names of its communicators; a string.
        CommNameTemplate = OTF2_PARADIGM_PROPERTY_COMM_NAME_TEMPLATE,
        /// Template for the names of its windows; a string.
        RmaWinNameTemplate = OTF2_PARADIGM_PROPERTY_RMA_WIN_NAME_TEMPLATE,
        /// Its communicators are only used by windows; a boolean.
        RmaOnly = OTF2_PARADIGM_PROPERTY_RMA_ONLY,
    }

    /// What the members of a group are.
    GroupType {
        /// Not said: what OTF2 calls unknown.
        Unspecified = OTF2_GROUP_TYPE_UNKNOWN,
        /// Location references.
        Locations = OTF2_GROUP_TYPE_LOCATIONS,
        /// Region references.
        Regions = OTF2_GROUP_TYPE_REGIONS,
        /// Metric references.
        Metric = OTF2_GROUP_TYPE_METRIC,
        /// Location references: all locations of a paradigm that communicate. One per paradigm.
        CommLocations = OTF2_GROUP_TYPE_COMM_LOCATIONS,
        /// Indices into the paradigm's [`GroupType::CommLocations`] group, in rank order.
        CommGroup = OTF2_GROUP_TYPE_COMM_GROUP,
        /// The communicator of one member, whoever uses it. Has no members.
        CommSelf = OTF2_GROUP_TYPE_COMM_SELF,
    }

    /// Which collective operation.
    CollectiveOp {
        /// A barrier.
        Barrier = OTF2_COLLECTIVE_OP_BARRIER,
        /// A broadcast.
        Bcast = OTF2_COLLECTIVE_OP_BCAST,
        /// A gather.
        Gather = OTF2_COLLECTIVE_OP_GATHER,
        /// A gather of different sizes.
        Gatherv = OTF2_COLLECTIVE_OP_GATHERV,
        /// A scatter.
        Scatter = OTF2_COLLECTIVE_OP_SCATTER,
        /// A scatter of different sizes.
        Scatterv = OTF2_COLLECTIVE_OP_SCATTERV,
        /// A gather to all.
        Allgather = OTF2_COLLECTIVE_OP_ALLGATHER,
        /// A gather of different sizes to all.
        Allgatherv = OTF2_COLLECTIVE_OP_ALLGATHERV,
        /// An exchange among all.
        Alltoall = OTF2_COLLECTIVE_OP_ALLTOALL,
        /// An exchange of different sizes among all.
        Alltoallv = OTF2_COLLECTIVE_OP_ALLTOALLV,
        /// An exchange of different types among all.
        Alltoallw = OTF2_COLLECTIVE_OP_ALLTOALLW,
        /// A reduction to all.
        Allreduce = OTF2_COLLECTIVE_OP_ALLREDUCE,
        /// A reduction to one.
        Reduce = OTF2_COLLECTIVE_OP_REDUCE,
        /// A reduction, scattered in different sizes.
        ReduceScatter = OTF2_COLLECTIVE_OP_REDUCE_SCATTER,
        /// A prefix reduction.
        Scan = OTF2_COLLECTIVE_OP_SCAN,
        /// A prefix reduction without the own value.
        Exscan = OTF2_COLLECTIVE_OP_EXSCAN,
        /// A reduction, scattered in equal blocks.
        ReduceScatterBlock = OTF2_COLLECTIVE_OP_REDUCE_SCATTER_BLOCK,
        /// Creates a handle, such as a communicator.
        CreateHandle = OTF2_COLLECTIVE_OP_CREATE_HANDLE,
        /// Destroys a handle.
        DestroyHandle = OTF2_COLLECTIVE_OP_DESTROY_HANDLE,
        /// Allocates memory.
        Allocate = OTF2_COLLECTIVE_OP_ALLOCATE,
        /// Releases memory.
        Deallocate = OTF2_COLLECTIVE_OP_DEALLOCATE,
    }

    /// Which references of a location's events and local definitions a mapping table translates.
    MappingType {
        /// Strings.
        String = OTF2_MAPPING_STRING,
        /// Attributes.
        Attribute = OTF2_MAPPING_ATTRIBUTE,
        /// Locations: 64-bit ids.
        Location = OTF2_MAPPING_LOCATION,
        /// Regions.
        Region = OTF2_MAPPING_REGION,
        /// Groups.
        Group = OTF2_MAPPING_GROUP,
        /// Metric classes.
        Metric = OTF2_MAPPING_METRIC,
        /// Communicators.
        Comm = OTF2_MAPPING_COMM,
        /// Parameters.
        Parameter = OTF2_MAPPING_PARAMETER,
        /// Windows of remote memory access.
        RmaWin = OTF2_MAPPING_RMA_WIN,
        /// Location groups.
        LocationGroup = OTF2_MAPPING_LOCATION_GROUP,
        /// Places in the source code.
        SourceCodeLocation = OTF2_MAPPING_SOURCE_CODE_LOCATION,
        /// Calling contexts.
        CallingContext = OTF2_MAPPING_CALLING_CONTEXT,
        /// Interrupt generators.
        InterruptGenerator = OTF2_MAPPING_INTERRUPT_GENERATOR,
        /// Files and directories.
        IoFile = OTF2_MAPPING_IO_FILE,
        /// Open files.
        IoHandle = OTF2_MAPPING_IO_HANDLE,
    }

    /// The type of an attribute, a property or a metric value.
    AttributeType {
        /// No type.
        None = OTF2_TYPE_NONE,
        /// 8-bit unsigned.
        U8 = OTF2_TYPE_UINT8,
        /// 16-bit unsigned.
        U16 = OTF2_TYPE_UINT16,
        /// 32-bit unsigned.
        U32 = OTF2_TYPE_UINT32,
        /// 64-bit unsigned.
        U64 = OTF2_TYPE_UINT64,
        /// 8-bit signed.
        I8 = OTF2_TYPE_INT8,
        /// 16-bit signed.
        I16 = OTF2_TYPE_INT16,
        /// 32-bit signed.
        I32 = OTF2_TYPE_INT32,
        /// 64-bit signed.
        I64 = OTF2_TYPE_INT64,
        /// 32-bit floating point.
        F32 = OTF2_TYPE_FLOAT,
        /// 64-bit floating point.
        F64 = OTF2_TYPE_DOUBLE,
        /// A string reference.
        String = OTF2_TYPE_STRING,
        /// An attribute reference.
        Attribute = OTF2_TYPE_ATTRIBUTE,
        /// A location reference.
        Location = OTF2_TYPE_LOCATION,
        /// A region reference.
        Region = OTF2_TYPE_REGION,
        /// A group reference.
        Group = OTF2_TYPE_GROUP,
        /// A metric reference.
        Metric = OTF2_TYPE_METRIC,
        /// A communicator reference.
        Comm = OTF2_TYPE_COMM,
        /// A parameter reference.
        Parameter = OTF2_TYPE_PARAMETER,
        /// A window reference.
        RmaWin = OTF2_TYPE_RMA_WIN,
        /// A location group reference.
        LocationGroup = OTF2_TYPE_LOCATION_GROUP,
    }

    /// Where a metric comes from.
    MetricType {
        /// Anywhere else.
        Other = OTF2_METRIC_TYPE_OTHER,
        /// PAPI.
        Papi = OTF2_METRIC_TYPE_PAPI,
        /// getrusage.
        Rusage = OTF2_METRIC_TYPE_RUSAGE,
        /// The user.
        User = OTF2_METRIC_TYPE_USER,
    }

    /// What a metric's value means, and for which time.
    MetricMode {
        /// Accumulated since the start of the measurement.
        AccumulatedStart = OTF2_METRIC_ACCUMULATED_START,
        /// Accumulated, at this point.
        AccumulatedPoint = OTF2_METRIC_ACCUMULATED_POINT,
        /// Accumulated since the last sample.
        AccumulatedLast = OTF2_METRIC_ACCUMULATED_LAST,
        /// Accumulated until the next sample.
        AccumulatedNext = OTF2_METRIC_ACCUMULATED_NEXT,
        /// Absolute, at this point.
        AbsolutePoint = OTF2_METRIC_ABSOLUTE_POINT,
        /// Absolute, since the last sample.
        AbsoluteLast = OTF2_METRIC_ABSOLUTE_LAST,
        /// Absolute, until the next sample.
        AbsoluteNext = OTF2_METRIC_ABSOLUTE_NEXT,
        /// Relative, at this point.
        RelativePoint = OTF2_METRIC_RELATIVE_POINT,
        /// Relative, since the last sample.
        RelativeLast = OTF2_METRIC_RELATIVE_LAST,
        /// Relative, until the next sample.
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

    /// Whether a metric's exponent is one of 2 or of 10.
    MetricBase {
        /// Of 2.
        Binary = OTF2_BASE_BINARY,
        /// Of 10.
        Decimal = OTF2_BASE_DECIMAL,
    }

    /// Which locations record a metric class.
    RecorderKind {
        /// Not said: what OTF2 calls unknown.
        Unspecified = OTF2_RECORDER_KIND_UNKNOWN,
        /// Only through metric instances.
        Abstract = OTF2_RECORDER_KIND_ABSTRACT,
        /// CPU threads.
        Cpu = OTF2_RECORDER_KIND_CPU,
        /// Accelerator streams.
        Gpu = OTF2_RECORDER_KIND_GPU,
    }

    /// The type of a parameter.
    ParameterType {
        /// A string reference.
        String = OTF2_PARAMETER_TYPE_STRING,
        /// 64-bit signed.
        I64 = OTF2_PARAMETER_TYPE_INT64,
        /// 64-bit unsigned.
        U64 = OTF2_PARAMETER_TYPE_UINT64,
    }

    /// Whether measurement goes on.
    MeasurementMode {
        /// Recording begins again.
        On = OTF2_MEASUREMENT_ON,
        /// Recording stops.
        Off = OTF2_MEASUREMENT_OFF,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_number_survives_the_round_trip() {
        for raw in 0..=u8::MAX {
            assert_eq!(RegionRole::from_raw(raw).raw(), raw);
            assert_eq!(Paradigm::from_raw(raw).raw(), raw);
            assert_eq!(CollectiveOp::from_raw(raw).raw(), raw);
            assert_eq!(AttributeType::from_raw(raw).raw(), raw);
            assert_eq!(MetricMode::from_raw(raw).raw(), raw);
        }
    }

    #[test]
    fn unspecified_is_not_unknown() {
        assert_eq!(LocationType::from_raw(0), LocationType::Unspecified);
        assert_eq!(LocationType::from_raw(200), LocationType::Unknown(200));
    }
}
