//! What a tool's calls of the driver pass: they are counted, and can be made to fail.

use super::outcome::code;
use super::{capture_mode, contexts, host_callback};
use crate::log::warning;
use crate::settings::{self, Driver, Events};
use c_double::count;
use std::ffi::c_int;

const NEEDS_CONTEXT: [&str; 5] =
    ["cuEventCreate", "cuEventRecord", "cuEventQuery", "cuEventElapsedTime", "cuStreamCreate"];
/// Calls that a capture of mode "global" forbids to all threads that have not said otherwise.
const UNSAFE_IN_CAPTURE: [&str; 2] = ["cuEventQuery", "cuEventElapsedTime"];

/// A tool calls a function: `Err` if the driver would refuse the call.
pub(crate) fn pass(function: &'static str) -> Result<(), c_int> {
    count(function, 1);
    if settings::get().driver == Driver::Stub {
        return Err(code::STUB_LIBRARY);
    }
    if host_callback::is_inside() {
        count("in_host_callback", 1);
        warning!("{function} is called from within a host callback");
        return Err(code::NOT_PERMITTED);
    }
    if NEEDS_CONTEXT.contains(&function) && contexts::has_no_context() {
        count("without_context", 1);
        return Err(code::INVALID_CONTEXT);
    }
    if UNSAFE_IN_CAPTURE.contains(&function)
        && let Some(capture) = capture_mode::forbidding()
    {
        count("spoiled_captures", 1);
        warning!("{function} invalidates a capture of mode \"global\"");
        capture.spoil();
        return Err(code::CAPTURE_UNSUPPORTED);
    }
    match (settings::get().events, function) {
        (Events::CannotBeMade, "cuEventCreate") => Err(code::OUT_OF_MEMORY),
        (Events::CannotBeRecorded, "cuEventRecord") => Err(code::UNKNOWN),
        _ => Ok(()),
    }
}

/// How often something was counted: a function of the driver by tools, or one of `in_host_callback`,
/// `recorded_in_capture`, `spoiled_captures`, `without_context`.
#[unsafe(no_mangle)]
extern "C" fn fakegpu_count(name: c_double::args::Text) -> u64 {
    c_double::counted(&name.get())
}

pub(crate) extern "C" fn report() {
    c_double::report("FAKEGPU_REPORT");
}
