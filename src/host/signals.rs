//! Signals with which a user requests a snapshot, or switches recording off and on.

use std::ffi::{c_int, c_void};
use std::mem::MaybeUninit;
use std::ptr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Once, OnceLock};

pub(crate) struct Request {
    came: AtomicBool,
    previous: OnceLock<libc::sigaction>,
    once: Once,
    handler: Handler,
}

type Handler = extern "C" fn(c_int, *mut libc::siginfo_t, *mut c_void);

pub(crate) static DUMP: Request = Request::new(dump_signal);
pub(crate) static TOGGLE: Request = Request::new(toggle_signal);

extern "C" fn dump_signal(signal: c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
    DUMP.handle(signal, info, context);
}

extern "C" fn toggle_signal(signal: c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
    TOGGLE.handle(signal, info, context);
}

impl Request {
    const fn new(handler: Handler) -> Self {
        Self { came: AtomicBool::new(false), previous: OnceLock::new(), once: Once::new(), handler }
    }

    pub(crate) fn take(&self) -> bool {
        // Usually a plain load is enough: the maintenance thread polls often.
        self.came.load(Ordering::Relaxed) && self.came.swap(false, Ordering::Relaxed)
    }

    /// Installs the handler. Only the first call has an effect.
    ///
    /// The handler stays installed: a signal sent just after the last communicator's end would end the program.
    pub(crate) fn install(&'static self, signal: c_int) {
        self.once.call_once(|| {
            let mut before = MaybeUninit::<libc::sigaction>::zeroed();
            // SAFETY: only reads the installed action; `before` is writable.
            if unsafe { libc::sigaction(signal, ptr::null(), before.as_mut_ptr()) } != 0 {
                return;
            }
            // SAFETY: all zeroes are a valid value, and the call succeeded.
            let before = unsafe { before.assume_init() };
            // Stored before the handler is installed, because the handler reads it.
            let before = self.previous.get_or_init(|| before);
            let mut ours = *before;
            ours.sa_sigaction = self.handler as *const () as usize;
            // On the alternative stack, if there is one: Go and Java require this of handlers.
            ours.sa_flags = libc::SA_SIGINFO | libc::SA_RESTART | libc::SA_ONSTACK;
            // SAFETY: the handler's library stays mapped (`-z nodelete`); it does only what signal handlers may do.
            let _failed = unsafe { libc::sigaction(signal, &raw const ours, ptr::null_mut()) };
        });
    }

    /// The handler: sets a flag, then calls the program's own handler.
    fn handle(&self, signal: c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
        self.came.store(true, Ordering::Relaxed);
        let Some(before) = self.previous.get() else {
            return;
        };
        let handler = before.sa_sigaction;
        if [libc::SIG_DFL, libc::SIG_IGN].contains(&handler) {
            return;
        }
        let handler = ptr::with_exposed_provenance::<()>(handler);
        if before.sa_flags & libc::SA_SIGINFO == 0 {
            // SAFETY: the program installed a handler of this kind, and the handler is neither SIG_DFL nor SIG_IGN.
            let handler = unsafe { std::mem::transmute::<*const (), extern "C" fn(c_int)>(handler) };
            handler(signal);
        } else {
            // SAFETY: the program installed a handler of this kind (SA_SIGINFO).
            let handler = unsafe { std::mem::transmute::<*const (), Handler>(handler) };
            handler(signal, info, context);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicI32;

    use super::*;

    static PROGRAM_SAW: AtomicI32 = AtomicI32::new(0);

    extern "C" fn program_handler(signal: c_int) {
        PROGRAM_SAW.store(signal, Ordering::Relaxed);
    }

    #[test]
    fn the_programs_own_handler_is_called_too() {
        let signal = libc::SIGRTMIN() + 3;
        let handler = program_handler as *const () as usize;
        // SAFETY: the handler only stores a number.
        unsafe { libc::signal(signal, handler) };
        DUMP.install(signal);
        assert!(!DUMP.take());
        // SAFETY: raises a signal on this thread; both of its handlers are installed.
        unsafe { libc::raise(signal) };
        assert!(DUMP.take());
        assert!(!DUMP.take(), "once");
        assert_eq!(PROGRAM_SAW.load(Ordering::Relaxed), signal);
    }
}
