//! What is of the whole process.

use c_double::Counts;
use std::io::Write as _;

/// What happened, for tests that cannot see into the process otherwise.
pub(crate) static COUNTS: Counts = Counts::new();

/// The calling thread's number.
pub(crate) fn this_thread() -> i32 {
    // SAFETY: takes nothing and always succeeds.
    unsafe { libc::gettid() }
}

/// Says it in one write, so that the lines of several processes do not mix, and ends the process.
pub(crate) fn fatal(text: &str) -> ! {
    // There is nobody to tell if it fails.
    let line = format!("fakecupti[{}]: {text}\n", std::process::id());
    let _ = std::io::stderr().write_all(line.as_bytes());
    // SAFETY: takes nothing and does not return.
    unsafe { libc::abort() }
}
