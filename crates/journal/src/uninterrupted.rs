//! Runs code that must not be left before its end. `pthread_cancel`, and a signal handler of the program that calls
//! `siglongjmp` or `pthread_exit`, take a thread out of a function. Locks would stay locked then, and allocations half
//! done; and a cancellation unwinds, which ends the program in a function that catches panics.

use std::ffi::c_int;
use std::marker::PhantomData;
use std::mem::MaybeUninit;
use std::ptr;

unsafe extern "C" {
    // The libc crate lacks it.
    fn pthread_setcancelstate(state: c_int, before: *mut c_int) -> c_int;
}

const PTHREAD_CANCEL_DISABLE: c_int = 1;

/// The calling thread is not cancelled while this value lives. A cancellation that comes meanwhile stays pending. Makes
/// no system call.
#[derive(Debug)]
pub struct NotCancelled {
    before: Option<c_int>,
    /// The state is the thread's.
    not_send: PhantomData<*const ()>,
}

impl NotCancelled {
    /// From now on.
    #[expect(clippy::new_without_default, reason = "it does something")]
    pub fn new() -> Self {
        let mut before = 0;
        // SAFETY: `before` is writable; only this thread's state changes.
        let is_off = unsafe { pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &raw mut before) } == 0;
        Self { before: is_off.then_some(before), not_send: PhantomData }
    }
}

impl Drop for NotCancelled {
    fn drop(&mut self) {
        if let Some(before) = self.before {
            // SAFETY: the state that the thread had; `pthread_setcancelstate` is no cancellation point.
            unsafe { pthread_setcancelstate(before, ptr::null_mut()) };
        }
    }
}

/// Runs `action`, which may reach a cancellation point, without the thread being cancelled.
#[inline]
pub fn not_cancelled<T>(action: impl FnOnce() -> T) -> T {
    let _until_the_end = NotCancelled::new();
    action()
}

/// Runs `action` to its end: the thread is not cancelled, and no handler of the program runs on it. For what takes
/// locks or allocates, and is short.
pub fn uninterrupted<T>(action: impl FnOnce() -> T) -> T {
    let _until_the_end = (BlockedSignals::new(), NotCancelled::new());
    action()
}

/// Signals are blocked while this value lives.
struct BlockedSignals(Option<MaybeUninit<libc::sigset_t>>);

/// Signals that the thread raises itself: if they are blocked the kernel ends the program. SIGSYS is how a sandbox
/// answers system calls.
const OF_FAULTS: [c_int; 6] = [libc::SIGSEGV, libc::SIGBUS, libc::SIGFPE, libc::SIGILL, libc::SIGTRAP, libc::SIGSYS];

impl BlockedSignals {
    fn new() -> Self {
        let mut set = MaybeUninit::<libc::sigset_t>::uninit();
        // SAFETY: `set` is writable; sigfillset initialises it.
        unsafe { libc::sigfillset(set.as_mut_ptr()) };
        for signal in OF_FAULTS {
            // SAFETY: `set` was just initialised, and the signal's number is valid.
            unsafe { libc::sigdelset(set.as_mut_ptr(), signal) };
        }
        let mut before = MaybeUninit::<libc::sigset_t>::uninit();
        // SAFETY: `set` is initialised, `before` is writable; only this thread's mask changes.
        let is_done = unsafe { libc::pthread_sigmask(libc::SIG_BLOCK, set.as_ptr(), before.as_mut_ptr()) } == 0;
        Self(is_done.then_some(before))
    }
}

impl Drop for BlockedSignals {
    fn drop(&mut self) {
        if let Some(before) = &self.0 {
            // SAFETY: the call that blocked the signals succeeded, so it initialised the set.
            unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, before.as_ptr(), ptr::null_mut()) };
        }
    }
}
