//! What all functions share: how they are defined, what handles stand for, what they return.

mod contexts;
pub(crate) mod faults;
mod outcome;

pub(super) use contexts::{
    DEVICES, context_of, current, device, event_of, existing, handle, has_no_context, known, pop, push, set_context,
    set_device, stream_of,
};
pub(super) use faults::{exchange_mode, run_host_function};
pub(super) use outcome::{Handle, LAST, Outcome, code, error_text, give, kept};

/// Makes C functions that tools and libraries find by their names.
macro_rules! exported {
    ($(fn $name:ident($($arg:ident: $ty:ty),* $(,)?) -> $ret:ty $body:block)*) => {
        $(
            #[unsafe(no_mangle)]
            extern "C" fn $name($($arg: $ty),*) -> $ret {
                $body
            }
        )*
    };
}

/// Makes functions of the runtime, and the list of them, from which the injected library is redirected.
macro_rules! runtime {
    ($(fn $name:ident($($arg:ident: $ty:ty),* $(,)?) $body:block)*) => {
        $crate::api::call::exported! {
            $(fn $name($($arg: $ty),*) -> std::ffi::c_int {
                let run = || -> $crate::api::call::Outcome { $body };
                $crate::api::call::kept(run())
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
            $crate::api::call::exported! {
                $(fn $name($($arg: $ty),*) -> std::ffi::c_int {
                    let run = || -> $crate::api::call::Outcome {
                        $crate::api::call::faults::pass(stringify!($name))?;
                        $body
                    };
                    run().err().unwrap_or(0)
                })*
            }
        }
    };
}

macro_rules! driver {
    ($(fn $name:ident($($arg:ident: $ty:ty),* $(,)?) $body:block)*) => {
        $(
            extern "C" fn $name($($arg: $ty),*) -> std::ffi::c_int {
                let run = || -> $crate::api::call::Outcome { $body };
                run().err().unwrap_or(0)
            }
        )*
        pub(super) const DRIVER: &[(&str, *const ())] = &[$((stringify!($name), $name as *const ())),*];
        $crate::api::call::tools! {
            $(fn $name($($arg: $ty),*) {
                match super::$name($($arg),*) {
                    0 => Ok(()),
                    code => Err(code),
                }
            })*
        }
    };
}

pub(super) use {driver, exported, runtime, tools};
