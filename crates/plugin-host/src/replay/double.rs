//! The kernels of a recording, played to the double of libcupti (`crates/fake-cupti`) as if they were launched here.

use std::ffi::{CString, c_char};
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use libloading::os::unix::{Library, RTLD_LOCAL, RTLD_NOW};

use super::stream::Kernel;

/// `cuLaunchKernelEx`, which NCCL launches with.
const LAUNCH: u32 = 652;

type Launch = unsafe extern "C" fn(u32, u32, u32, u32, *const c_char, u64, u64, u64) -> u32;
type Drain = unsafe extern "C" fn();

/// The double, mapped for the rest of the process's life.
#[derive(Debug)]
pub struct Double {
    launch: Launch,
    drain: Drain,
    /// From the recording's clock to the wall clock.
    offset_ns: i128,
}

impl Double {
    /// Maps the double. What was recorded at `first_ns` is now.
    ///
    /// # Errors
    /// When the library cannot be loaded, or is not the double.
    pub fn load(path: &Path, first_ns: u64) -> Result<Self, libloading::Error> {
        // SAFETY: the double's initialiser reads variables and its own symbol table.
        let library = unsafe { Library::open(Some(path), RTLD_NOW | RTLD_LOCAL) }?;
        // SAFETY: the type of this function by the table in the double's README.
        let launch = *unsafe { library.get::<Launch>(b"fake_cupti_launch\0") }?;
        // SAFETY: as above.
        let drain = *unsafe { library.get::<Drain>(b"fake_cupti_drain\0") }?;
        // Its threads run to the end.
        let _stays = library.into_raw();
        let now = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or(Duration::ZERO);
        let now_ns = i128::try_from(now.as_nanos()).unwrap_or(0);
        Ok(Self {
            launch,
            drain,
            offset_ns: now_ns - i128::from(first_ns),
        })
    }

    /// Launches a kernel on this thread, which runs when it ran in the recording.
    pub fn launch(&self, kernel: &Kernel) {
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

    /// Waits until all kernels have run.
    pub fn drain(&self) {
        // SAFETY: the double's function, without arguments.
        unsafe { (self.drain)() };
    }
}
