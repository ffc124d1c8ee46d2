//! What a profiler plugin can see of libnccl: its version, the activation mask, the logger. Nothing else of NCCL.
//!
//! A plugin asks the library that lent it the mask or the logger which release it is. `plugin-host` loads this one,
//! says which release it is to be, and lends the plugin its mask and its logger; and it can close it, after which
//! their addresses lead nowhere, as those of a libnccl do that Python has unloaded.

use std::ffi::{c_char, c_int, c_ulong};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicI32, Ordering};

/// Takes the lines of the log: level, format, and the argument in the place of the first string.
pub type Printer = unsafe extern "C" fn(c_int, *const c_char, *const c_char);

static VERSION: AtomicI32 = AtomicI32::new(0);
static PRINTER: OnceLock<Printer> = OnceLock::new();

/// NCCL's activation mask: one per process, never reset.
#[unsafe(no_mangle)]
pub static ncclProfilerEventMask: AtomicI32 = AtomicI32::new(0);

/// Says which release this is (22809 is 2.28.9) and where the log goes.
#[unsafe(no_mangle)]
pub extern "C" fn ncclStandInBegin(version: c_int, printer: Printer) {
    VERSION.store(version, Ordering::Relaxed);
    // A library that is still loaded from before keeps the printer that it has: it is the same.
    let _same = PRINTER.set(printer);
}

/// As in NCCL.
///
/// # Safety
/// `version` points to an int or is NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ncclGetVersion(version: *mut c_int) -> c_int {
    const INVALID_ARGUMENT: c_int = 4;
    if version.is_null() {
        return INVALID_ARGUMENT;
    }
    // SAFETY: not NULL, so it points to an int (contract).
    unsafe { version.write(VERSION.load(Ordering::Relaxed)) };
    0
}

/// NCCL's logger. There it is variadic; on x86-64 and aarch64 Linux such a call passes its first integer arguments in
/// the registers of a plain call, and this one has six, which fit.
///
/// # Safety
/// `format` is a C string; if it takes a string first, `argument` is one.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ncclDebugLog(
    level: c_int,
    _flags: c_ulong,
    _file: *const c_char,
    _line: c_int,
    format: *const c_char,
    argument: *const c_char,
) {
    if let Some(printer) = PRINTER.get() {
        // SAFETY: the strings are the plugin's, unchanged.
        unsafe { printer(level, format, argument) };
    }
}
