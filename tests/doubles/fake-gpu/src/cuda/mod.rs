//! The functions of the CUDA runtime that NCCL (and a small host program) uses.
//!
//! One file per part of the interface; each has its list of functions, from which the injected library is
//! redirected. What the parts share is here: error codes and the macro that makes the functions.

mod capture;
mod device;
mod events;
mod graphs;
mod launch;
mod memory;
mod streams;

pub(crate) use device::{
    FIRST_BUS, PCI_DOMAIN, attribute, bus_id, bus_id_to_device, capability, device, device_count,
    exists, is_chosen, set_device, unchoose,
};
pub(crate) use launch::{break_device, launch};

use crate::inject;
use std::cell::Cell;
use std::ffi::{CStr, c_char, c_int};
use std::sync::Arc;

pub(crate) const OK: c_int = 0;
pub(crate) const INVALID: c_int = 1;
const NO_MEMORY: c_int = 2;
pub(crate) const BAD_DEVICE: c_int = 101;
pub(crate) const BAD_HANDLE: c_int = 400;
pub(crate) const NOT_READY: c_int = 600;
const LAUNCH_FAILURE: c_int = 719;

/// Newer than every runtime that the published libraries are built with.
pub(crate) const DRIVER_VERSION: c_int = 13040;

thread_local! {
    static LAST: Cell<c_int> = const { Cell::new(0) };
}

/// An error, also kept for `cudaGetLastError`.
fn fail(error: c_int) -> c_int {
    LAST.set(error);
    error
}

/// The text of an error code of the runtime or the driver.
pub(crate) fn error_text(error: c_int) -> &'static CStr {
    match error {
        0 => c"no error",
        1 => c"invalid argument",
        2 => c"out of memory",
        101 => c"invalid device ordinal",
        400 => c"invalid resource handle",
        600 => c"device not ready",
        34 => c"stub library",
        719 => c"the kernel is not emulated",
        800 => c"operation not permitted",
        900 => c"operation not permitted when stream is capturing",
        901 => c"operation failed due to a previous error during capture",
        907 => c"operation not permitted on an event last recorded in a capturing stream",
        801 => c"operation not supported",
        _ => c"fake device error",
    }
}

/// Makes C functions under their own names.
macro_rules! functions {
    ($(fn $name:ident($($arg:ident: $ty:ty),* $(,)?) -> $ret:ty $body:block)*) => {
        $(
            #[unsafe(no_mangle)]
            extern "C" fn $name($($arg: $ty),*) -> $ret {
                $crate::log::debug!(2, "{}", stringify!($name));
                $body
            }
        )*
    };
}
pub(crate) use functions;

/// Makes C functions under their own names, and the list of their names and addresses.
macro_rules! api {
    ($(fn $name:ident($($arg:ident: $ty:ty),* $(,)?) -> $ret:ty $body:block)*) => {
        $crate::cuda::functions! {
            $(fn $name($($arg: $ty),*) -> $ret $body)*
        }
        /// Names and addresses of the functions above.
        pub(crate) fn hooks() -> Vec<(&'static str, usize)> {
            vec![$((stringify!($name), ($name as *const ()).expose_provenance())),*]
        }
    };
}
pub(crate) use api;

/// All functions of the runtime that there are.
pub(crate) fn hooks() -> Vec<(&'static str, usize)> {
    [
        errors::hooks(),
        device::hooks(),
        memory::hooks(),
        streams::hooks(),
        capture::hooks(),
        graphs::hooks(),
        events::hooks(),
        launch::hooks(),
    ]
    .concat()
}

/// A handle as the C side sees it.
type Handle = *mut std::ffi::c_void;

fn handle(value: usize) -> Handle {
    std::ptr::without_provenance_mut(value)
}

fn stream_of(stream: Handle) -> Option<Arc<crate::stream::Stream>> {
    crate::stream::get(stream.addr(), device())
}

mod errors {
    use super::{DRIVER_VERSION, LAST, OK, c_char, c_int, error_text, inject};
    use c_double::args::Out;

    api! {
        fn cudaDriverGetVersion(version: Out<c_int>) -> c_int {
            version.set(DRIVER_VERSION);
            OK
        }
        fn cudaRuntimeGetVersion(version: Out<c_int>) -> c_int {
            version.set(inject::library().map_or(12000, |l| l.cuda));
            OK
        }
        fn cudaGetLastError() -> c_int { LAST.replace(0) }
        fn cudaPeekAtLastError() -> c_int { LAST.get() }
        fn cudaGetErrorString(error: c_int) -> *const c_char { error_text(error).as_ptr() }
        fn cudaGetErrorName(error: c_int) -> *const c_char { error_text(error).as_ptr() }
        fn cudaProfilerStart() -> c_int { OK }
        fn cudaProfilerStop() -> c_int { OK }
    }
}
