//! What the double says, on stderr, and the end of a process that used it wrongly.

use std::io::Write as _;

/// Says it in one write, so that the lines of several processes do not mix.
pub(crate) fn say(text: &str) {
    // There is nobody to tell if it fails.
    let line = format!("fakecupti[{}]: {text}\n", std::process::id());
    let _ = std::io::stderr().write_all(line.as_bytes());
}

/// Ends the process: a test that goes on would look as if it had passed.
pub(crate) fn fatal(text: &str) -> ! {
    say(text);
    // SAFETY: takes nothing and does not return.
    unsafe { libc::abort() }
}
