//! Identifies the calling NCCL.
//!
//! The plugin asks the library that contains the mask or the logger, because a program can have several copies of
//! libnccl, and Python loads libnccl into a local scope.

use std::ffi::{CStr, c_int, c_void};
use std::mem;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, Ordering};

use in_process::Object;

static VERSION: AtomicU32 = AtomicU32::new(0);
static IS_RCCL: AtomicBool = AtomicBool::new(false);
static NOTED: AtomicPtr<c_void> = AtomicPtr::new(ptr::null_mut());

/// The version of the calling NCCL, as `ncclGetVersion` returns it (22809 is 2.28.9); 0 if unknown.
#[inline]
pub(crate) fn current() -> u32 {
    VERSION.load(Ordering::Relaxed)
}

pub(crate) fn is_rccl() -> bool {
    IS_RCCL.load(Ordering::Relaxed)
}

/// Asks the libraries that contain `addresses`; the first answer counts.
pub(crate) fn learn(addresses: [*const c_void; 2]) {
    let mut callers = addresses.into_iter().filter_map(|address| Object::of(address.addr()));
    IS_RCCL.store(callers.any(|caller| caller.file_name().contains("librccl")), Ordering::Relaxed);
    if let Some(version) = addresses.into_iter().find_map(ask) {
        VERSION.store(version, Ordering::Relaxed);
    }
}

/// Notes an address in libnccl, for [`learn_from_noted`].
pub(crate) fn note(address: *const c_void) {
    NOTED.store(address.cast_mut(), Ordering::Relaxed);
}

/// As [`learn`], before NCCL calls the plugin.
pub(crate) fn learn_from_noted() {
    learn([NOTED.load(Ordering::Relaxed), ptr::null()]);
}

fn ask(address: *const c_void) -> Option<u32> {
    let home = Object::of(address.addr())?;
    // SAFETY: the path is a string of the dynamic linker, valid while the object is loaded, and the object is loaded
    // because it is calling the plugin. With RTLD_NOLOAD nothing is loaded and no constructor runs.
    let handle = unsafe { libc::dlopen(home.path(), libc::RTLD_NOLOAD | libc::RTLD_LAZY) };
    // A program with NCCL linked in has no handle of its own; its symbols are in the global scope.
    let scope = if handle.is_null() { libc::RTLD_DEFAULT } else { handle };
    // SAFETY: the scope is a handle from dlopen or RTLD_DEFAULT; the name is a C string.
    let symbol = unsafe { libc::dlsym(scope, GET_VERSION.as_ptr()) };
    let version = Object::of(symbol.addr()).filter(|object| object.base == home.base).and_then(|_| call(symbol));
    if !handle.is_null() {
        // SAFETY: releases the reference that dlopen took above.
        let _ = unsafe { libc::dlclose(handle) };
    }
    version
}

const GET_VERSION: &CStr = c"ncclGetVersion";

fn call(symbol: *mut c_void) -> Option<u32> {
    type GetVersion = unsafe extern "C" fn(*mut c_int) -> c_int;
    // SAFETY: a symbol of this name in the calling library is NCCL's function, which has had this type since 2.4.
    let get_version: GetVersion = unsafe { mem::transmute::<*mut c_void, GetVersion>(symbol) };
    let mut version: c_int = 0;
    // SAFETY: writes one int into a variable that lives during the call.
    let result = unsafe { get_version(&raw mut version) };
    u32::try_from(version).ok().filter(|&version| result == 0 && version > 0)
}

/// Runs `action` as if this NCCL were calling. One call at a time, because the version is process-wide.
#[cfg(test)]
pub(crate) fn pretend<R>(version: u32, action: impl FnOnce() -> R) -> R {
    static ONE_AT_A_TIME: parking_lot::Mutex<()> = parking_lot::Mutex::new(());
    let _turn = ONE_AT_A_TIME.lock();
    VERSION.store(version, Ordering::Relaxed);
    let result = action();
    VERSION.store(0, Ordering::Relaxed);
    result
}
