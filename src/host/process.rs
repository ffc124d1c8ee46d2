//! The process and its threads: exit, fork, user, names, random bits.

use std::sync::Once;

/// Calls `action` in every forked child, before `fork` returns there. Only the first call has an effect.
pub(crate) fn at_fork_in_child(action: extern "C" fn()) {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let action: unsafe extern "C" fn() = action;
        // SAFETY: the handler is a function of this library, which stays mapped (`-z nodelete`), and does only what is
        // allowed between fork and exec: it stores atomics.
        let _failed = unsafe { libc::pthread_atfork(None, None, Some(action)) };
    });
}

/// Calls `action` when the process exits in order. Only the first call has an effect.
pub(crate) fn at_exit(action: extern "C" fn()) {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        // SAFETY: the handler is a function of this library, which stays mapped (`-z nodelete`), and catches its own
        // panics.
        let _failed = unsafe { libc::atexit(action) };
    });
}

/// The calling thread's name as the system knows it (at most 15 bytes).
pub(crate) fn thread_name() -> String {
    let mut name = [0_u8; 16];
    // SAFETY: PR_GET_NAME writes at most 16 bytes to the buffer, which has 16.
    unsafe { libc::prctl(libc::PR_GET_NAME, name.as_mut_ptr()) };
    let length = name.iter().position(|byte| *byte == 0).unwrap_or(name.len());
    String::from_utf8_lossy(name.get(..length).unwrap_or(&[])).into_owned()
}

pub(crate) fn random_bits() -> u16 {
    let mut bytes = [0_u8; 2];
    // SAFETY: the buffer has the two bytes that may be written.
    let got = unsafe { libc::getrandom(bytes.as_mut_ptr().cast(), bytes.len(), libc::GRND_NONBLOCK) };
    if got == 2 {
        return u16::from_ne_bytes(bytes);
    }
    // Early in boot, or on a kernel without getrandom: time and process id distinguish the processes of a job.
    let mixed = (journal::clock::realtime_ns() ^ u64::from(std::process::id())).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    u16::try_from(mixed >> 48).unwrap_or(1)
}
