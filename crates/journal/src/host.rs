//! The host and its processes.

use std::mem::MaybeUninit;
use std::ptr;

/// The kernel's boot id, or an empty string.
#[must_use]
pub fn boot_id() -> String {
    std::fs::read_to_string("/proc/sys/kernel/random/boot_id")
        .unwrap_or_default()
        .trim()
        .to_owned()
}

/// When a process of this host started, in clock ticks since boot; `None` if there is none of this id.
#[must_use]
pub fn start_ticks(pid: u32) -> Option<u64> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The second field is the program's name in parentheses, with whatever is in it; the start is the 22nd.
    let (_, rest) = stat.rsplit_once(')')?;
    rest.split_whitespace().nth(19)?.parse().ok()
}

/// The host's name.
pub fn host_name() -> String {
    let mut name = [0_u8; 256];
    // SAFETY: the length given is one less than the buffer's, so there is a NUL at its end in any case.
    unsafe { libc::gethostname(name.as_mut_ptr().cast(), name.len() - 1) };
    let length = name.iter().position(|byte| *byte == 0).unwrap_or(0);
    let name = String::from_utf8_lossy(name.get(..length).unwrap_or(&[])).into_owned();
    if name.is_empty() {
        "unknown".to_owned()
    } else {
        name
    }
}

/// Runs `action` with all signals blocked, so that a thread it starts never runs the host's handlers.
pub fn without_signals<T>(action: impl FnOnce() -> T) -> T {
    let mut all = MaybeUninit::<libc::sigset_t>::uninit();
    // SAFETY: `all` is writable; sigfillset initialises it.
    unsafe { libc::sigfillset(all.as_mut_ptr()) };
    let mut before = MaybeUninit::<libc::sigset_t>::uninit();
    // SAFETY: `all` was just initialised, `before` is writable; only this thread's mask changes.
    let changed =
        unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, all.as_ptr(), before.as_mut_ptr()) } == 0;
    let result = action();
    if changed {
        // SAFETY: the first call succeeded and so wrote `before`.
        unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, before.as_ptr(), ptr::null_mut()) };
    }
    result
}
