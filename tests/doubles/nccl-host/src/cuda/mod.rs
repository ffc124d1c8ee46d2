//! A safe view of the CUDA runtime: the preloaded stand-in's, the host's, or one found here.
//!
//! Device memory is only reached through `cudaMemcpyAsync`, as a real GPU requires; the host never touches it.

mod buffer;
mod entry;
mod find;
mod graph;
mod stream;

pub(crate) use buffer::{Buffer, DeviceSlice};
pub(crate) use graph::Graph;
pub(crate) use stream::{Device, Stream};

use entry::Entry;
use std::ffi::{CStr, c_char, c_int};
use std::sync::atomic::{AtomicBool, Ordering};

/// Set by the first NCCL or CUDA error of the process: what the operation left behind may be in use for ever, so
/// nothing waits for it or frees it.
static GIVEN_UP: AtomicBool = AtomicBool::new(false);

fn given_up() -> bool {
    GIVEN_UP.load(Ordering::Relaxed)
}

/// The CUDA runtime. It stays mapped until the process ends.
#[derive(Debug)]
pub(crate) struct Cuda {
    entry: Entry,
    pub(crate) origin: String,
    pub(crate) is_fake: bool,
    /// Ranks of this process share a device. Giving memory back waits for all that runs there: also for an operation of
    /// another rank, which may wait for this one. So memory is kept.
    pub(crate) keeps_memory: bool,
}

impl Cuda {
    pub(crate) fn device_count(&self) -> anyhow::Result<usize> {
        let mut count: c_int = 0;
        // SAFETY: CUDA writes one int through the pointer.
        let result = unsafe { (self.entry.get_device_count)(&raw mut count) };
        self.check("cudaGetDeviceCount", result)?;
        let count = usize::try_from(count).unwrap_or(0);
        anyhow::ensure!(count > 0, "no CUDA device (runtime: {}); without a GPU use --fake-gpu", self.origin);
        Ok(count)
    }

    pub(crate) fn set_device(&self, device: usize) -> anyhow::Result<()> {
        let device = c_int::try_from(device)?;
        // SAFETY: takes a number by value.
        let result = unsafe { (self.entry.set_device)(device) };
        self.check("cudaSetDevice", result)
    }

    fn check(&self, call: &'static str, result: c_int) -> anyhow::Result<()> {
        check(call, result, self.entry.get_error_string)
    }
}

/// Turns an error code of CUDA or NCCL into a message; after an error nothing is waited for or freed.
pub(crate) fn check(
    call: &'static str,
    result: c_int,
    text_of: unsafe extern "C" fn(c_int) -> *const c_char,
) -> anyhow::Result<()> {
    if result == 0 {
        return Ok(());
    }
    GIVEN_UP.store(true, Ordering::Relaxed);
    // SAFETY: takes any code by value and returns a pointer to a constant text.
    let text: *const c_char = unsafe { text_of(result) };
    if text.is_null() {
        anyhow::bail!("{call}: error {result}");
    }
    // SAFETY: not NULL: a constant, NUL-terminated text inside the library, which stays mapped.
    let text = unsafe { CStr::from_ptr(text) };
    anyhow::bail!("{call}: {} ({result})", text.to_string_lossy())
}
