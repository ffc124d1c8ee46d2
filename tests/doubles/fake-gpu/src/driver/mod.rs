//! The CUDA driver: for NCCL, which asks for functions by name, and for tools, which find this library where they look
//! for `libcuda.so.1` and take its functions by `dlsym`.
//!
//! The two get different functions: those of tools pass [`faults`] first, which counts them and can make them fail as
//! a driver does that is a stub, has no events, or is called where it must not be.

mod contexts;
mod devices;
mod events;
pub(crate) mod faults;
pub(crate) mod host_callback;
mod launch;
mod memory;
mod streams;

pub(crate) use faults::library_is_absent;

use std::ffi::{c_int, c_void};

type Handle = *mut c_void;

const INVALID_CONTEXT: c_int = 201;
const NOT_SUPPORTED: c_int = 801;
/// `CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED`
const CAPTURE_UNSUPPORTED: c_int = 900;
/// `CUDA_ERROR_STREAM_CAPTURE_INVALIDATED`
pub(crate) const CAPTURE_INVALIDATED: c_int = 901;
/// `CUDA_ERROR_CAPTURED_EVENT`
const CAPTURED_EVENT: c_int = 907;

/// Makes the functions that NCCL asks for, and, under their C names, those that tools find.
macro_rules! driver {
    ($(fn $name:ident($($arg:ident: $ty:ty),* $(,)?) -> c_int $body:block)*) => {
        $(
            extern "C" fn $name($($arg: $ty),*) -> c_int {
                $crate::log::debug!(2, "{}", stringify!($name));
                $body
            }
        )*
        /// Names and addresses of the functions above.
        pub(crate) fn hooks() -> Vec<(&'static str, usize)> {
            vec![$((stringify!($name), ($name as *const ()).expose_provenance())),*]
        }
        $crate::driver::exported! { $(fn $name($($arg: $ty),*) -> c_int { super::$name($($arg),*) })* }
    };
}
use driver;

/// Makes functions that only tools find.
macro_rules! exported {
    ($(fn $name:ident($($arg:ident: $ty:ty),* $(,)?) -> c_int $body:block)*) => {
        mod exported {
            use super::*;
            $(
                #[unsafe(no_mangle)]
                extern "C" fn $name($($arg: $ty),*) -> c_int {
                    $crate::log::debug!(2, "{} (by a tool)", stringify!($name));
                    match $crate::driver::faults::pass(stringify!($name)) {
                        Ok(()) => $body,
                        Err(code) => code,
                    }
                }
            )*
        }
    };
}
use exported;

/// What NCCL can ask for.
pub(crate) fn hooks() -> Vec<(&'static str, usize)> {
    [
        contexts::hooks(),
        devices::hooks(),
        launch::hooks(),
        memory::hooks(),
    ]
    .concat()
}
