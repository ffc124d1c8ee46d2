//! What a tool's calls of the driver pass: they are counted, and can be made to fail.

use super::{CAPTURE_UNSUPPORTED, INVALID_CONTEXT, contexts, host_callback};
use crate::capture;
use crate::cuda::OK;
use crate::log::warning;
use crate::settings::choice;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::ffi::{CStr, c_int};
use std::io::Write as _;
use std::sync::OnceLock;

/// `CUDA_ERROR_OUT_OF_MEMORY`
const OUT_OF_MEMORY: c_int = 2;
/// `CUDA_ERROR_STUB_LIBRARY`
const STUB_LIBRARY: c_int = 34;
/// `CUDA_ERROR_NOT_PERMITTED`
const NOT_PERMITTED: c_int = 800;
/// `CUDA_ERROR_UNKNOWN`
const UNKNOWN: c_int = 999;

#[derive(Clone, Copy, PartialEq)]
enum Driver {
    There,
    Absent,
    Stub,
}

fn driver() -> Driver {
    static DRIVER: OnceLock<Driver> = OnceLock::new();
    *DRIVER.get_or_init(|| {
        let words = [
            ("there", Driver::There),
            ("absent", Driver::Absent),
            ("stub", Driver::Stub),
        ];
        choice("FAKEGPU_DRIVER", &words).unwrap_or(Driver::There)
    })
}

/// Whether the process is to find no driver library.
pub(crate) fn library_is_absent() -> bool {
    driver() == Driver::Absent
}

/// How a tool's events fail.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Events {
    Work,
    CannotBeMade,
    CannotBeRecorded,
    SpoilCaptures,
    NeverDone,
}

pub(super) fn events() -> Events {
    static EVENTS: OnceLock<Events> = OnceLock::new();
    *EVENTS.get_or_init(|| {
        let words = [
            ("work", Events::Work),
            ("none", Events::CannotBeMade),
            ("record-fails", Events::CannotBeRecorded),
            ("spoil-captures", Events::SpoilCaptures),
            ("never-done", Events::NeverDone),
        ];
        choice("FAKEGPU_EVENTS", &words).unwrap_or(Events::Work)
    })
}

impl Events {
    /// The code of a call that fails in any case.
    fn code_of(self, function: &str) -> c_int {
        match (self, function) {
            (Events::CannotBeMade, "cuEventCreate") => OUT_OF_MEMORY,
            (Events::CannotBeRecorded, "cuEventRecord" | "cuEventRecordWithFlags") => UNKNOWN,
            _ => OK,
        }
    }
}

static COUNTS: Mutex<BTreeMap<&'static str, u64>> = Mutex::new(BTreeMap::new());

/// Counts something that a test can ask for.
pub(super) fn count(what: &'static str) {
    *COUNTS.lock().entry(what).or_insert(0) += 1;
}

/// Calls that need a context of the calling thread.
const NEEDS_CONTEXT: [&str; 9] = [
    "cuEventCreate",
    "cuEventRecord",
    "cuEventRecordWithFlags",
    "cuEventQuery",
    "cuEventSynchronize",
    "cuEventElapsedTime",
    "cuEventElapsedTime_v2",
    "cuStreamCreate",
    "cuStreamCreateWithPriority",
];

/// Calls that a capture of mode "global" forbids to all threads that have not said otherwise.
const UNSAFE_IN_CAPTURE: [&str; 6] = [
    "cuEventQuery",
    "cuEventSynchronize",
    "cuEventElapsedTime",
    "cuEventElapsedTime_v2",
    "cuStreamQuery",
    "cuStreamSynchronize",
];

/// A tool calls a function: `Err` if it does not come to that.
pub(super) fn pass(function: &'static str) -> Result<(), c_int> {
    count(function);
    if driver() == Driver::Stub {
        return Err(STUB_LIBRARY);
    }
    if host_callback::is_inside() {
        count("in_host_callback");
        warning!("{function} is called from within a host callback");
        return Err(NOT_PERMITTED);
    }
    if NEEDS_CONTEXT.contains(&function) && contexts::is_without() {
        count("without_context");
        return Err(INVALID_CONTEXT);
    }
    if UNSAFE_IN_CAPTURE.contains(&function)
        && let Some(capture) = capture::forbidding()
    {
        count("spoiled_captures");
        warning!("{function} invalidates a capture of mode \"global\"");
        capture.spoil();
        return Err(CAPTURE_UNSUPPORTED);
    }
    match events().code_of(function) {
        OK => Ok(()),
        code => Err(code),
    }
}

/// How often something was counted: a function of the driver by tools, or one of `in_host_callback`,
/// `recorded_in_capture`, `spoiled_captures`, `without_context`.
#[unsafe(no_mangle)]
extern "C" fn fakegpu_count(name: c_double::args::Text) -> u64 {
    COUNTS.lock().get(name.get().as_ref()).copied().unwrap_or(0)
}

/// Writes all counts behind what the file of `FAKEGPU_REPORT` has already.
pub(crate) extern "C" fn write_report() {
    let Some(path) = std::env::var_os("FAKEGPU_REPORT") else {
        return;
    };
    let pid = std::process::id();
    let lines: String = COUNTS
        .lock()
        .iter()
        .map(|(name, count)| format!("{pid} {name} {count}\n"))
        .collect();
    let file = std::fs::OpenOptions::new()
        .create(true)
        .append(true)
        .open(path);
    if let Err(error) = file.and_then(|mut file| file.write_all(lines.as_bytes())) {
        warning!("FAKEGPU_REPORT: {error}");
    }
}

/// What `dlopen` is asked for where there is to be no driver: the C library then has its own text for `dlerror`.
pub(crate) const NO_LIBRARY: &CStr = c"/nonexistent/libcuda.so.1";
