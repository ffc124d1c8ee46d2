//! The plugin's messages, in NCCL's log beside its own (`NCCL_DEBUG`, `NCCL_DEBUG_FILE`); warnings also on stderr.
//!
//! Only for `init`, `finalize` and the plugin's own threads: NCCL's logger takes a lock and asks CUDA for the device,
//! so start, stop and state callbacks must not call it. Up to v3 NCCL passes no logger.

use std::ffi::{CString, c_int};
use std::mem;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicPtr, Ordering};

use super::live;

use journal::writing;

static LOGGER: AtomicPtr<()> = AtomicPtr::new(ptr::null_mut());
static LENT: AtomicBool = AtomicBool::new(false);

pub(crate) type Logger = unsafe extern "C" fn(
    std::ffi::c_uint,
    std::ffi::c_ulong,
    *const std::ffi::c_char,
    c_int,
    *const std::ffi::c_char,
    ...
);

/// NCCL's numbers (`nccl_common.h`).
const LOG_INFO: std::ffi::c_uint = 3;
const INIT: std::ffi::c_ulong = 1;
const PROFILE: std::ffi::c_ulong = 0x4000;
/// PROFILE is the plugin's subsystem. INIT is in NCCL's default set, so `NCCL_DEBUG=INFO` alone shows its lines.
const FLAGS: std::ffi::c_ulong = INIT | PROFILE;

/// Remembers NCCL's logger; ignores `None` (v1–v3).
pub(crate) fn remember(logger: Option<Logger>) {
    if let Some(logger) = logger {
        LOGGER.store(logger as *mut (), Ordering::Release);
        LENT.store(true, Ordering::Relaxed);
    }
}

/// Forgets NCCL's logger. For exit handlers, which may run after libnccl's own destructors.
pub(crate) fn forget() {
    LOGGER.store(ptr::null_mut(), Ordering::Release);
}

/// Whether this NCCL passes a logger at all (v4 and later); if not, [`info`] writes nothing.
pub(crate) fn was_lent() -> bool {
    LENT.load(Ordering::Relaxed)
}

/// Writes a line that every user must read, to stderr and to NCCL's log.
///
/// In NCCL's log the line is INFO, because a WARN would become the text of `ncclGetLastError`.
pub(crate) fn warn(message: &str) {
    in_process::say(message);
    info(message);
}

/// Writes a line for users who request it (`NCCL_DEBUG=INFO`).
pub(crate) fn info(message: &str) {
    let logger = LOGGER.load(Ordering::Acquire);
    if logger.is_null() || !live::any() {
        return;
    }
    // SAFETY: the pointer is not NULL, and `remember` stored it from a function of exactly this type.
    let logger: Logger = unsafe { mem::transmute::<*mut (), Logger>(logger) };
    let Ok(line) = CString::new(in_process::line(message)) else {
        return;
    };
    // SAFETY: libnccl is loaded while a communicator lives. The format takes one string; NCCL keeps none of the
    // pointers. File and line are printed only for WARN.
    writing::guarded(|| unsafe {
        logger(LOG_INFO, FLAGS, c"nccl-otf2".as_ptr(), 0, c"%s".as_ptr(), line.as_ptr());
    });
}
