//! Devices and their streams.

use super::entry::Pointer;
use super::{Cuda, given_up};

#[derive(Debug, Clone, Copy)]
pub(crate) struct Device {
    pub(crate) cuda: &'static Cuda,
    pub(crate) number: usize,
}

impl Device {
    /// A stream of this device, which also becomes the calling thread's.
    pub(crate) fn stream(self) -> anyhow::Result<Stream> {
        self.cuda.set_device(self.number)?;
        let mut raw: Pointer = null_mut();
        // SAFETY: CUDA writes one handle through the pointer.
        let result = unsafe { (self.cuda.entry.stream_create)(&raw mut raw, NON_BLOCKING) };
        self.cuda.check("cudaStreamCreateWithFlags", result)?;
        Ok(Stream { cuda: self.cuda, device: self, raw })
    }
}
use std::mem::ManuallyDrop;
use std::ptr::null_mut;

/// cudaStreamNonBlocking: not ordered with the default stream.
const NON_BLOCKING: u32 = 1;

#[derive(Debug)]
pub(crate) struct Stream {
    pub(super) cuda: &'static Cuda,
    pub(crate) device: Device,
    raw: Pointer,
}

impl Stream {
    pub(crate) fn raw(&self) -> Pointer {
        self.raw
    }

    pub(crate) fn leak(self) {
        let _ = ManuallyDrop::new(self);
    }

    pub(crate) fn synchronize(&self) -> anyhow::Result<()> {
        // SAFETY: the handle is live until drop.
        let result = unsafe { (self.cuda.entry.stream_synchronize)(self.raw) };
        self.cuda.check("cudaStreamSynchronize", result)
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        if !given_up() {
            // SAFETY: the handle is live and, as this is drop, not used again. CUDA finishes pending work first.
            let _ = unsafe { (self.cuda.entry.stream_destroy)(self.raw) };
        }
    }
}
