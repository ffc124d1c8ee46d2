//! The functions of the CUDA runtime that NCCL (and a small host program) uses, and those of the driver and of NVML.
//!
//! The driver's functions are there twice: for NCCL, which asks for them by name, and for tools, which find this
//! library where they look for `libcuda.so.1`. Those of tools pass [`faults`] first.

mod captures;
mod devices;
mod events;
pub(crate) mod faults;
mod graphs;
pub(crate) mod host_callback;
mod launch;
mod memory;
mod nvml;
mod streams;

pub(crate) use devices::device;

use crate::kernel::Library;
use crate::stream::{EVENTS, Event, Stream};
use c_double::args::Out;
use std::cell::Cell;
use std::ffi::{CStr, c_char, c_int, c_void};
use std::sync::Arc;

/// A handle as the C side sees it.
type Handle = *mut c_void;
/// What a function comes to: an error is a code of CUDA's.
type Outcome = Result<(), c_int>;

/// `cudaError_t`, `CUresult`
mod code {
    use std::ffi::c_int;

    pub(super) const INVALID: c_int = 1;
    pub(super) const OUT_OF_MEMORY: c_int = 2;
    pub(super) const STUB_LIBRARY: c_int = 34;
    pub(super) const BAD_DEVICE: c_int = 101;
    pub(super) const INVALID_CONTEXT: c_int = 201;
    pub(super) const BAD_HANDLE: c_int = 400;
    pub(super) const NOT_READY: c_int = 600;
    pub(super) const LAUNCH_FAILURE: c_int = 719;
    pub(super) const NOT_PERMITTED: c_int = 800;
    pub(super) const NOT_SUPPORTED: c_int = 801;
    pub(super) const CAPTURE_UNSUPPORTED: c_int = 900;
    pub(super) const CAPTURE_INVALIDATED: c_int = 901;
    pub(super) const CAPTURED_EVENT: c_int = 907;
    pub(super) const UNKNOWN: c_int = 999;
}

/// The text of an error code.
fn error_text(error: c_int) -> &'static CStr {
    match error {
        0 => c"no error",
        code::LAUNCH_FAILURE => c"the kernel is not emulated",
        code::NOT_READY => c"device not ready",
        code::NOT_SUPPORTED => c"operation not supported",
        code::CAPTURE_INVALIDATED => c"operation failed due to a previous error during capture",
        _ => c"an error of the emulated device",
    }
}

/// Newer than every runtime that the published libraries are built with.
const DRIVER_VERSION: c_int = 13040;

thread_local! {
    static LAST: Cell<c_int> = const { Cell::new(0) };
}

/// The code of an outcome; an error is also kept for `cudaGetLastError`.
fn kept(outcome: Outcome) -> c_int {
    let code = outcome.err().unwrap_or(0);
    if code != 0 && code != code::NOT_READY {
        LAST.set(code);
    }
    code
}

/// Makes C functions that tools and libraries find by their names.
macro_rules! exported {
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

/// Makes functions of the runtime, and the list of them, from which the injected library is redirected.
macro_rules! runtime {
    ($(fn $name:ident($($arg:ident: $ty:ty),* $(,)?) $body:block)*) => {
        $crate::api::exported! {
            $(fn $name($($arg: $ty),*) -> std::ffi::c_int {
                let run = || -> $crate::api::Outcome { $body };
                $crate::api::kept(run())
            })*
        }
        pub(super) const RUNTIME: &[(&str, *const ())] = &[$((stringify!($name), $name as *const ())),*];
    };
}

/// Makes functions of the driver that only tools find.
macro_rules! tools {
    ($(fn $name:ident($($arg:ident: $ty:ty),* $(,)?) $body:block)*) => {
        mod tools {
            use super::*;
            $crate::api::exported! {
                $(fn $name($($arg: $ty),*) -> std::ffi::c_int {
                    let run = || -> $crate::api::Outcome {
                        $crate::api::faults::pass(stringify!($name))?;
                        $body
                    };
                    run().err().unwrap_or(0)
                })*
            }
        }
    };
}

/// Makes functions of the driver, for NCCL and for tools.
macro_rules! driver {
    ($(fn $name:ident($($arg:ident: $ty:ty),* $(,)?) $body:block)*) => {
        $(
            extern "C" fn $name($($arg: $ty),*) -> std::ffi::c_int {
                $crate::log::debug!(2, "{}", stringify!($name));
                let run = || -> $crate::api::Outcome { $body };
                run().err().unwrap_or(0)
            }
        )*
        pub(super) const DRIVER: &[(&str, *const ())] = &[$((stringify!($name), $name as *const ())),*];
        $crate::api::tools! {
            $(fn $name($($arg: $ty),*) {
                match super::$name($($arg),*) {
                    0 => Ok(()),
                    code => Err(code),
                }
            })*
        }
    };
}

use {driver, exported, runtime, tools};

fn address(lists: &[&[(&str, *const ())]], name: &str) -> Option<usize> {
    let found = lists
        .iter()
        .copied()
        .flatten()
        .find(|(own, _)| *own == name)?;
    Some(found.1.expose_provenance())
}

/// The function of the runtime of this name.
pub(crate) fn of_runtime(name: &str) -> Option<usize> {
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

/// Address of a driver function by name, as NCCL is given it; one that is not implemented is a stub that reports the call.
fn driver_symbol(name: &str) -> usize {
    let own = address(&[devices::DRIVER, launch::DRIVER, memory::DRIVER], name);
    own.unwrap_or_else(|| crate::code::missing(name))
}

fn handle(value: usize) -> Handle {
    std::ptr::without_provenance_mut(value)
}

fn stream_of(stream: Handle) -> Result<Arc<Stream>, c_int> {
    crate::stream::get(stream.addr(), device()).ok_or(code::BAD_HANDLE)
}

fn event_of(event: Handle) -> Result<Arc<Event>, c_int> {
    EVENTS.get(event.addr()).ok_or(code::BAD_HANDLE)
}

/// What was to be forgotten was known.
fn known(was_known: bool) -> Outcome {
    was_known.then_some(()).ok_or(code::BAD_HANDLE)
}

runtime! {
    fn cudaDriverGetVersion(version: Out<c_int>) {
        version.set(DRIVER_VERSION);
        Ok(())
    }
    fn cudaRuntimeGetVersion(version: Out<c_int>) {
        version.set(Library::current().map_or(12000, |library| library.cuda));
        Ok(())
    }
    fn cudaProfilerStart() { Ok(()) }
    fn cudaProfilerStop() { Ok(()) }
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
