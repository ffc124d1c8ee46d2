//! Plays kernels to the double of libcupti, in a program that has no device to launch them on.

use libloading::os::unix::{Library, RTLD_LOCAL, RTLD_NOW};
use std::ffi::{CStr, c_char};
use std::path::Path;

/// `cuLaunchKernelEx`, which NCCL launches with.
const LAUNCH: u32 = 652;

type Launch = unsafe extern "C" fn(u32, u32, u32, u32, *const c_char, u64, u64, u64) -> u32;
type Drain = unsafe extern "C" fn();

#[derive(Debug)]
pub struct Player {
    launch: Launch,
    drain: Drain,
}

impl Player {
    /// Maps the double for good: its threads run to the end.
    pub fn load(path: &Path) -> Result<Self, libloading::Error> {
        // SAFETY: the double's initialiser reads variables and its own symbol table.
        let library = unsafe { Library::open(Some(path), RTLD_NOW | RTLD_LOCAL) }?;
        // SAFETY: the type of this function by the table in the double's README.
        let launch = *unsafe { library.get::<Launch>(b"fake_cupti_launch\0") }?;
        // SAFETY: as above.
        let drain = *unsafe { library.get::<Drain>(b"fake_cupti_drain\0") }?;
        let _stays = library.into_raw();
        Ok(Self { launch, drain })
    }

    /// Launches a kernel on this thread, which runs between these times (0: by the double's own clock); gives the
    /// launch's correlation id.
    pub fn launch(&self, device: u32, stream: u32, name: &CStr, [start_ns, end_ns]: [u64; 2]) -> u32 {
        // SAFETY: the double's function, which copies the name.
        unsafe { (self.launch)(LAUNCH, device, device + 1, stream, name.as_ptr(), 0, start_ns, end_ns) }
    }

    /// Waits until all that was launched has its record.
    pub fn drain(&self) {
        // SAFETY: the double's function, without arguments.
        unsafe { (self.drain)() };
    }
}
