//! What the process is asked to tell us: its exit and its forks; and how our own thread stays out of the
//! host program's way. The `unsafe` of the session lives here.

use std::ffi::{c_int, c_void};
use std::mem::MaybeUninit;
use std::ptr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Once, OnceLock};

use parking_lot::Mutex;

/// Where the last panic was, for the one line that its catcher writes.
static PANIC_PLACE: Mutex<String> = Mutex::new(String::new());

/// Keeps Rust's report of panics from the host's stderr: all of ours are caught, and who catches one says so in
/// one line. Only the first call counts.
///
/// The hook is of the Rust runtime that is linked into this library, not of one in the host program. A program
/// that has us linked into it has only one, which is its own: it keeps its hook.
pub(crate) fn at_panic() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        if !is_shared_library() {
            return;
        }
        std::panic::set_hook(Box::new(|info| {
            let place = info.location().map(ToString::to_string);
            if let (Some(place), Some(mut last)) = (place, PANIC_PLACE.try_lock()) {
                *last = format!(" (at {place})");
            }
        }));
    });
}

/// Where the last panic was, as the end of a sentence; empty where nobody knows.
pub(crate) fn panic_place() -> String {
    let place = PANIC_PLACE.try_lock();
    place.map_or_else(String::new, |place| place.clone())
}

/// Whether this code lies in another object than the program itself.
fn is_shared_library() -> bool {
    // SAFETY: asks for a word of the auxiliary vector; 0 where there is none.
    let headers = unsafe { libc::getauxval(libc::AT_PHDR) };
    #[expect(
        clippy::cast_possible_truncation,
        reason = "an address: pointers have 64 bits"
    )]
    let program = object_of(ptr::without_provenance(headers as usize));
    let ours = object_of((&raw const PANIC_PLACE).cast());
    program.is_some() && ours.is_some() && program != ours
}

/// Where the loaded object begins that contains an address.
fn object_of(address: *const c_void) -> Option<usize> {
    let mut found = MaybeUninit::<libc::Dl_info>::zeroed();
    // SAFETY: dladdr only compares the address, and fills the structure when it knows the object.
    let known = unsafe { libc::dladdr(address, found.as_mut_ptr()) } != 0;
    // SAFETY: zeroed pointers are valid values, whether or not dladdr filled them.
    let found = unsafe { found.assume_init() };
    known.then(|| found.dli_fbase.addr())
}

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

/// A signal that asks something of us.
pub(crate) struct Asked {
    came: AtomicBool,
    /// What was done on the signal before us.
    previous: OnceLock<libc::sigaction>,
    once: Once,
    handler: Handler,
}

type Handler = extern "C" fn(c_int, *mut libc::siginfo_t, *mut c_void);

/// The signal that asks for a snapshot.
pub(crate) static DUMP: Asked = Asked::new(dump_signal);
/// The signal that switches recording off and on.
pub(crate) static TOGGLE: Asked = Asked::new(toggle_signal);

extern "C" fn dump_signal(signal: c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
    DUMP.handle(signal, info, context);
}

extern "C" fn toggle_signal(signal: c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
    TOGGLE.handle(signal, info, context);
}

impl Asked {
    const fn new(handler: Handler) -> Self {
        Self {
            came: AtomicBool::new(false),
            previous: OnceLock::new(),
            once: Once::new(),
            handler,
        }
    }

    /// Whether the signal came since this was last asked.
    pub(crate) fn take(&self) -> bool {
        // A plain load most of the time: the maintenance asks often.
        self.came.load(Ordering::Relaxed) && self.came.swap(false, Ordering::Relaxed)
    }

    /// Takes note of a signal from now on, whatever else is done about it. Only the first call counts.
    ///
    /// It is never given back: a signal sent a moment after the last communicator's end would end the program.
    pub(crate) fn on(&'static self, signal: c_int) {
        self.once.call_once(|| {
            let mut before = MaybeUninit::<libc::sigaction>::zeroed();
            // SAFETY: asks only; `before` is writable.
            if unsafe { libc::sigaction(signal, ptr::null(), before.as_mut_ptr()) } != 0 {
                return;
            }
            // SAFETY: zeroed is a valid value, and the call succeeded.
            let before = unsafe { before.assume_init() };
            // There before the handler that reads it.
            let before = self.previous.get_or_init(|| before);
            let mut ours = *before;
            ours.sa_sigaction = self.handler as *const () as usize;
            // On the alternative stack where there is one, as Go and Java ask of handlers.
            ours.sa_flags = libc::SA_SIGINFO | libc::SA_RESTART | libc::SA_ONSTACK;
            // SAFETY: the handler is a function of this library, which stays mapped (`-z nodelete`), and does only what
            // handlers may.
            let _failed = unsafe { libc::sigaction(signal, &raw const ours, ptr::null_mut()) };
        });
    }

    /// The handler: stores a flag, and does what was done before.
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
            // SAFETY: the program installed it as a handler of this kind, and it is neither of the two that are none.
            let handler =
                unsafe { std::mem::transmute::<*const (), extern "C" fn(c_int)>(handler) };
            handler(signal);
        } else {
            // SAFETY: the program installed it as a handler of this kind (SA_SIGINFO).
            let handler = unsafe { std::mem::transmute::<*const (), Handler>(handler) };
            handler(signal, info, context);
        }
    }
}

/// Whose files this process makes.
pub(crate) fn effective_user() -> u32 {
    // SAFETY: asks for a number, touches no memory, cannot fail.
    unsafe { libc::geteuid() }
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
    let mixed = (journal::clock::realtime_ns() ^ u64::from(std::process::id()))
        .wrapping_mul(0x9e37_79b9_7f4a_7c15);
    u16::try_from(mixed >> 48).unwrap_or(1)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicI32;

    use super::*;

    static PROGRAM_SAW: AtomicI32 = AtomicI32::new(0);

    extern "C" fn of_the_program(signal: c_int) {
        PROGRAM_SAW.store(signal, Ordering::Relaxed);
    }

    #[test]
    fn the_programs_own_handler_is_called_too() {
        let signal = libc::SIGRTMIN() + 3;
        let handler = of_the_program as *const () as usize;
        // SAFETY: the handler only stores a number.
        unsafe { libc::signal(signal, handler) };
        DUMP.on(signal);
        assert!(!DUMP.take());
        // SAFETY: a signal to this thread, which has two handlers for it.
        unsafe { libc::raise(signal) };
        assert!(DUMP.take());
        assert!(!DUMP.take(), "once");
        assert_eq!(PROGRAM_SAW.load(Ordering::Relaxed), signal);
    }
}
