//! What launches: the GPU's driver, or the double of CUPTI, which is told of launches that never were.

use std::ffi::{CStr, c_char};
use std::path::Path;
use std::ptr::null_mut;

use libloading::os::unix::{Library, RTLD_LOCAL, RTLD_NOW};

use super::driver::{Device, Driver, Form, Stream};
use crate::options::ProbeRequest;
use crate::outcome::Outcome;

/// `cuLaunchKernel`
const CBID_LAUNCH: u32 = 307;

/// Name of the kernel that does nothing.
pub(super) const EMPTY: &CStr = c"gpu_check_empty";

/// A GPU or what stands in for it.
pub(super) enum Gpu {
    Real(Device, Stream),
    Double(Double),
}

impl Gpu {
    /// Loads the driver and makes the first device ours, as a job has done before it begins with NCCL.
    pub(super) fn start(request: &ProbeRequest) -> Result<Self, Outcome> {
        let driver = Driver::load(request.driver.as_deref())?;
        if request.double {
            let cupti = request.cupti.as_deref();
            let cupti = cupti.ok_or_else(|| Outcome::failed("the double needs --cupti"))?;
            return Double::load(cupti).map(Gpu::Double);
        }
        let device = driver.start()?;
        let stream = device.stream()?;
        Ok(Self::Real(device, stream))
    }

    /// The device, where there is one.
    pub(super) fn device(&self) -> Result<(Device, Stream), Outcome> {
        match self {
            Self::Real(device, stream) => Ok((*device, *stream)),
            Self::Double(_) => Err(Outcome::not_here("needs a GPU")),
        }
    }

    /// Launches kernels that do nothing.
    pub(super) fn launch(&self, count: u32) -> Result<(), Outcome> {
        for _ in 0..count {
            match self {
                Self::Real(device, stream) => device.launch(*stream, Form::ONE)?,
                Self::Double(double) => double.launch(),
            }
        }
        Ok(())
    }

    /// Waits until they have run.
    pub(super) fn synchronize(&self) -> Result<(), Outcome> {
        match self {
            Self::Real(device, stream) => device.synchronize(*stream),
            Self::Double(double) => {
                double.drain();
                Ok(())
            }
        }
    }
}

/// The double's control functions.
pub(super) struct Double {
    launch: unsafe extern "C" fn(u32, u32, u32, u32, *const c_char, u64, u64, u64) -> u32,
    drain: unsafe extern "C" fn(),
}

impl Double {
    fn load(cupti: &Path) -> Result<Self, Outcome> {
        let failed = |error| Outcome::failed(format!("{}: {error}", cupti.display()));
        // SAFETY: the double of libcupti of this project.
        let library =
            unsafe { Library::open(Some(cupti), RTLD_NOW | RTLD_LOCAL) }.map_err(failed)?;
        // SAFETY: the type that the double's README gives.
        let launch = unsafe { library.get(b"fake_cupti_launch\0") }.map_err(failed)?;
        // SAFETY: as above.
        let drain = unsafe { library.get(b"fake_cupti_drain\0") }.map_err(failed)?;
        let double = Self {
            launch: *launch,
            drain: *drain,
        };
        let _ = library.into_raw();
        Ok(double)
    }

    fn launch(&self) {
        // SAFETY: the double's function; the name lives for ever.
        unsafe { (self.launch)(CBID_LAUNCH, 0, 1, 7, EMPTY.as_ptr(), 0, 0, 0) };
    }

    fn drain(&self) {
        // SAFETY: the double's function, which takes nothing.
        unsafe { (self.drain)() };
    }
}

/// CUPTI's number of a stream of the current context.
pub(super) fn cupti_stream_id(cupti: &Path, stream: Stream) -> Result<u32, Outcome> {
    type GetStreamId = unsafe extern "C" fn(*mut (), *mut std::ffi::c_void, u8, *mut u32) -> i32;
    let failed = |error| Outcome::failed(format!("{}: {error}", cupti.display()));
    // SAFETY: CUPTI, which is loaded already.
    let library = unsafe { Library::open(Some(cupti), RTLD_NOW | RTLD_LOCAL) }.map_err(failed)?;
    // SAFETY: the type of cuptiGetStreamIdEx in cupti.h.
    let ask = unsafe { library.get::<GetStreamId>(b"cuptiGetStreamIdEx\0") }.map_err(failed)?;
    let mut id = 0;
    // SAFETY: NULL is the current context; the stream is live; CUPTI writes one number.
    let code = unsafe { ask(null_mut(), stream.raw(), 0, &raw mut id) };
    let result = super::tool::succeeded("cuptiGetStreamIdEx", cupti_sys::Code(code)).map(|()| id);
    let _ = library.into_raw();
    result
}
