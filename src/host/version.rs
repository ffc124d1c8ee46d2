//! Which NCCL is calling.
//!
//! Asked of the very libnccl that lent us the mask or the logger: a program can have several, and Python
//! loads it into a local scope.

use std::ffi::{CStr, c_int, c_void};
use std::mem::{self, MaybeUninit};
use std::sync::atomic::{AtomicU32, Ordering};

static VERSION: AtomicU32 = AtomicU32::new(0);

/// The first release with v7 (2.31). Forks export other structures under the name v7 before it.
pub(crate) const FIRST_WITH_V7: u32 = 23_100;

/// The version of the calling NCCL as `ncclGetVersion` says it (22809 is 2.28.9); 0 when it cannot be asked.
#[inline]
#[must_use]
pub fn current() -> u32 {
    VERSION.load(Ordering::Relaxed)
}

/// Asks the library that contains one of `addresses`, the first that answers.
pub(crate) fn learn(addresses: [*const c_void; 2]) {
    if let Some(version) = addresses.into_iter().find_map(ask) {
        VERSION.store(version, Ordering::Relaxed);
    }
}

fn ask(address: *const c_void) -> Option<u32> {
    let home = object_of(address)?;
    // SAFETY: the path is a string of the dynamic linker, valid while the object is loaded, which it is since
    // it is calling us. With RTLD_NOLOAD nothing is loaded and no constructor runs.
    let handle = unsafe { libc::dlopen(home.dli_fname, libc::RTLD_NOLOAD | libc::RTLD_LAZY) };
    // A program with NCCL linked into it has no handle of its own; its symbols are in the global scope.
    let scope = if handle.is_null() {
        libc::RTLD_DEFAULT
    } else {
        handle
    };
    // SAFETY: the scope is a handle of dlopen or RTLD_DEFAULT, the name is a string.
    let symbol = unsafe { libc::dlsym(scope, GET_VERSION.as_ptr()) };
    let version = object_of(symbol)
        .filter(|object| object.dli_fbase == home.dli_fbase)
        .and_then(|_| call(symbol));
    if !handle.is_null() {
        // SAFETY: gives back the reference that dlopen took above.
        let _ = unsafe { libc::dlclose(handle) };
    }
    version
}

const GET_VERSION: &CStr = c"ncclGetVersion";

/// The loaded object that contains an address.
fn object_of(address: *const c_void) -> Option<libc::Dl_info> {
    if address.is_null() {
        return None;
    }
    let mut info = MaybeUninit::<libc::Dl_info>::zeroed();
    // SAFETY: dladdr only compares the address and fills the structure.
    let found = unsafe { libc::dladdr(address, info.as_mut_ptr()) };
    // SAFETY: zeroed pointers are valid values, whether or not dladdr filled them.
    let info = unsafe { info.assume_init() };
    (found != 0 && !info.dli_fname.is_null()).then_some(info)
}

/// Calls `ncclGetVersion`.
fn call(symbol: *mut c_void) -> Option<u32> {
    type GetVersion = unsafe extern "C" fn(*mut c_int) -> c_int;
    // SAFETY: a symbol of this name in the library that called us is NCCL's function, of this type since 2.4.
    let get_version: GetVersion = unsafe { mem::transmute::<*mut c_void, GetVersion>(symbol) };
    let mut version: c_int = 0;
    // SAFETY: it writes one int, into a variable that lives during the call.
    let result = unsafe { get_version(&raw mut version) };
    u32::try_from(version)
        .ok()
        .filter(|&version| result == 0 && version > 0)
}

/// Runs `action` as if this NCCL were calling. One at a time: the version is the process's.
#[cfg(test)]
pub(crate) fn pretend<R>(version: u32, action: impl FnOnce() -> R) -> R {
    static ONE_AT_A_TIME: parking_lot::Mutex<()> = parking_lot::Mutex::new(());
    let _turn = ONE_AT_A_TIME.lock();
    VERSION.store(version, Ordering::Relaxed);
    let result = action();
    VERSION.store(0, Ordering::Relaxed);
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_outside_of_any_library_or_without_nccl_answers_nothing() {
        let on_the_heap = Box::new(0);
        assert_eq!(ask((&raw const *on_the_heap).cast()), None);
        assert_eq!(ask(std::ptr::null()), None);
        // In this program, which has no NCCL.
        assert_eq!(ask((&raw const VERSION).cast()), None);
    }
}
