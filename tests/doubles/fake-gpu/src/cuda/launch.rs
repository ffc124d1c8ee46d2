//! Launches of kernels, and what becomes of a device that met one it cannot emulate.

use super::{BAD_HANDLE, Handle, INVALID, LAUNCH_FAILURE, OK, api, fail, stream_of};
use crate::cupti::{self, What, cbid};
use crate::device_memory::Addr;
use crate::inject;
use crate::kernel::Launch;
use crate::log::{debug, warning};
use crate::stream::Op;
use c_double::args::{Out, Text};
use std::ffi::{CString, c_int, c_uint, c_ulonglong};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Set when a kernel could not be emulated: waiting for a stream then fails, so that the host program stops
/// instead of hanging.
static BROKEN: AtomicBool = AtomicBool::new(false);

pub(crate) fn break_device() {
    BROKEN.store(true, Ordering::Relaxed);
}

pub(super) fn health() -> c_int {
    if BROKEN.load(Ordering::Relaxed) {
        fail(LAUNCH_FAILURE)
    } else {
        OK
    }
}

/// A block of arguments shorter than this is none of NCCL's.
const SHORTEST: usize = 32;

/// Queues the launch of a kernel whose arguments are one block of bytes.
/// `cbid` is CUPTI's number of the function that the caller used.
pub(crate) fn launch(
    function: Handle,
    stream: Handle,
    arguments: Addr,
    len: usize,
    cbid: u32,
) -> c_int {
    let Some(stream) = stream_of(stream) else {
        return fail(BAD_HANDLE);
    };
    let Some(library) = inject::library() else {
        return fail(INVALID);
    };
    let name = library
        .kernels
        .get(&function.addr())
        .map_or("", String::as_str);
    debug!(1, "launch {name} {len} bytes on stream {}", stream.id);
    if !name.contains("ncclDevKernel_") || arguments.is_null() || len < SHORTEST {
        warning!("kernel {name:?} at {function:?} is not emulated");
        break_device();
        return OK;
    }
    let job = Launch::copy(arguments, len);
    let own_name = CString::new(name).unwrap_or_default();
    let op: Op = Arc::new(move |occasion| {
        let running = cupti::begin(occasion, &What::Kernel(&own_name));
        job.run(&library);
        if let Some(running) = running {
            running.end();
        }
    });
    stream.submit_from(op, false, cupti::api_call(cupti::DRIVER, cbid));
    OK
}

fn entry_point(name: &Text, function: &Out<Handle>, status: &Out<c_int>) -> c_int {
    let address = inject::driver_symbol(&name.get());
    function.set(std::ptr::with_exposed_provenance_mut(address));
    status.set(0);
    OK
}

api! {
    fn cudaFuncGetAttributes(out: Out<u8>, _function: Handle) -> c_int {
        // sizes, then maxThreadsPerBlock, numRegs, ptxVersion, binaryVersion
        let mut head = [0; 40];
        head[24..28].copy_from_slice(&1024_i32.to_le_bytes());
        head[28..32].copy_from_slice(&96_i32.to_le_bytes());
        out.set_all(&head);
        OK
    }
    fn cudaFuncSetAttribute(_function: Handle, _attribute: c_int, _value: c_int) -> c_int { OK }
    fn cudaGetFuncBySymbol(function: Out<Handle>, symbol: Handle) -> c_int {
        function.set(symbol);
        OK
    }
    // NCCL launches its kernels through the driver; what comes here is some other kernel.
    fn cudaLaunchKernel(function: Handle, _grid_xy: c_ulonglong, _grid_z: c_uint, _block_xy: c_ulonglong,
                        _block_z: c_uint, _arguments: Handle, _shared: usize, stream: Handle) -> c_int {
        launch(function, stream, Addr::NULL, 0, cbid::LAUNCH_KERNEL)
    }
    fn cudaGetDriverEntryPoint(name: Text, function: Out<Handle>, _flags: c_ulonglong, status: Out<c_int>) -> c_int {
        entry_point(&name, &function, &status)
    }
    fn cudaGetDriverEntryPointByVersion(name: Text, function: Out<Handle>, _version: c_uint, _flags: c_ulonglong,
                                        status: Out<c_int>) -> c_int {
        entry_point(&name, &function, &status)
    }
}
