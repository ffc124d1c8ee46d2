//! Result codes and their names. `cuptiGetResultString` fails when it is needed most: without a driver.

use std::fmt;

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_code_is_shown_by_name_and_number() {
        assert_eq!(Code(39).to_string(), "CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED (39)");
        assert_eq!(Code(4711).to_string(), "CUPTI error 4711");
        assert!(Code(39).remedy().is_some());
        assert!(Code(4711).remedy().is_none());
    }
}
