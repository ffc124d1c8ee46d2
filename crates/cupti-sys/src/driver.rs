//! Whether the process has a GPU driver that answers.
//!
//! Without one CUPTI must not be touched: some releases end the process as soon as they are asked for their version,
//! others say nothing but "unknown error". And a process that has not mapped `libcuda` runs nothing on a GPU.

use std::ffi::{CStr, c_int, c_void};
use std::fmt;

/// A driver that answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Driver {
    /// `cuDriverGetVersion`: 12080 for CUDA 12.8.
    pub version: u32,
}

/// Why there is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoDriver {
    /// `libcuda.so.1` is not mapped.
    NotMapped,
    /// It has no `cuDriverGetVersion`.
    NotADriver,
    /// It gave this error: 34 is the stub of a CUDA toolkit.
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

/// A function of the mapped driver; NULL where there is none. Maps nothing.
fn symbol(name: &CStr) -> Result<*mut c_void, NoDriver> {
    // SAFETY: a string that ends; with RTLD_NOLOAD nothing is mapped and no code of a library runs.
    let handle = unsafe { libc::dlopen(c"libcuda.so.1".as_ptr(), libc::RTLD_NOW | libc::RTLD_NOLOAD) };
    if handle.is_null() {
        return Err(NoDriver::NotMapped);
    }
    // The handle is kept: what libcuda gave out must not go away under us.
    // SAFETY: a handle of dlopen's that was not closed, and a string that ends.
    Ok(unsafe { libc::dlsym(handle, name.as_ptr()) })
}

impl Driver {
    /// Finds the driver that is mapped; maps none.
    pub fn find() -> Result<Self, NoDriver> {
        let found = symbol(c"cuDriverGetVersion")?;
        if found.is_null() {
            return Err(NoDriver::NotADriver);
        }
        // SAFETY: the type of this function in cuda.h.
        let ask = unsafe { std::mem::transmute::<*mut c_void, unsafe extern "C" fn(*mut c_int) -> c_int>(found) };
        let mut version: c_int = 0;
        // SAFETY: it only writes the number, and may be called before cuInit.
        let code = unsafe { ask(&raw mut version) };
        match (code, u32::try_from(version)) {
            (0, Ok(version)) if version > 0 => Ok(Self { version }),
            (code, _) => Err(NoDriver::Refused(code)),
        }
    }

    /// The CUDA release that the driver is of: 12 for 12.8.
    pub const fn cuda_major(self) -> u32 {
        self.version / 1000
    }
}
