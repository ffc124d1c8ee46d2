//! The process and its threads: exit, fork, user, names, random bits.

use std::io::{self, ErrorKind};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{Builder, JoinHandle};

use super::memory;

static IS_FORKED: AtomicBool = AtomicBool::new(false);

/// Whether this process was forked from the recording process: it has none of the plugin's or CUPTI's threads, and must
/// not touch what it shares with its parent.
#[inline]
pub(crate) fn is_forked() -> bool {
    IS_FORKED.load(Ordering::Relaxed)
}

/// Marks every forked child, and calls `action` in it before `fork` returns. Only the first call has an effect.
pub(crate) fn watch_forks(action: fn()) {
    static ACTION: OnceLock<fn()> = OnceLock::new();
    extern "C" fn in_child() {
        IS_FORKED.store(true, Ordering::Relaxed);
        if let Some(action) = ACTION.get() {
            action();
        }
    }
    ACTION.get_or_init(|| {
        let handler: unsafe extern "C" fn() = in_child;
        // SAFETY: the handler is a function of this library, which stays mapped (`-z nodelete`). It only stores
        // atomics, which is allowed between fork and exec.
        let _failed = unsafe { libc::pthread_atfork(None, None, Some(handler)) };
        action
    });
}

/// Starts one of the plugin's own threads, which receives none of the program's signals.
pub(crate) fn spawn(
    name: &str,
    stack_bytes: usize,
    body: impl FnOnce() + Send + 'static,
) -> io::Result<JoinHandle<()>> {
    if !memory::is_there() {
        return Err(ErrorKind::OutOfMemory.into());
    }
    let builder = Builder::new().name(name.to_owned()).stack_size(stack_bytes);
    journal::host::without_signals(|| builder.spawn(body))
}

static AT_EXIT: OnceLock<extern "C" fn()> = OnceLock::new();

/// Calls `action` when the process exits normally. Only the first call has an effect.
pub(crate) fn at_exit(action: extern "C" fn()) {
    AT_EXIT.get_or_init(|| register_at_exit(action));
}

/// Registers the action of [`at_exit`] again, so that it runs before the exit handlers that were registered since. The
/// action does nothing when it runs for the second time.
pub(crate) fn at_exit_again() {
    let _registered = AT_EXIT.get().copied().map(register_at_exit);
}

fn register_at_exit(action: extern "C" fn()) -> extern "C" fn() {
    // SAFETY: the handler is a function of this library, which stays mapped (`-z nodelete`), and catches panics.
    let _failed = unsafe { libc::atexit(action) };
    action
}

pub(crate) type ThreadKey = libc::pthread_t;

/// Tells the calling thread from all others that run.
pub(crate) fn this_thread() -> ThreadKey {
    // SAFETY: takes no arguments and cannot fail.
    unsafe { libc::pthread_self() }
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
    // SAFETY: the buffer has room for the two bytes.
    let got = unsafe { libc::getrandom(bytes.as_mut_ptr().cast(), bytes.len(), libc::GRND_NONBLOCK) };
    if got == 2 {
        return u16::from_ne_bytes(bytes);
    }
    // Early in boot, or without getrandom in the kernel: time and process id distinguish the processes of a job.
    let mixed = (journal::clock::realtime_ns() ^ u64::from(std::process::id())).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    u16::try_from(mixed >> 48).unwrap_or(1)
}
