//! What the process is asked to tell us: its exit and its forks; and how our own thread stays out of the
//! host program's way. The `unsafe` of the session lives here.

use std::sync::Once;

/// Calls `action` in every forked child, before `fork` returns there. Only the first call counts.
pub(crate) fn at_fork_in_child(action: extern "C" fn()) {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let action: unsafe extern "C" fn() = action;
        // SAFETY: the handler is a function of this library, which stays mapped (`-z nodelete`), and does
        // only what is allowed between fork and exec: it stores atomics.
        let _failed = unsafe { libc::pthread_atfork(None, None, Some(action)) };
    });
}

/// Calls `action` when the process exits in order. Only the first call counts.
pub(crate) fn at_exit(action: extern "C" fn()) {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        // SAFETY: the handler is a function of this library, which stays mapped (`-z nodelete`), and catches
        // its own panics.
        let _failed = unsafe { libc::atexit(action) };
    });
}

/// Runs `action` with all signals blocked, so that a thread it starts never runs the host's handlers.
pub(crate) fn without_signals<T>(action: impl FnOnce() -> T) -> T {
    let mut all = std::mem::MaybeUninit::<libc::sigset_t>::uninit();
    // SAFETY: `all` is writable; sigfillset initialises it.
    unsafe { libc::sigfillset(all.as_mut_ptr()) };
    let mut before = std::mem::MaybeUninit::<libc::sigset_t>::uninit();
    // SAFETY: `all` was just initialised, `before` is writable; only this thread's mask changes.
    let changed =
        unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, all.as_ptr(), before.as_mut_ptr()) } == 0;
    let result = action();
    if changed {
        // SAFETY: the first call succeeded and so wrote `before`.
        unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, before.as_ptr(), std::ptr::null_mut()) };
    }
    result
}

/// Sixteen random bits.
pub(crate) fn random_bits() -> u16 {
    let mut bytes = [0_u8; 2];
    // SAFETY: the buffer has the two bytes that may be written.
    let got =
        unsafe { libc::getrandom(bytes.as_mut_ptr().cast(), bytes.len(), libc::GRND_NONBLOCK) };
    if got == 2 {
        return u16::from_ne_bytes(bytes);
    }
    // Early in boot, or a kernel without it: time and process id tell processes of a job apart well enough.
    let mixed = (crate::clock::realtime_ns() ^ u64::from(std::process::id()))
        .wrapping_mul(0x9e37_79b9_7f4a_7c15);
    u16::try_from(mixed >> 48).unwrap_or(1)
}

/// The host's name.
pub(crate) fn host_name() -> String {
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
