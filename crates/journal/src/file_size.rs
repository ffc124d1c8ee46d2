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
