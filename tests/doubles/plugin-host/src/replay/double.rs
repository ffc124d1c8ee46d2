//! The kernels of a recording, played to the double of libcupti (`tests/doubles/fake-cupti`) as if they were launched
//! here, on the devices of the driver that the process has: the stand-in's (`tests/doubles/fake-gpu`).

use std::ffi::{CString, c_char, c_int, c_void};
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use libloading::os::unix::{Library, RTLD_LOCAL, RTLD_NOW};

const RTLD_NOLOAD: c_int = libc::RTLD_NOLOAD;

use super::stream::Kernel;

/// `cuLaunchKernelEx`, which NCCL launches with.
const LAUNCH: u32 = 652;

type Launch = unsafe extern "C" fn(u32, u32, u32, u32, *const c_char, u64, u64, u64) -> u32;
type Drain = unsafe extern "C" fn();
type Retain = unsafe extern "C" fn(*mut *mut c_void, c_int) -> c_int;
type SetCurrent = unsafe extern "C" fn(*mut c_void) -> c_int;

#[derive(Debug)]
pub(crate) struct Double {
    launch: Launch,
    drain: Drain,
    /// `cuDevicePrimaryCtxRetain` and `cuCtxSetCurrent`, where the process has a driver.
    driver: Option<(Retain, SetCurrent)>,
    /// From the recording's clock to the wall clock.
    offset_ns: i128,
}

impl Double {
    /// Maps the double. What was recorded at `first_ns` is now.
    pub(crate) fn load(path: &Path, first_ns: u64) -> Result<Self, libloading::Error> {
        // SAFETY: the double's initialiser reads variables and its own symbol table.
        let library = unsafe { Library::open(Some(path), RTLD_NOW | RTLD_LOCAL) }?;
        // SAFETY: the type of this function by the table in the double's README.
        let launch = *unsafe { library.get::<Launch>(b"fake_cupti_launch\0") }?;
        // SAFETY: as above.
        let drain = *unsafe { library.get::<Drain>(b"fake_cupti_drain\0") }?;
        // Its threads run to the end.
        let _stays = library.into_raw();
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
        let now_ns = i128::try_from(now.as_nanos()).unwrap_or(0);
        Ok(Self { launch, drain, driver: driver(), offset_ns: now_ns - i128::from(first_ns) })
    }

    /// Makes a device current on this thread, as a program does before it makes a communicator.
    pub(crate) fn use_device(&self, device: u32) {
        let Some((retain, set_current)) = self.driver else {
            return;
        };
        let mut context = std::ptr::null_mut();
        // SAFETY: the driver's function, which writes the context.
        let kept = unsafe { retain(&raw mut context, device.cast_signed()) };
        if kept == 0 {
            // SAFETY: the driver's function, and its context.
            let _refused = unsafe { set_current(context) };
        }
    }

    /// Launches a kernel on this thread, which runs when it ran in the recording.
    pub(crate) fn launch(&self, kernel: &Kernel) {
        let at = |ns: u64| u64::try_from(i128::from(ns) + self.offset_ns).unwrap_or(1);
        let name = CString::new(kernel.name.as_str()).unwrap_or_default();
        // SAFETY: the double's function, which copies the name.
        unsafe {
            (self.launch)(
                LAUNCH,
                kernel.device,
                kernel.device + 1,
                kernel.stream,
                name.as_ptr(),
                0,
                at(kernel.start_ns),
                at(kernel.stop_ns),
            );
        }
    }

    pub(crate) fn drain(&self) {
        // SAFETY: the double's function, without arguments.
        unsafe { (self.drain)() };
    }
}

fn driver() -> Option<(Retain, SetCurrent)> {
    // SAFETY: loads nothing.
    let library = unsafe { Library::open(Some("libcuda.so.1"), RTLD_NOW | RTLD_NOLOAD) }.ok()?;
    // SAFETY: the type of this function in cuda.h.
    let retain = *unsafe { library.get::<Retain>(b"cuDevicePrimaryCtxRetain\0") }.ok()?;
    // SAFETY: as above.
    let set_current = *unsafe { library.get::<SetCurrent>(b"cuCtxSetCurrent\0") }.ok()?;
    let _stays = library.into_raw();
    Some((retain, set_current))
}
