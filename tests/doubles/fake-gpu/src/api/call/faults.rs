//! What a tool's calls of the driver pass: they are counted, and can be made to fail.

use super::outcome::code;
use super::{capture_mode, contexts, host_callback};
use crate::log::warning;
use crate::settings::choice;
use c_double::Counts;
use std::ffi::c_int;
use std::sync::OnceLock;

#[derive(Clone, Copy, PartialEq)]
enum Driver {
    There,
    Absent,
    Stub,
}

fn driver() -> Driver {
    static DRIVER: OnceLock<Driver> = OnceLock::new();
    *DRIVER.get_or_init(|| {
        let words = [("there", Driver::There), ("absent", Driver::Absent), ("stub", Driver::Stub)];
        choice("FAKEGPU_DRIVER", &words)
    })
}

/// Whether the process is to find no driver library.
pub(crate) fn library_is_absent() -> bool {
    driver() == Driver::Absent
}

/// How a tool's events fail.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Events {
    Work,
    CannotBeMade,
    CannotBeRecorded,
    SpoilCaptures,
    NeverDone,
}

pub(crate) fn events() -> Events {
    static EVENTS: OnceLock<Events> = OnceLock::new();
    *EVENTS.get_or_init(|| {
        let words = [
            ("work", Events::Work),
            ("none", Events::CannotBeMade),
            ("record-fails", Events::CannotBeRecorded),
            ("spoil-captures", Events::SpoilCaptures),
            ("never-done", Events::NeverDone),
        ];
        choice("FAKEGPU_EVENTS", &words)
    })
}

static COUNTS: Counts = Counts::new();

/// Counts something that a test can ask for.
pub(crate) fn count(what: &'static str) {
    COUNTS.add(what, 1);
}

/// Calls that need a context of the calling thread.
const NEEDS_CONTEXT: [&str; 5] =
    ["cuEventCreate", "cuEventRecord", "cuEventQuery", "cuEventElapsedTime", "cuStreamCreate"];
/// Calls that a capture of mode "global" forbids to all threads that have not said otherwise.
const UNSAFE_IN_CAPTURE: [&str; 2] = ["cuEventQuery", "cuEventElapsedTime"];

/// A tool calls a function: `Err` if it does not come to that.
pub(crate) fn pass(function: &'static str) -> Result<(), c_int> {
    count(function);
    if driver() == Driver::Stub {
        return Err(code::STUB_LIBRARY);
    }
    if host_callback::is_inside() {
        count("in_host_callback");
        warning!("{function} is called from within a host callback");
        return Err(code::NOT_PERMITTED);
    }
    if NEEDS_CONTEXT.contains(&function) && contexts::has_no_context() {
        count("without_context");
        return Err(code::INVALID_CONTEXT);
    }
    if UNSAFE_IN_CAPTURE.contains(&function)
        && let Some(capture) = capture_mode::forbidding()
    {
        count("spoiled_captures");
        warning!("{function} invalidates a capture of mode \"global\"");
        capture.spoil();
        return Err(code::CAPTURE_UNSUPPORTED);
    }
    match (events(), function) {
        (Events::CannotBeMade, "cuEventCreate") => Err(code::OUT_OF_MEMORY),
        (Events::CannotBeRecorded, "cuEventRecord") => Err(code::UNKNOWN),
        _ => Ok(()),
    }
}

/// How often something was counted: a function of the driver by tools, or one of `in_host_callback`,
/// `recorded_in_capture`, `spoiled_captures`, `without_context`.
#[unsafe(no_mangle)]
extern "C" fn fakegpu_count(name: c_double::args::Text) -> u64 {
    COUNTS.get(&name.get())
}

/// Writes all counts to the file of `FAKEGPU_REPORT`.
pub(crate) extern "C" fn report() {
    COUNTS.report("FAKEGPU_REPORT");
}
