//! The limit on file size (`ulimit -f`). A write beyond it fails with EFBIG and sends the writing thread SIGXFSZ, which
//! kills a program that does not handle it.

use std::io;
use std::mem::MaybeUninit;
use std::ptr;

/// The largest file that this process may write, in bytes; `None` if unlimited. The limit can change at any time.
pub fn limit() -> Option<u64> {
    limit_of(libc::RLIMIT_FSIZE)
}

/// A soft limit of this process; `None` if unlimited.
pub fn limit_of(resource: libc::__rlimit_resource_t) -> Option<u64> {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: `limit` is writable.
    let is_known = unsafe { libc::getrlimit(resource, &raw mut limit) } == 0;
    (is_known && limit.rlim_cur != libc::RLIM_INFINITY).then_some(limit.rlim_cur)
}

/// Runs `action` with SIGXFSZ blocked, so that a write beyond the limit fails without a signal. A signal that was
/// already pending stays pending.
pub fn without_signal<T>(action: impl FnOnce() -> T) -> T {
    let signal = set_of_signal();
    let mut before = MaybeUninit::<libc::sigset_t>::uninit();
    // SAFETY: `signal` is initialised, `before` is writable; only this thread's mask changes.
    let is_blocked = unsafe { libc::pthread_sigmask(libc::SIG_BLOCK, &raw const signal, before.as_mut_ptr()) } == 0;
    let was_pending = is_pending();
    // Restored even if `action` panics: the callers' guards catch the panic and the program continues.
    let _restored = Restored(is_blocked.then_some((before, was_pending)));
    action()
}

/// On drop, restores a thread's signal mask and discards a SIGXFSZ that arrived in the meantime.
struct Restored(Option<(MaybeUninit<libc::sigset_t>, bool)>);

impl Drop for Restored {
    fn drop(&mut self) {
        let Some((before, was_pending)) = &self.0 else {
            return;
        };
        if !was_pending && is_pending() {
            let now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
            let signal = set_of_signal();
            // SAFETY: both pointers refer to initialised variables that outlive the call.
            unsafe { libc::sigtimedwait(&raw const signal, ptr::null_mut(), &raw const now) };
        }
        // SAFETY: the call that blocked the signal succeeded, so it initialised `before`.
        unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, before.as_ptr(), ptr::null_mut()) };
    }
}

/// Makes writes beyond the limit fail in this whole process, one of our own tools. Uses a handler because programs that
/// this process starts then get the signal's default action back; an ignored signal would stay ignored.
pub fn fail_in_this_process() {
    extern "C" fn nothing(_signal: libc::c_int) {}
    let handler: extern "C" fn(libc::c_int) = nothing;
    let mut action = MaybeUninit::<libc::sigaction>::zeroed();
    // SAFETY: `action` is writable; the call only reads the current action.
    if unsafe { libc::sigaction(libc::SIGXFSZ, ptr::null(), action.as_mut_ptr()) } != 0 {
        return;
    }
    // SAFETY: all zeroes is a valid `sigaction`, and the call succeeded.
    let mut action = unsafe { action.assume_init() };
    if action.sa_sigaction != libc::SIG_DFL {
        return;
    }
    action.sa_sigaction = handler as usize;
    action.sa_flags = libc::SA_RESTART;
    // SAFETY: the handler does nothing, so it may run at any time.
    unsafe { libc::sigaction(libc::SIGXFSZ, &raw const action, ptr::null_mut()) };
}

/// The text of a write error. Names the limit if the limit is the reason.
pub fn explain(error: impl ToString) -> String {
    let text = error.to_string();
    let reason = io::Error::from_raw_os_error(libc::EFBIG).to_string();
    let reason = reason.split(" (").next().unwrap_or_default();
    // libotf2 reports EFBIG in English, in its own words.
    match limit() {
        Some(bytes) if [reason, "File is too large"].iter().any(|reason| text.contains(reason)) => {
            format!("{text}; files may have {} here: ulimit -f unlimited", in_words(bytes))
        }
        _ => text,
    }
}

fn in_words(bytes: u64) -> String {
    match bytes {
        0..1024 => format!("{bytes} bytes"),
        1024..1_048_576 => format!("{} KiB", bytes >> 10),
        _ => format!("{} MiB", bytes >> 20),
    }
}

fn set_of_signal() -> libc::sigset_t {
    let mut set = MaybeUninit::<libc::sigset_t>::uninit();
    // SAFETY: `set` is writable; sigemptyset initialises it.
    unsafe { libc::sigemptyset(set.as_mut_ptr()) };
    // SAFETY: `set` was just initialised, and SIGXFSZ is a valid signal number.
    unsafe { libc::sigaddset(set.as_mut_ptr(), libc::SIGXFSZ) };
    // SAFETY: sigemptyset initialised `set` above.
    unsafe { set.assume_init() }
}

/// Whether the signal is pending for this thread or the process.
fn is_pending() -> bool {
    let mut pending = MaybeUninit::<libc::sigset_t>::uninit();
    // SAFETY: `pending` is writable.
    if unsafe { libc::sigpending(pending.as_mut_ptr()) } != 0 {
        return false;
    }
    // SAFETY: the call succeeded, so it initialised `pending`; SIGXFSZ is a valid signal number.
    unsafe { libc::sigismember(pending.as_ptr(), libc::SIGXFSZ) == 1 }
}
