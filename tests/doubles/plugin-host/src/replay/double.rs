//! The kernels of a recording, played to the double of libcupti (`tests/doubles/fake-cupti`) as if they were launched
//! here, on the devices of the driver that the process has: the stand-in's (`tests/doubles/fake-gpu`).

use std::ffi::{CString, c_int, c_void};
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use c_double::Player;
use libloading::os::unix::{Library, RTLD_NOW};

use super::stream::Kernel;

type Retain = unsafe extern "C" fn(*mut *mut c_void, c_int) -> c_int;
type SetCurrent = unsafe extern "C" fn(*mut c_void) -> c_int;

#[derive(Debug)]
pub(crate) struct Double {
    player: Player,
    /// `cuDevicePrimaryCtxRetain` and `cuCtxSetCurrent`, where the process has a driver.
    driver: Option<(Retain, SetCurrent)>,
    /// From the recording's clock to the wall clock.
    offset_ns: i128,
}

impl Double {
    /// Maps the double. What was recorded at `first_ns` is now.
    pub(crate) fn load(path: &Path, first_ns: u64) -> Result<Self, libloading::Error> {
        let player = Player::load(path)?;
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
        let now_ns = i128::try_from(now.as_nanos()).unwrap_or(0);
        Ok(Self { player, driver: driver(), offset_ns: now_ns - i128::from(first_ns) })
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
        self.player.launch(kernel.device, kernel.stream, &name, [kernel.start_ns, kernel.stop_ns].map(at));
    }

    pub(crate) fn drain(&self) {
        self.player.drain();
    }
}

fn driver() -> Option<(Retain, SetCurrent)> {
    // SAFETY: loads nothing.
    let library = unsafe { Library::open(Some("libcuda.so.1"), RTLD_NOW | libc::RTLD_NOLOAD) }.ok()?;
    // SAFETY: the type of this function in cuda.h.
    let retain = *unsafe { library.get::<Retain>(b"cuDevicePrimaryCtxRetain\0") }.ok()?;
    // SAFETY: as above.
    let set_current = *unsafe { library.get::<SetCurrent>(b"cuCtxSetCurrent\0") }.ok()?;
    let _stays = library.into_raw();
    Some((retain, set_current))
}
