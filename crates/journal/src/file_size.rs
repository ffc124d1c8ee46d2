//! The limit on the size of files (`ulimit -f`). A write beyond it fails with EFBIG and sends the writing thread
//! SIGXFSZ, which ends a program that does not expect it.

use std::io;
use std::mem::MaybeUninit;
use std::ptr;

/// The largest file that this process may write, in bytes; none without a limit. It can change at any time.
pub fn limit() -> Option<u64> {
    limit_of(libc::RLIMIT_FSIZE)
}

/// A limit of this process, the soft one; none without one.
pub fn limit_of(resource: libc::__rlimit_resource_t) -> Option<u64> {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: `limit` is writable.
    let is_known = unsafe { libc::getrlimit(resource, &raw mut limit) } == 0;
    (is_known && limit.rlim_cur != libc::RLIM_INFINITY).then_some(limit.rlim_cur)
}

/// Runs `action` so that what it writes beyond the limit fails, and sends the program no signal. A signal that the
/// program has caused itself stays pending.
pub fn without_signal<T>(action: impl FnOnce() -> T) -> T {
    let signal = set_of_signal();
    let mut before = MaybeUninit::<libc::sigset_t>::uninit();
    // SAFETY: `signal` is initialised, `before` is writable; only this thread's mask changes.
    let is_blocked = unsafe { libc::pthread_sigmask(libc::SIG_BLOCK, &raw const signal, before.as_mut_ptr()) } == 0;
    let was_pending = is_pending();
    // Restored also when `action` panics: the callers' guards catch that, and the program continues.
    let _restored = Restored(is_blocked.then_some((before, was_pending)));
    action()
}

/// Restores a thread's mask, without the signal that came meanwhile.
struct Restored(Option<(MaybeUninit<libc::sigset_t>, bool)>);

impl Drop for Restored {
    fn drop(&mut self) {
        let Some((before, was_pending)) = &self.0 else {
            return;
        };
        if !was_pending && is_pending() {
            let now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
            let signal = set_of_signal();
            // SAFETY: both pointers are to initialised variables that live during the call.
            unsafe { libc::sigtimedwait(&raw const signal, ptr::null_mut(), &raw const now) };
        }
        // SAFETY: the call that blocked the signal succeeded, and so wrote `before`.
        unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, before.as_ptr(), ptr::null_mut()) };
    }
}

/// Has writes beyond the limit fail in this whole process, a tool of our own. Programs that it starts get the signal's
/// default back, which they would not if it were ignored.
pub fn fail_in_this_process() {
    extern "C" fn nothing(_signal: libc::c_int) {}
    let handler: extern "C" fn(libc::c_int) = nothing;
    let mut action = MaybeUninit::<libc::sigaction>::zeroed();
    // SAFETY: `action` is writable; the call only reads the current action.
    if unsafe { libc::sigaction(libc::SIGXFSZ, ptr::null(), action.as_mut_ptr()) } != 0 {
        return;
    }
    // SAFETY: zeroed is a valid value, and the call succeeded.
    let mut action = unsafe { action.assume_init() };
    if action.sa_sigaction != libc::SIG_DFL {
        return;
    }
    action.sa_sigaction = handler as usize;
    action.sa_flags = libc::SA_RESTART;
    // SAFETY: the handler does nothing, so it may run at any time.
    unsafe { libc::sigaction(libc::SIGXFSZ, &raw const action, ptr::null_mut()) };
}

/// A message of a failed write; it names the limit where that is the reason.
pub fn explain(error: impl ToString) -> String {
    let text = error.to_string();
    let reason = io::Error::from_raw_os_error(libc::EFBIG).to_string();
    let reason = reason.split(" (").next().unwrap_or_default();
    // libotf2 has words of its own for it, in English.
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
    // SAFETY: `set` was just initialised, and the number is a signal's.
    unsafe { libc::sigaddset(set.as_mut_ptr(), libc::SIGXFSZ) };
    // SAFETY: initialised above.
    unsafe { set.assume_init() }
}

/// Whether the signal waits for this thread or for the process.
fn is_pending() -> bool {
    let mut pending = MaybeUninit::<libc::sigset_t>::uninit();
    // SAFETY: `pending` is writable.
    if unsafe { libc::sigpending(pending.as_mut_ptr()) } != 0 {
        return false;
    }
    // SAFETY: the call succeeded, so it wrote `pending`, and the number is a signal's.
    unsafe { libc::sigismember(pending.as_ptr(), libc::SIGXFSZ) == 1 }
}
