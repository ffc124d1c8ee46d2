//! Device memory.

use super::entry::Pointer;
use super::{Stream, given_up};
use std::ffi::c_int;
use std::marker::PhantomData;
use std::ops::Range;
use std::ptr::null_mut;

const TO_DEVICE: c_int = 1;
const TO_HOST: c_int = 2;

/// Elements in device memory, used by the operations of one stream. The memory is given back only after that
/// stream was waited for, and never once something has failed: a device that hangs may still be using it.
#[derive(Debug)]
pub(crate) struct Buffer<'s, T> {
    stream: &'s Stream,
    address: Pointer,
    len: usize,
    _elements: PhantomData<T>,
}

impl<'s, T: Copy + Default> Buffer<'s, T> {
    pub(crate) fn fill(stream: &'s Stream, len: usize, value: impl Fn(usize) -> T) -> anyhow::Result<Buffer<'s, T>> {
        let host: Vec<T> = (0..len).map(value).collect();
        let bytes = size_of_val(host.as_slice());
        let cuda = stream.cuda;
        let mut address: Pointer = null_mut();
        // SAFETY: CUDA writes one address through the pointer.
        let result = unsafe { (cuda.entry.malloc)(&raw mut address, bytes.max(1)) };
        cuda.check("cudaMalloc", result)?;
        let buffer = Buffer { stream, address, len, _elements: PhantomData };
        // SAFETY: `address` has room for `bytes`, which is the size of `host`; `host` lives until the stream
        // was waited for below.
        let result =
            unsafe { (cuda.entry.memcpy_async)(address, host.as_ptr().cast(), bytes, TO_DEVICE, stream.raw()) };
        cuda.check("cudaMemcpyAsync", result)?;
        stream.synchronize()?;
        Ok(buffer)
    }

    pub(crate) fn read(&self) -> anyhow::Result<Vec<T>> {
        let mut host = vec![T::default(); self.len];
        let bytes = size_of_val(host.as_slice());
        let (cuda, stream) = (self.stream.cuda, self.stream);
        // SAFETY: both sides have `bytes` bytes, any bytes are a `T` (i32 or f32), and `host` lives until the
        // stream was waited for below.
        let result =
            unsafe { (cuda.entry.memcpy_async)(host.as_mut_ptr().cast(), self.address, bytes, TO_HOST, stream.raw()) };
        cuda.check("cudaMemcpyAsync", result)?;
        stream.synchronize()?;
        Ok(host)
    }

    pub(crate) fn all(&self) -> DeviceSlice<'_, T> {
        DeviceSlice { address: self.address, len: self.len, _buffer: PhantomData }
    }

    pub(crate) fn part(&self, range: Range<usize>) -> anyhow::Result<DeviceSlice<'_, T>> {
        anyhow::ensure!(
            range.start <= range.end && range.end <= self.len,
            "elements {range:?} of a buffer of {}",
            self.len
        );
        Ok(DeviceSlice {
            address: self.address.cast::<T>().wrapping_add(range.start).cast(),
            len: range.len(),
            _buffer: PhantomData,
        })
    }
}

impl<T> Drop for Buffer<'_, T> {
    fn drop(&mut self) {
        if given_up() || self.stream.synchronize().is_err() || self.stream.cuda.keeps_memory {
            return;
        }
        // SAFETY: `address` came from cudaMalloc and is freed once; the only stream that uses it is idle.
        let _ = unsafe { (self.stream.cuda.entry.free)(self.address) };
    }
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct DeviceSlice<'b, T> {
    address: Pointer,
    len: usize,
    _buffer: PhantomData<&'b T>,
}

impl<T> DeviceSlice<'_, T> {
    pub(crate) fn address(&self) -> Pointer {
        self.address
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }
}
