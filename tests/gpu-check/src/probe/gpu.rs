//! What launches: the GPU's driver, or the double of CUPTI, which is told of launches that never were.

use std::ffi::c_char;
use std::path::Path;

use libloading::os::unix::{Library, RTLD_LOCAL, RTLD_NOW};

use super::driver::{Device, Driver, EMPTY};
use crate::options::Options;
use crate::outcome::Outcome;

/// `cuLaunchKernel`
const CBID_LAUNCH: u32 = 307;

type Launch = unsafe extern "C" fn(u32, u32, u32, u32, *const c_char, u64, u64, u64) -> u32;
type Drain = unsafe extern "C" fn();

pub(super) enum Gpu {
    Real(Device),
    Double(Launch, Drain),
}

impl Gpu {
    /// Loads the driver and makes the first device ours, as a job has done before it begins with NCCL.
    pub(super) fn start(options: &Options) -> Result<Self, Outcome> {
        let driver = Driver::load(options.driver.as_deref())?;
        match &options.cupti {
            Some(cupti) if options.double => double(cupti),
            _ => Ok(Self::Real(driver.start()?)),
        }
    }

    pub(super) fn launch(&self, count: u32) -> Result<(), Outcome> {
        for _ in 0..count {
            match self {
                Self::Real(device) => device.launch()?,
                Self::Double(launch, _) => {
                    // SAFETY: the double's function; the name lives for ever.
                    unsafe { launch(CBID_LAUNCH, 0, 1, 7, EMPTY.as_ptr(), 0, 0, 0) };
                }
            }
        }
        Ok(())
    }

    pub(super) fn synchronize(&self) -> Result<(), Outcome> {
        match self {
            Self::Real(device) => device.synchronize(),
            Self::Double(_, drain) => {
                // SAFETY: the double's function, which takes nothing.
                unsafe { drain() };
                Ok(())
            }
        }
    }
}

fn double(cupti: &Path) -> Result<Gpu, Outcome> {
    let failed = |error| Outcome::failed(format!("{}: {error}", cupti.display()));
    // SAFETY: the double of libcupti of this project.
    let library = unsafe { Library::open(Some(cupti), RTLD_NOW | RTLD_LOCAL) }.map_err(failed)?;
    // SAFETY: the type that the double's README gives.
    let launch = *unsafe { library.get::<Launch>(b"fake_cupti_launch\0") }.map_err(failed)?;
    // SAFETY: as above.
    let drain = *unsafe { library.get::<Drain>(b"fake_cupti_drain\0") }.map_err(failed)?;
    let _ = library.into_raw();
    Ok(Gpu::Double(launch, drain))
}
