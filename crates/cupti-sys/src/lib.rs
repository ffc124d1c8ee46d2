#![doc = include_str!("../README.md")]
#![warn(missing_docs, clippy::missing_panics_doc)]

use std::fmt;
use std::marker::PhantomData;

pub mod load;

pub use crate::load::{Functions, Library, LoadError, Search, load};

// Offsets of the fields of activity records, which are equal in all releases from CUDA 11.8 to 13.5.
//
// A record is a slice of exactly the bytes that CUPTI returned for it, and a field beyond its end is absent. So a
// field that only later releases have is never read from the next record.

/// A field of a record: its offset and type.
#[derive(Debug)]
pub struct Field<T> {
    offset: usize,
    is: PhantomData<T>,
}

impl<T> Clone for Field<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Field<T> {}

impl<T> Field<T> {
    const fn at(offset: usize) -> Self {
        Self { offset, is: PhantomData }
    }

    /// Offset in bytes from the start of the record.
    pub const fn offset(self) -> usize {
        self.offset
    }
}

macro_rules! readable {
    ($($type:ty),*) => {
        $(impl Field<$type> {
            /// The field's value in this record; `None` if the record ends before the field.
            #[inline]
            pub fn of(self, record: &[u8]) -> Option<$type> {
                Some(<$type>::from_ne_bytes(*record.get(self.offset..)?.first_chunk()?))
            }
        })*
    };
}

readable!(u8, u16, u32, u64);

/// The layout of a kind of record, for comparison with headers.
#[derive(Debug)]
pub struct Layout {
    /// The module in this file that defines the fields.
    pub record: &'static str,
    /// The structure's name in the headers, without the version number, which grows with the structure.
    pub c_name: &'static str,
    /// The fields: name in the headers, offset and size in bytes.
    pub fields: &'static [(&'static str, usize, usize)],
}

macro_rules! records {
    ($($(#[$doc:meta])* $module:ident $c_struct:literal {
        $($name:ident: $type:ty = $offset:literal $c_name:literal,)*
    })*) => {
        $($(#[$doc])*
        #[expect(missing_docs, reason = "CUPTI's fields, by CUPTI's names")]
        pub mod $module {
            use crate::Field;
            $(pub const $name: Field<$type> = Field::at($offset);)*
        })*

        /// All kinds of records.
        pub const LAYOUTS: &[Layout] = &[$(Layout {
            record: stringify!($module),
            c_name: $c_struct,
            fields: &[$(($c_name, $offset, size_of::<$type>())),*],
        }),*];
    };
}

/// The first field of every record: its kind.
pub const KIND: Field<u32> = Field::at(0);

records! {
    /// Kinds 10 and 3: a kernel. `NAME` is the address of a string owned by CUPTI, or 0.
    kernel "CUpti_ActivityKernel" {
        REGISTERS_PER_THREAD: u16 = 6 "registersPerThread",
        START: u64 = 16 "start",
        END: u64 = 24 "end",
        DEVICE: u32 = 40 "deviceId",
        CONTEXT: u32 = 44 "contextId",
        STREAM: u32 = 48 "streamId",
        GRID_X: u32 = 52 "gridX",
        GRID_Y: u32 = 56 "gridY",
        GRID_Z: u32 = 60 "gridZ",
        BLOCK_X: u32 = 64 "blockX",
        BLOCK_Y: u32 = 68 "blockY",
        BLOCK_Z: u32 = 72 "blockZ",
        STATIC_SHARED_BYTES: u32 = 76 "staticSharedMemory",
        DYNAMIC_SHARED_BYTES: u32 = 80 "dynamicSharedMemory",
        CORRELATION: u32 = 92 "correlationId",
        NAME: u64 = 104 "name",
        GRAPH_NODE: u64 = 144 "graphNodeId",
        GRAPH: u32 = 156 "graphId",
        SOURCE_GRAPH_NODE: u64 = 240 "sourceGraphNodeId",
    }
    /// Kind 39: an external id.
    external "CUpti_ActivityExternalCorrelation" {
        EXTERNAL_KIND: u32 = 4 "externalKind",
        EXTERNAL: u64 = 8 "externalId",
        CORRELATION: u32 = 16 "correlationId",
    }
    /// Kinds 4 and 5: a call of a CUDA function.
    api "CUpti_ActivityAPI" {
        CBID: u32 = 4 "cbid",
        CORRELATION: u32 = 32 "correlationId",
    }
    /// Kind 1: a copy.
    copy "CUpti_ActivityMemcpy" {
        COPY_KIND: u8 = 4 "copyKind",
        SOURCE_KIND: u8 = 5 "srcKind",
        DESTINATION_KIND: u8 = 6 "dstKind",
        BYTES: u64 = 8 "bytes",
        START: u64 = 16 "start",
        END: u64 = 24 "end",
        DEVICE: u32 = 32 "deviceId",
        CONTEXT: u32 = 36 "contextId",
        STREAM: u32 = 40 "streamId",
        CORRELATION: u32 = 44 "correlationId",
        GRAPH_NODE: u64 = 64 "graphNodeId",
        COUNT: u64 = 88 "copyCount",
    }
    /// Kind 22: a copy between devices. From the stream on, offsets differ from those in [`copy`].
    peer_copy "CUpti_ActivityMemcpyPtoP" {
        COPY_KIND: u8 = 4 "copyKind",
        SOURCE_KIND: u8 = 5 "srcKind",
        DESTINATION_KIND: u8 = 6 "dstKind",
        BYTES: u64 = 8 "bytes",
        START: u64 = 16 "start",
        END: u64 = 24 "end",
        DEVICE: u32 = 32 "deviceId",
        CONTEXT: u32 = 36 "contextId",
        STREAM: u32 = 40 "streamId",
        SOURCE_DEVICE: u32 = 44 "srcDeviceId",
        DESTINATION_DEVICE: u32 = 52 "dstDeviceId",
        CORRELATION: u32 = 60 "correlationId",
        GRAPH_NODE: u64 = 72 "graphNodeId",
    }
}

// Result codes and their names. `cuptiGetResultString` fails when it is needed most: without a driver.

/// A `CUptiResult`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Code(pub i32);

macro_rules! codes {
    ($($(#[$doc:meta])* $name:ident = $value:literal, $c_name:literal;)*) => {
        impl Code {
            $(
                #[doc = concat!("`", $c_name, "`.")]
                $(#[$doc])*
                pub const $name: Self = Self($value);
            )*

            /// All codes with a name, by their names in the headers.
            pub const ALL: &[(&'static str, Self)] = &[$(($c_name, Self::$name)),*];
        }
    };
}

codes! {
    SUCCESS = 0, "CUPTI_SUCCESS";
    INVALID_PARAMETER = 1, "CUPTI_ERROR_INVALID_PARAMETER";
    INVALID_DEVICE = 2, "CUPTI_ERROR_INVALID_DEVICE";
    INVALID_CONTEXT = 3, "CUPTI_ERROR_INVALID_CONTEXT";
    INVALID_OPERATION = 7, "CUPTI_ERROR_INVALID_OPERATION";
    OUT_OF_MEMORY = 8, "CUPTI_ERROR_OUT_OF_MEMORY";
    HARDWARE = 9, "CUPTI_ERROR_HARDWARE";
    PARAMETER_SIZE_NOT_SUFFICIENT = 10, "CUPTI_ERROR_PARAMETER_SIZE_NOT_SUFFICIENT";
    API_NOT_IMPLEMENTED = 11, "CUPTI_ERROR_API_NOT_IMPLEMENTED";
    /// A limit is reached; from `cuptiActivityGetNextRecord`: no more records.
    MAX_LIMIT_REACHED = 12, "CUPTI_ERROR_MAX_LIMIT_REACHED";
    NOT_READY = 13, "CUPTI_ERROR_NOT_READY";
    /// The global functions and the functions for subscribers exclude each other.
    NOT_COMPATIBLE = 14, "CUPTI_ERROR_NOT_COMPATIBLE";
    /// CUPTI found no driver that it supports.
    NOT_INITIALIZED = 15, "CUPTI_ERROR_NOT_INITIALIZED";
    /// There is no external id to pop.
    QUEUE_EMPTY = 18, "CUPTI_ERROR_QUEUE_EMPTY";
    INVALID_HANDLE = 19, "CUPTI_ERROR_INVALID_HANDLE";
    INVALID_STREAM = 20, "CUPTI_ERROR_INVALID_STREAM";
    /// Unknown kind; from `cuptiActivityGetNextRecord`: the record is broken or incomplete.
    INVALID_KIND = 21, "CUPTI_ERROR_INVALID_KIND";
    DISABLED = 23, "CUPTI_ERROR_DISABLED";
    INVALID_MODULE = 24, "CUPTI_ERROR_INVALID_MODULE";
    HARDWARE_BUSY = 26, "CUPTI_ERROR_HARDWARE_BUSY";
    NOT_SUPPORTED = 27, "CUPTI_ERROR_NOT_SUPPORTED";
    VIRTUALIZED_DEVICE_NOT_SUPPORTED = 33, "CUPTI_ERROR_VIRTUALIZED_DEVICE_NOT_SUPPORTED";
    INSUFFICIENT_PRIVILEGES = 35, "CUPTI_ERROR_INSUFFICIENT_PRIVILEGES";
    OLD_PROFILER_API_INITIALIZED = 36, "CUPTI_ERROR_OLD_PROFILER_API_INITIALIZED";
    MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED = 39, "CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED";
    VIRTUALIZED_DEVICE_INSUFFICIENT_PRIVILEGES = 40, "CUPTI_ERROR_VIRTUALIZED_DEVICE_INSUFFICIENT_PRIVILEGES";
    CONFIDENTIAL_COMPUTING_NOT_SUPPORTED = 41, "CUPTI_ERROR_CONFIDENTIAL_COMPUTING_NOT_SUPPORTED";
    CMP_DEVICE_NOT_SUPPORTED = 42, "CUPTI_ERROR_CMP_DEVICE_NOT_SUPPORTED";
    MIG_DEVICE_NOT_SUPPORTED = 43, "CUPTI_ERROR_MIG_DEVICE_NOT_SUPPORTED";
    SLI_DEVICE_NOT_SUPPORTED = 44, "CUPTI_ERROR_SLI_DEVICE_NOT_SUPPORTED";
    WSL_DEVICE_NOT_SUPPORTED = 45, "CUPTI_ERROR_WSL_DEVICE_NOT_SUPPORTED";
    /// Unknown error; since 13.0 also the error without a driver.
    UNKNOWN = 999, "CUPTI_ERROR_UNKNOWN";
}

impl Code {
    /// The name in CUPTI's headers; `None` for codes that a tool like this cannot meet.
    pub fn name(self) -> Option<&'static str> {
        Self::ALL.iter().find(|(_, code)| *code == self).map(|(name, _)| *name)
    }

    /// Whether the call succeeded.
    pub const fn is_success(self) -> bool {
        self.0 == 0
    }

    /// What a user can do about the error, if anything.
    pub const fn remedy(self) -> Option<&'static str> {
        Some(match self {
            Self::NOT_COMPATIBLE => {
                "run without the component that uses CUPTI's other family of functions, as torch.profiler does"
            }
            Self::NOT_INITIALIZED => {
                "this libcupti is newer than the GPU driver allows: use the libcupti of the CUDA release that the \
                 driver is of, or a newer driver"
            }
            Self::MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED => {
                "run without the other tool that uses CUPTI (nsys, ncu, a debugger, torch.profiler, Score-P)"
            }
            Self::MAX_LIMIT_REACHED => "run without the other tool that uses CUPTI",
            Self::INSUFFICIENT_PRIVILEGES => {
                "the driver lets only the administrator profile (NVreg_RestrictProfilingToAdminUsers): ask for that to \
                 be changed"
            }
            Self::VIRTUALIZED_DEVICE_NOT_SUPPORTED | Self::VIRTUALIZED_DEVICE_INSUFFICIENT_PRIVILEGES => {
                "this virtual GPU has no profiling, or its hypervisor does not allow it"
            }
            Self::CONFIDENTIAL_COMPUTING_NOT_SUPPORTED => {
                "the GPU runs in confidential computing mode, in which it cannot be profiled"
            }
            Self::MIG_DEVICE_NOT_SUPPORTED => "this MIG instance cannot be profiled",
            Self::HARDWARE_BUSY => "another profiler holds the GPU: run without it",
            Self::UNKNOWN => {
                "this is what CUPTI says without a driver that it can use: see whether libcupti is newer than the driver"
            }
            _ => return None,
        })
    }
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            Some(name) => write!(f, "{name} ({})", self.0),
            None => write!(f, "CUPTI error {}", self.0),
        }
    }
}

// Constants of CUPTI's interface that are equal in all releases from CUDA 11.8 to 13.5.

macro_rules! constants {
    ($($(#[$doc:meta])* $name:ident: $type:ty = $value:literal, $c_name:literal;)*) => {
        $(
            #[doc = concat!("`", $c_name, "`.")]
            $(#[$doc])*
            pub const $name: $type = $value;
        )*

        /// All constants, by their names in the headers.
        pub const ALL: &[(&str, u32)] = &[$(($c_name, $name as u32)),*];
    };
}

constants! {
    KIND_MEMCPY: u32 = 1, "CUPTI_ACTIVITY_KIND_MEMCPY";
    /// Activity kind: all driver functions. Enabling it undoes an earlier choice of single functions.
    KIND_DRIVER: u32 = 4, "CUPTI_ACTIVITY_KIND_DRIVER";
    KIND_RUNTIME: u32 = 5, "CUPTI_ACTIVITY_KIND_RUNTIME";
    /// Activity kind: kernels, which run concurrently as they would without CUPTI.
    KIND_CONCURRENT_KERNEL: u32 = 10, "CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL";
    /// Activity kind: copies between devices; enabled together with [`KIND_MEMCPY`].
    KIND_MEMCPY2: u32 = 22, "CUPTI_ACTIVITY_KIND_MEMCPY2";
    /// Activity kind: links the call of a CUDA function to one of the tool's own ids.
    KIND_EXTERNAL_CORRELATION: u32 = 39, "CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION";

    /// Kind of external id that PyTorch's profiler does not use: it uses the first two custom ones.
    EXTERNAL_CUSTOM2: u32 = 5, "CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM2";

    /// Attribute: buffers passed to CUPTI are zeroed (u8).
    ATTRIBUTE_ZEROED_OUT_ACTIVITY_BUFFER: u32 = 5, "CUPTI_ACTIVITY_ATTR_ZEROED_OUT_ACTIVITY_BUFFER";

    CBID_LAUNCH_KERNEL: u32 = 307, "CUPTI_DRIVER_TRACE_CBID_cuLaunchKernel";
    CBID_LAUNCH_KERNEL_PTSZ: u32 = 442, "CUPTI_DRIVER_TRACE_CBID_cuLaunchKernel_ptsz";
    CBID_LAUNCH_KERNEL_EX: u32 = 652, "CUPTI_DRIVER_TRACE_CBID_cuLaunchKernelEx";
    CBID_LAUNCH_KERNEL_EX_PTSZ: u32 = 653, "CUPTI_DRIVER_TRACE_CBID_cuLaunchKernelEx_ptsz";

    CBID_MEMCPY_ASYNC: u32 = 41, "CUPTI_RUNTIME_TRACE_CBID_cudaMemcpyAsync_v3020";
    CBID_MEMCPY_ASYNC_PTSZ: u32 = 225, "CUPTI_RUNTIME_TRACE_CBID_cudaMemcpyAsync_ptsz_v7000";
    CBID_MEMCPY_BATCH_12: u32 = 482, "CUPTI_RUNTIME_TRACE_CBID_cudaMemcpyBatchAsync_v12080";
    CBID_MEMCPY_BATCH_12_PTSZ: u32 = 483, "CUPTI_RUNTIME_TRACE_CBID_cudaMemcpyBatchAsync_ptsz_v12080";
    CBID_MEMCPY_BATCH_13: u32 = 509, "CUPTI_RUNTIME_TRACE_CBID_cudaMemcpyBatchAsync_v13000";
    CBID_MEMCPY_BATCH_13_PTSZ: u32 = 510, "CUPTI_RUNTIME_TRACE_CBID_cudaMemcpyBatchAsync_ptsz_v13000";

    /// Flag of `cuptiActivityFlushAll`: also return buffers with unfinished records.
    FLUSH_FORCED: u32 = 1, "CUPTI_ACTIVITY_FLAG_FLUSH_FORCED";
}

/// Driver functions that launch kernels.
pub const CBIDS_OF_LAUNCHES: [u32; 4] =
    [CBID_LAUNCH_KERNEL, CBID_LAUNCH_KERNEL_PTSZ, CBID_LAUNCH_KERNEL_EX, CBID_LAUNCH_KERNEL_EX_PTSZ];
/// Runtime functions that copy. Early releases lack those that copy in batches.
pub const CBIDS_OF_COPIES: [u32; 6] = [
    CBID_MEMCPY_ASYNC,
    CBID_MEMCPY_ASYNC_PTSZ,
    CBID_MEMCPY_BATCH_12,
    CBID_MEMCPY_BATCH_12_PTSZ,
    CBID_MEMCPY_BATCH_13,
    CBID_MEMCPY_BATCH_13_PTSZ,
];

/// Since this version (CUDA 13.3) the functions for subscribers (`…_v2`) are complete and exclude the global ones.
pub const VERSION_SUBSCRIBER_FUNCTIONS: u32 = 130_300;
/// Since this version (CUDA 13.3) a single function can be enabled in a process that has a context. Earlier releases
/// accept that and record nothing, unless all functions of the kind are enabled.
pub const VERSION_SINGLE_FUNCTIONS: u32 = 130_300;
/// No release has a function with this number.
pub const CBIDS_END: u32 = 4096;
/// Since this version (CUDA 12.9) a tool may refuse to provide a buffer; earlier releases can crash on that.
pub const VERSION_BUFFER_MAY_BE_REFUSED: u32 = 27;

// Other tools that use CUPTI. In most releases CUPTI serves one tool, and a second one can silently lose its records.

/// Libraries of tools that use CUPTI or may use it.
const LIBRARIES: [(&str, &str); 10] = [
    ("libtorch_cuda", "PyTorch's profiler"),
    ("libtorch_cpu", "PyTorch's profiler"),
    ("libkineto", "PyTorch's profiler"),
    ("libscorep_adapter_cuda", "Score-P"),
    ("libTAU", "TAU"),
    ("libToolsInjection", "Nsight Systems"),
    ("libInterceptorInjectionTarget", "Nsight"),
    ("libcuda-injection", "Nsight Compute"),
    ("libsanitizer-", "Compute Sanitizer"),
    ("libcupti.so", "whoever has loaded libcupti"),
];

/// Environment variables of such tools; a value that means "no" does not count. A name that ends in `_` is a prefix.
const VARIABLES: [(&str, &str); 7] = [
    ("CUDA_INJECTION64_PATH", "what is injected into CUDA"),
    ("NSYS_", "Nsight Systems"),
    ("NV_COMPUTE_PROFILER_", "Nsight Compute"),
    ("SCOREP_CUDA_ENABLE", "Score-P"),
    ("KINETO_USE_DAEMON", "PyTorch's profiler"),
    ("TAU_CUPTI_API", "TAU"),
    ("LD_PRELOAD", "what is preloaded"),
];

/// Another tool that may use CUPTI in a process with these files and this environment, and the evidence for it.
pub fn other_user(maps: &[String], environment: &[(String, String)], is_ours: bool) -> Option<(&'static str, String)> {
    for (library, who) in LIBRARIES {
        if library == "libcupti.so" && is_ours {
            continue;
        }
        let file = |path: &String| Some(path.rsplit('/').next()?.to_owned());
        let mut files = maps.iter().filter_map(file);
        if let Some(file) = files.find(|file| file.starts_with(library)) {
            return Some((who, format!("{file} is loaded")));
        }
    }
    for (variable, who) in VARIABLES {
        let is_sign = |name: &str, value: &str| match variable {
            "LD_PRELOAD" => name == variable && (value.contains("njection") || value.contains("nsys")),
            prefix if prefix.ends_with('_') => name.starts_with(prefix) && is_enabled(value),
            _ => name == variable && is_enabled(value),
        };
        if let Some((name, _)) = environment.iter().find(|(name, value)| is_sign(name, value)) {
            return Some((who, format!("{name} is set")));
        }
    }
    None
}

/// Whether a variable's value does not mean "no".
fn is_enabled(value: &str) -> bool {
    let no = ["", "0", "no", "none", "off", "false"];
    !no.contains(&value.trim().to_ascii_lowercase().as_str())
}

#[cfg(test)]
mod tests {
    mod record {
        use crate::*;

        #[test]
        fn a_field_behind_the_end_is_not_there() {
            let mut record = vec![0; 248];
            record[240..].copy_from_slice(&7_u64.to_ne_bytes());
            assert_eq!(kernel::SOURCE_GRAPH_NODE.of(&record), Some(7));
            assert_eq!(kernel::SOURCE_GRAPH_NODE.of(&record[..247]), None);
            assert_eq!(kernel::SOURCE_GRAPH_NODE.of(&record[..200]), None);
            assert_eq!(KIND.of(&[]), None);
        }
    }

    mod code {
        use crate::*;

        #[test]
        fn a_code_is_shown_by_name_and_number() {
            assert_eq!(Code(39).to_string(), "CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED (39)");
            assert_eq!(Code(4711).to_string(), "CUPTI error 4711");
            assert!(Code(39).remedy().is_some());
            assert!(Code(4711).remedy().is_none());
        }
    }
}
