//! Finds out whether the process has a working GPU driver.
//!
//! Without one CUPTI must not be called: some releases kill the process when asked for their version, others only
//! report "unknown error". A process that has not mapped `libcuda` runs nothing on a GPU.

use std::ffi::{CStr, c_int, c_void};
use std::fmt;

/// A working driver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Driver {
    /// `cuDriverGetVersion`: 12080 for CUDA 12.8.
    pub version: u32,
}

/// The reason why there is no driver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoDriver {
    /// `libcuda.so.1` is not mapped.
    NotMapped,
    /// `libcuda.so.1` has no `cuDriverGetVersion`.
    NotADriver,
    /// `cuDriverGetVersion` returned this error: 34 in the stub library of a CUDA toolkit.
    Refused(c_int),
}

impl fmt::Display for NoDriver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotMapped => {
                f.write_str("this process has no GPU driver: libcuda.so.1 is not loaded, so nothing runs on a GPU")
            }
            Self::NotADriver => f.write_str("the libcuda.so.1 of this process has no cuDriverGetVersion"),
            Self::Refused(34) => f.write_str(
                "the libcuda.so.1 of this process is the stub of a CUDA toolkit: take its folder (…/stubs) out of \
                 LD_LIBRARY_PATH",
            ),
            Self::Refused(code) => write!(f, "cuDriverGetVersion failed with {code}"),
        }
    }
}

/// A function of the mapped driver; NULL if it is missing. Maps nothing.
fn symbol(name: &CStr) -> Result<*mut c_void, NoDriver> {
    // SAFETY: a NUL-terminated string; with RTLD_NOLOAD dlopen maps nothing and runs no code of a library.
    let handle = unsafe { libc::dlopen(c"libcuda.so.1".as_ptr(), libc::RTLD_NOW | libc::RTLD_NOLOAD) };
    if handle.is_null() {
        return Err(NoDriver::NotMapped);
    }
    // The handle is kept, so that libcuda stays mapped while its functions are used.
    // SAFETY: a handle from dlopen that was not closed, and a NUL-terminated string.
    Ok(unsafe { libc::dlsym(handle, name.as_ptr()) })
}

impl Driver {
    /// Finds the mapped driver. Maps nothing.
    pub fn find() -> Result<Self, NoDriver> {
        let found = symbol(c"cuDriverGetVersion")?;
        if found.is_null() {
            return Err(NoDriver::NotADriver);
        }
        // SAFETY: cuda.h declares the function with this type.
        let query = unsafe { std::mem::transmute::<*mut c_void, unsafe extern "C" fn(*mut c_int) -> c_int>(found) };
        let mut version: c_int = 0;
        // SAFETY: the function only writes the number, and may be called before cuInit.
        let code = unsafe { query(&raw mut version) };
        match (code, u32::try_from(version)) {
            (0, Ok(version)) if version > 0 => Ok(Self { version }),
            (code, _) => Err(NoDriver::Refused(code)),
        }
    }

    /// The major version of the driver's CUDA release: 12 for 12.8.
    pub const fn cuda_major(self) -> u32 {
        self.version / 1000
    }
}
