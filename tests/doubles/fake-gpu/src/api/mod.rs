//! The functions of the CUDA runtime that NCCL and small host programs use, and those of the driver and of NVML.
//!
//! The driver's functions are there twice: for NCCL, which asks for them by name, and for tools, which find this
//! library where they look for `libcuda.so.1`. The tools' functions call [`call::faults`] first.

pub(crate) mod call;
mod captures;
mod devices;
mod events;
mod graphs;
mod launch;
mod memory;
mod nvml;
mod streams;

use crate::kernel::Library;
use c_double::args::{Out, Text};
use call::{Handle, LAST, Outcome, error_text, exported, give, runtime};
use devices::DRIVER_VERSION;
use std::ffi::{c_char, c_int, c_uint, c_ulonglong};

fn address(lists: &[&[(&str, *const ())]], name: &str) -> Option<usize> {
    let found = lists.iter().copied().flatten().find(|(own, _)| *own == name)?;
    Some(found.1.expose_provenance())
}

pub(crate) fn runtime_address(name: &str) -> Option<usize> {
    let lists = [
        RUNTIME,
        ERRORS,
        devices::RUNTIME,
        memory::RUNTIME,
        streams::RUNTIME,
        captures::RUNTIME,
        graphs::RUNTIME,
        events::RUNTIME,
        launch::RUNTIME,
    ];
    address(&lists, name)
}

/// Address of a driver function by name, as NCCL is given it; one that is not implemented is a stub that reports the
/// call.
fn driver_symbol(name: &str) -> usize {
    let own = address(&[devices::DRIVER, launch::DRIVER, memory::DRIVER], name);
    own.unwrap_or_else(|| crate::code::missing(name))
}

fn entry_point(name: Text, function: Out<Handle>, status: Out<c_int>) -> Outcome {
    let address = driver_symbol(&name.get());
    function.set(std::ptr::with_exposed_provenance_mut(address));
    give(status, 0)
}

runtime! {
    fn cudaDriverGetVersion(version: Out<c_int>) { give(version, DRIVER_VERSION) }
    fn cudaRuntimeGetVersion(version: Out<c_int>) {
        give(version, Library::current().map_or(12000, |library| library.cuda))
    }
    fn cudaProfilerStart() { Ok(()) }
    fn cudaProfilerStop() { Ok(()) }
    fn cudaGetDriverEntryPoint(name: Text, function: Out<Handle>, _flags: c_ulonglong, status: Out<c_int>) {
        entry_point(name, function, status)
    }
    fn cudaGetDriverEntryPointByVersion(name: Text, function: Out<Handle>, _version: c_uint, _flags: c_ulonglong,
                                        status: Out<c_int>) {
        entry_point(name, function, status)
    }
}

exported! {
    fn cudaGetLastError() -> c_int { LAST.replace(0) }
    fn cudaPeekAtLastError() -> c_int { LAST.get() }
    fn cudaGetErrorString(error: c_int) -> *const c_char { error_text(error).as_ptr() }
    fn cudaGetErrorName(error: c_int) -> *const c_char { error_text(error).as_ptr() }
}

const ERRORS: &[(&str, *const ())] = &[
    ("cudaGetLastError", cudaGetLastError as *const ()),
    ("cudaPeekAtLastError", cudaPeekAtLastError as *const ()),
    ("cudaGetErrorString", cudaGetErrorString as *const ()),
    ("cudaGetErrorName", cudaGetErrorName as *const ()),
];
