//! The logger that `init` hands to a plugin, and NCCL's activation mask: what of NCCL a plugin can touch.

use std::ffi::{CStr, c_char, c_int, c_ulong, c_void};
use std::mem;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU64, Ordering};

use nccl_profiler_otf2::abi::sys;

use crate::libnccl;

/// The activation mask while there is no libnccl to have one.
static MASK: AtomicI32 = AtomicI32::new(0);

static LINES: AtomicU64 = AtomicU64::new(0);
static LATE_LINES: AtomicU64 = AtomicU64::new(0);
static QUIET: AtomicBool = AtomicBool::new(false);
static LIVE_COMMUNICATORS: AtomicU64 = AtomicU64::new(0);

/// NCCL's activation mask: one per process, shared by all communicators, never reset.
fn the_mask() -> &'static AtomicI32 {
    libnccl::mask().unwrap_or(&MASK)
}

/// The mask's address as `init` takes it.
#[must_use]
pub fn mask_address() -> *mut c_int {
    the_mask().as_ptr()
}

/// The mask as NCCL reads it.
#[must_use]
pub fn mask() -> u32 {
    the_mask().load(Ordering::Relaxed).cast_unsigned()
}

/// Changes the mask as NCCL's RAS client does.
pub fn set_mask(mask: u32) {
    the_mask().store(mask.cast_signed(), Ordering::Relaxed);
}

/// Keeps the plugin's lines from standard error.
pub fn set_quiet(quiet: bool) {
    QUIET.store(quiet, Ordering::Relaxed);
}

/// A communicator exists: from before its init to after its finalize the logger may be called.
pub fn communicator_begins() {
    LIVE_COMMUNICATORS.fetch_add(1, Ordering::Relaxed);
}

/// A communicator is gone.
pub fn communicator_ends() {
    let _ = LIVE_COMMUNICATORS.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |live| {
        live.checked_sub(1)
    });
}

/// How many lines were logged, and how many of them without a communicator, when libnccl may be gone.
#[must_use]
pub fn lines() -> (u64, u64) {
    (
        LINES.load(Ordering::Relaxed),
        LATE_LINES.load(Ordering::Relaxed),
    )
}

/// The logger as `init` takes it.
#[must_use]
pub fn function() -> sys::ncclDebugLogger_t {
    type Plain = unsafe extern "C" fn(
        sys::ncclDebugLogLevel,
        c_ulong,
        *const c_char,
        c_int,
        *const c_char,
        *const c_char,
    );
    type Variadic = unsafe extern "C" fn(
        sys::ncclDebugLogLevel,
        c_ulong,
        *const c_char,
        c_int,
        *const c_char,
        ...
    );
    if let Some(lent) = libnccl::logger() {
        // SAFETY: `ncclDebugLog` of the stand-in has the arguments of `log`, and what is said below holds for it.
        return Some(unsafe { mem::transmute::<*mut c_void, Variadic>(lent) });
    }
    let plain: Plain = log;
    // SAFETY: on x86-64 and aarch64 Linux a variadic call passes its first integer arguments in the registers of a
    // plain call, and `log` has six, which fit. It looks at the last only when the format takes a string there.
    Some(unsafe { mem::transmute::<Plain, Variadic>(plain) })
}

/// The logger of this program, for plugins that find no libnccl.
unsafe extern "C" fn log(
    level: sys::ncclDebugLogLevel,
    _flags: c_ulong,
    _file: *const c_char,
    _line: c_int,
    format: *const c_char,
    argument: *const c_char,
) {
    // SAFETY: the strings are the plugin's, unchanged.
    unsafe { print(level.cast_signed(), format, argument) };
}

/// Prints the plugin's line. Rust cannot define a variadic function, so the only format that is filled in is
/// `%s`; of others the format itself is printed.
pub(crate) unsafe extern "C" fn print(
    level: c_int,
    format: *const c_char,
    argument: *const c_char,
) {
    LINES.fetch_add(1, Ordering::Relaxed);
    let late = LIVE_COMMUNICATORS.load(Ordering::Relaxed) == 0;
    if late {
        LATE_LINES.fetch_add(1, Ordering::Relaxed);
    }
    if QUIET.load(Ordering::Relaxed) || format.is_null() {
        return;
    }
    // SAFETY: not NULL, so a C string: the plugin keeps to the interface.
    let format = unsafe { CStr::from_ptr(format) };
    let takes_string = format.to_bytes().starts_with(b"%s") && !argument.is_null();
    let text = if takes_string {
        // SAFETY: the format's first directive takes a C string, which is therefore the first argument.
        unsafe { CStr::from_ptr(argument) }
    } else {
        format
    };
    let level = match level.cast_unsigned() {
        sys::NCCL_LOG_WARN => "WARN",
        sys::NCCL_LOG_INFO => "INFO",
        _ => "LOG",
    };
    let late = if late {
        " (without a communicator!)"
    } else {
        ""
    };
    eprintln!("NCCL {level} {}{late}", text.to_string_lossy());
}
