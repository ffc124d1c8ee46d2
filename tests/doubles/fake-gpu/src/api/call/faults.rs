//! What a tool's calls of the driver pass: they are counted, and can be made to fail.

use super::contexts;
use super::outcome::code;
use crate::log::warning;
use crate::settings::{self, Driver, Events};
use crate::stream::graph::{Capture, capture_mode};
use crate::stream::{GRAPHS, Graph};
use c_double::args::Out;
use c_double::{count, this_thread};
use std::cell::Cell;
use std::ffi::c_int;
use std::sync::Arc;

thread_local! {
    /// Which captures of others forbid this thread something.
    static MODE: Cell<c_int> = const { Cell::new(capture_mode::GLOBAL) };
    /// Whether this thread runs a host function.
    static INSIDE: Cell<bool> = const { Cell::new(false) };
}

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
    if INSIDE.get() {
        count("in_host_callback", 1);
        warning!("{function} is called from within a host callback");
        return Err(code::NOT_PERMITTED);
    }
    if NEEDS_CONTEXT.contains(&function) && contexts::has_no_context() {
        count("without_context", 1);
        return Err(code::INVALID_CONTEXT);
    }
    if UNSAFE_IN_CAPTURE.contains(&function)
        && let Some(capture) = forbidding()
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

pub(crate) fn exchange_mode(mode: Out<c_int>) {
    if let Some(other) = mode.get() {
        mode.set(MODE.replace(other));
    }
}

/// A capture that forbids the calling thread a call that could wait for what is being captured.
fn forbidding() -> Option<Arc<Graph>> {
    let own_mode = MODE.get();
    if own_mode == capture_mode::RELAXED {
        return None;
    }
    let forbids = |capture: &Capture| {
        let is_own = capture.thread == this_thread() && capture.mode != capture_mode::RELAXED;
        is_own || (own_mode == capture_mode::GLOBAL && capture.mode == capture_mode::GLOBAL)
    };
    let mut graphs = GRAPHS.all().into_iter();
    graphs.find(|graph| graph.is_open() && graph.capture.is_some_and(|capture| forbids(&capture)))
}

/// Runs a host function for the device: a driver lets nobody call it from within one.
pub(crate) fn run_host_function(function: impl FnOnce()) {
    let before = INSIDE.replace(true);
    function();
    INSIDE.set(before);
}

#[unsafe(no_mangle)]
extern "C" fn fakegpu_in_host_callback() -> c_int {
    c_int::from(INSIDE.get())
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
