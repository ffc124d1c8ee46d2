//! What holds for every call: there is a driver, this is not a forked child, not a buffer callback where that matters,
//! not a host callback of CUDA.

use crate::counters::MISUSES;
use crate::knobs::knobs;
use crate::level::Level;
use crate::log::{fatal, say};
use crate::result::{Code, NOT_INITIALIZED, Outcome, UNKNOWN};
use std::cell::Cell;
use std::ffi::c_int;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

thread_local! {
    static IN_CALLBACK: Cell<bool> = const { Cell::new(false) };
}

/// Runs a tool's buffer callback.
pub(crate) fn in_callback<T>(callback: impl FnOnce() -> T) -> T {
    let before = IN_CALLBACK.replace(true);
    let result = callback();
    IN_CALLBACK.set(before);
    result
}

/// A tool did what it must not do.
pub(crate) fn misuse(text: &str) {
    if knobs().strict {
        fatal(&format!("wrong use: {text}"));
    }
    MISUSES.add(1);
    say(&format!("wrong use, let pass: {text}"));
}

/// For functions that a buffer callback must not call.
pub(crate) fn not_in_callback(function: &str) {
    if IN_CALLBACK.get() {
        misuse(&format!("{function} from within a buffer callback"));
    }
}

fn libcuda_is_mapped() -> bool {
    static SEEN: AtomicBool = AtomicBool::new(false);
    if knobs().assume_cuda || SEEN.load(Ordering::Relaxed) {
        return true;
    }
    // SAFETY: a constant name; nothing is mapped that is not yet.
    let handle =
        unsafe { libc::dlopen(c"libcuda.so.1".as_ptr(), libc::RTLD_NOW | libc::RTLD_NOLOAD) };
    SEEN.store(!handle.is_null(), Ordering::Relaxed);
    !handle.is_null()
}

type InHostCallback = extern "C" fn() -> c_int;

/// The stand-in for a GPU knows which threads run host functions now; a real driver does not tell.
fn in_host_callback() -> bool {
    static ASK: OnceLock<Option<InHostCallback>> = OnceLock::new();
    let ask = ASK.get_or_init(|| {
        // SAFETY: a constant name, looked up in what the process has mapped for everybody.
        let found =
            unsafe { libc::dlsym(libc::RTLD_DEFAULT, c"fakegpu_in_host_callback".as_ptr()) };
        // SAFETY: NULL is None, and anything else is the stand-in's function, of this type.
        unsafe { std::mem::transmute::<*mut std::ffi::c_void, Option<InHostCallback>>(found) }
    });
    ask.is_some_and(|ask| ask() != 0)
}

/// The process that the library was mapped in.
pub(crate) fn own_process() -> u32 {
    static OWN: OnceLock<u32> = OnceLock::new();
    *OWN.get_or_init(std::process::id)
}

fn common(function: &str) {
    if std::process::id() != own_process() {
        misuse(&format!("{function} in a forked child"));
    }
    if in_host_callback() {
        misuse(&format!("{function} from within a host callback of CUDA"));
    }
}

/// What a release does without a driver: `Err` gives its code.
fn without_driver(level: Level, harmless: bool) -> Outcome {
    if level >= Level::V2_COMPLETE {
        return Err(UNKNOWN);
    }
    if level >= Level::V2_BEGUN {
        say("no libcuda: this release crashes here");
        loop {
            // SAFETY: sends this thread the signal that the real library's crash would be.
            unsafe { libc::raise(libc::SIGSEGV) };
        }
    }
    if harmless {
        return Ok(());
    }
    Err(if level >= Level::PER_THREAD_DEFAULT {
        UNKNOWN
    } else {
        NOT_INITIALIZED
    })
}

/// For functions that need no driver in the older releases.
pub(crate) fn harmless(function: &str) -> Outcome {
    common(function);
    if libcuda_is_mapped() {
        Ok(())
    } else {
        without_driver(knobs().level, true)
    }
}

/// For all others.
pub(crate) fn enter(function: &str) -> Outcome {
    common(function);
    if !libcuda_is_mapped() {
        without_driver(knobs().level, false)?;
    }
    let asked: Option<Code> = knobs().init;
    asked.map_or(Ok(()), Err)
}
