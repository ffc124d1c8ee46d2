//! What each call passes first. A tool that uses CUPTI wrongly ends its process: a test that continued would look as if
//! it had passed.

use crate::variables::{self, fatal};
use std::cell::Cell;
use std::ffi::{c_int, c_void};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Once, OnceLock};

/// `CUptiResult`
pub(crate) type Code = i32;
/// What a function gives; success is a code too in C.
pub(crate) type Outcome = Result<(), Code>;

pub(crate) const INVALID_PARAMETER: Code = 1;
pub(crate) const INVALID_OPERATION: Code = 7;
pub(crate) const SIZE_NOT_SUFFICIENT: Code = 10;
pub(crate) const MAX_LIMIT_REACHED: Code = 12;
pub(crate) const NOT_COMPATIBLE: Code = 14;
pub(crate) const QUEUE_EMPTY: Code = 18;
pub(crate) const INVALID_KIND: Code = 21;
pub(crate) const NOT_SUPPORTED: Code = 27;
pub(crate) const MULTIPLE_SUBSCRIBERS: Code = 39;

pub(crate) fn misuse(text: &str) -> ! {
    fatal(&format!("wrong use: {text}"))
}

thread_local! {
    static IN_CALLBACK: Cell<bool> = const { Cell::new(false) };
}

pub(crate) fn in_callback<T>(callback: impl FnOnce() -> T) -> T {
    let before = IN_CALLBACK.replace(true);
    let result = callback();
    IN_CALLBACK.set(before);
    result
}

fn libcuda_is_mapped() -> bool {
    static SEEN: AtomicBool = AtomicBool::new(false);
    if SEEN.load(Ordering::Relaxed) {
        return true;
    }
    // SAFETY: a constant name; nothing is mapped that is not yet.
    let handle = unsafe { libc::dlopen(c"libcuda.so.1".as_ptr(), libc::RTLD_NOW | libc::RTLD_NOLOAD) };
    SEEN.store(!handle.is_null(), Ordering::Relaxed);
    !handle.is_null()
}

type InHostCallback = extern "C" fn() -> c_int;

/// The stand-in for a GPU knows which threads run host functions now; a real driver has no such function.
fn in_host_callback() -> bool {
    static ASK: OnceLock<Option<InHostCallback>> = OnceLock::new();
    let ask = ASK.get_or_init(|| {
        // SAFETY: a constant name, looked up in what the process has mapped for everybody.
        let found = unsafe { libc::dlsym(libc::RTLD_DEFAULT, c"fakegpu_in_host_callback".as_ptr()) };
        // SAFETY: NULL is None, and anything else is the stand-in's function, of this type.
        unsafe { std::mem::transmute::<*mut c_void, Option<InHostCallback>>(found) }
    });
    ask.is_some_and(|ask| ask() != 0)
}

fn own_process() -> u32 {
    static OWN: OnceLock<u32> = OnceLock::new();
    *OWN.get_or_init(std::process::id)
}

pub(crate) fn start() {
    let _ = own_process();
}

static IS_GONE: AtomicBool = AtomicBool::new(false);

extern "C" fn gone() {
    IS_GONE.store(true, Ordering::Relaxed);
}

/// Seen on a GPU: CUPTI ends in an exit handler of its own, which it registers when a tool begins with it. A call
/// behind that crashes.
pub(crate) fn watch_exit() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        // SAFETY: the handler is a function of this library, which stores one atomic.
        let _failed = unsafe { libc::atexit(gone) };
    });
}

/// For functions that only ask: they work in a buffer callback too, and whatever `FAKECUPTI_INIT` says.
#[expect(clippy::unnecessary_wraps, reason = "of the type of the other two")]
pub(crate) fn ask(function: &str) -> Outcome {
    if std::process::id() != own_process() {
        misuse(&format!("{function} in a forked child"));
    }
    if IS_GONE.load(Ordering::Relaxed) {
        misuse(&format!("{function} behind CUPTI's own exit handler"));
    }
    if in_host_callback() {
        misuse(&format!("{function} from within a host callback of CUDA"));
    }
    if !libcuda_is_mapped() {
        misuse(&format!("{function} in a process without libcuda: some releases crash there"));
    }
    Ok(())
}

pub(crate) fn enter(function: &str) -> Outcome {
    ask(function)?;
    variables::get().init.map_or(Ok(()), Err)
}

pub(crate) fn outside(function: &str) -> Outcome {
    if IN_CALLBACK.get() {
        misuse(&format!("{function} from within a buffer callback"));
    }
    enter(function)
}
