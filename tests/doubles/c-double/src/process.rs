//! The process that a double is in.

use std::io::Write as _;
use std::os::unix::process::CommandExt as _;
use std::process::Command;
use std::time::{SystemTime, UNIX_EPOCH};

#[expect(clippy::disallowed_methods, reason = "doubles run where they were built")]
pub fn this_thread() -> i32 {
    // SAFETY: takes nothing and always succeeds.
    unsafe { libc::gettid() }
}

/// Now, in nanoseconds of `CLOCK_REALTIME`.
pub fn realtime_ns() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| u64::try_from(since.as_nanos()).unwrap_or(0))
}

/// Says it on stderr in one write, so that the lines of several processes do not mix.
pub fn log_line(double: &str, text: &str) {
    let line = format!("{double}[{}:{}]: {text}\n", std::process::id(), this_thread());
    // Nobody could be informed of a failure.
    let _ = std::io::stderr().write_all(line.as_bytes());
}

/// Has a program killed when the thread that starts it ends.
pub fn end_with_parent(command: &mut Command) {
    let end = || {
        // SAFETY: PR_SET_PDEATHSIG reads its one argument, a signal number, and touches no memory.
        unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) };
        Ok(())
    };
    // SAFETY: the closure runs in the child between fork and exec; it neither allocates nor takes a lock.
    unsafe { command.pre_exec(end) };
}

pub fn fatal(double: &str, text: &str) -> ! {
    log_line(double, text);
    // SAFETY: takes nothing and does not return.
    unsafe { libc::abort() }
}
