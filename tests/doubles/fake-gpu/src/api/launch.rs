//! Launches of kernels, and what becomes of a device that met one it cannot emulate.

use super::call::{Handle, Outcome, code, driver, event_of, give, runtime, stream_of};
use crate::cupti::{self, Activity, cbid};
use crate::device_memory::Addr;
use crate::kernel::{Launch, Library};
use crate::log::{break_device, is_broken, warning};
use crate::stream::Op;
use c_double::args::{In, Out};
use std::ffi::{CString, c_int, c_uint, c_ulonglong};
use std::sync::Arc;

pub(super) fn health() -> Outcome {
    if is_broken() { Err(code::LAUNCH_FAILURE) } else { Ok(()) }
}

/// A block of arguments shorter than this is not NCCL's.
const SHORTEST: usize = 32;

/// Queues the launch of a kernel whose arguments are one block of bytes.
/// `cbid` is CUPTI's number of the function that the caller used.
fn launch(function: Handle, stream: Handle, block: Option<(usize, usize)>, cbid: u32) -> Outcome {
    let stream = stream_of(stream)?;
    let library = Library::current().ok_or(code::INVALID)?;
    let name = library.kernels.get(&function.addr()).map_or("", String::as_str);
    let block = block.filter(|(address, len)| *address != 0 && *len >= SHORTEST);
    let Some((address, len)) = block.filter(|_| name.contains("ncclDevKernel_")) else {
        warning!("kernel {name:?} at {function:?} is not emulated");
        break_device();
        return Ok(());
    };
    // SAFETY: NCCL's own argument block, which it keeps during the call; it is of the size it says, or declared as
    // `MAX_BLOCK` bytes where it is passed as a parameter.
    let job = Launch::copy(unsafe { Addr::new(address) }, len);
    let own_name = CString::new(name).unwrap_or_default();
    let op: Op = Arc::new(move |occasion| {
        let _running = cupti::begin(occasion, &Activity::Kernel(&own_name));
        job.run(&library);
    });
    stream.submit(op, false, cupti::api_call(cupti::DRIVER, cbid));
    Ok(())
}

/// `CU_LAUNCH_PARAM_END`, `_BUFFER_POINTER`, `_BUFFER_SIZE`
const END: usize = 0;
const BUFFER_POINTER: usize = 1;
const BUFFER_SIZE: usize = 2;

/// Room for the argument block of a kernel (the limit of CUDA up to 12).
const MAX_BLOCK: usize = 4096;

/// The argument block passed through the `extra` array of a launch: pairs of a key and a pointer. Some launches pass it
/// as the one kernel parameter instead.
fn block_of(parameters: In<In<usize>>, extra: In<In<usize>>) -> Option<(usize, usize)> {
    let (mut pointer, mut len) = (0, 0);
    for index in (0..).step_by(2) {
        let Some(key) = extra.element(index) else {
            break;
        };
        match key.address() {
            END => break,
            BUFFER_POINTER => pointer = extra.element(index + 1)?.address(),
            BUFFER_SIZE => len = extra.element(index + 1)?.get()?,
            _ => return None,
        }
    }
    if pointer != 0 { Some((pointer, len)) } else { Some((parameters.get()?.address(), MAX_BLOCK)) }
}

/// `CUlaunchConfig`
#[repr(C)]
#[derive(Clone, Copy)]
struct LaunchConfig {
    grid: [c_uint; 3],
    block: [c_uint; 3],
    shared_bytes: c_uint,
    stream: Handle,
    attributes: In<LaunchAttribute>,
    count: c_uint,
}

/// `CUlaunchAttribute`
#[repr(C)]
#[derive(Clone, Copy)]
struct LaunchAttribute {
    id: c_uint,
    padding: c_uint,
    value: [Handle; 8],
}

/// `CU_LAUNCH_ATTRIBUTE_LAUNCH_COMPLETION_EVENT`
const LAUNCH_COMPLETION_EVENT: c_uint = 12;

driver! {
    fn cuLaunchKernel(function: Handle, _grid_x: c_uint, _grid_y: c_uint, _grid_z: c_uint, _block_x: c_uint,
                      _block_y: c_uint, _block_z: c_uint, _shared: c_uint, stream: Handle,
                      parameters: In<In<usize>>, extra: In<In<usize>>) {
        launch(function, stream, block_of(parameters, extra), cbid::LAUNCH_KERNEL)
    }
    fn cuLaunchKernelEx(config: In<LaunchConfig>, function: Handle, parameters: In<In<usize>>,
                        extra: In<In<usize>>) {
        let config = config.get().ok_or(code::INVALID)?;
        let attributes = (0..config.count as usize).map_while(|index| config.attributes.element(index));
        for attribute in attributes.filter(|attribute| attribute.id == LAUNCH_COMPLETION_EVENT) {
            event_of(attribute.value[0])?.record(&stream_of(config.stream)?);
        }
        launch(function, config.stream, block_of(parameters, extra), cbid::LAUNCH_KERNEL_EX)
    }
}

runtime! {
    fn cudaFuncGetAttributes(out: Out<u8>, _function: Handle) {
        // sizes, then maxThreadsPerBlock, numRegs, ptxVersion, binaryVersion
        let mut head = [0; 40];
        head[24..28].copy_from_slice(&1024_i32.to_le_bytes());
        head[28..32].copy_from_slice(&96_i32.to_le_bytes());
        out.set_all(&head);
        Ok(())
    }
    fn cudaFuncSetAttribute(_function: Handle, _attribute: c_int, _value: c_int) { Ok(()) }
    fn cudaGetFuncBySymbol(function: Out<Handle>, symbol: Handle) { give(function, symbol) }
    // NCCL launches its kernels through the driver; what comes here is some other kernel.
    fn cudaLaunchKernel(function: Handle, _grid_xy: c_ulonglong, _grid_z: c_uint, _block_xy: c_ulonglong,
                        _block_z: c_uint, _arguments: Handle, _shared: usize, stream: Handle) {
        launch(function, stream, None, cbid::LAUNCH_KERNEL)
    }
}
