//! The allocator of this program, of the C library and of the libraries that it loads: counts what the calling thread
//! asks for, and refuses it on demand.

use std::cell::Cell;
use std::ffi::{c_int, c_void};
use std::ptr;

#[derive(Clone, Copy)]
pub(crate) enum Refuse {
    Nothing,
    /// One request, after so many others.
    One(u64),
    /// All, after so many others.
    All(u64),
}

thread_local! {
    static COUNT: Cell<u64> = const { Cell::new(0) };
    static REFUSED: Cell<u64> = const { Cell::new(0) };
    static REFUSE: Cell<Refuse> = const { Cell::new(Refuse::Nothing) };
}

pub(crate) fn count() -> u64 {
    COUNT.get()
}

pub(crate) fn refuse(what: Refuse) {
    REFUSE.set(what);
}

pub(crate) fn refused() -> u64 {
    REFUSED.get()
}

fn is_refused() -> bool {
    COUNT.set(COUNT.get() + 1);
    let (is_refused, next) = match REFUSE.get() {
        Refuse::Nothing => (false, Refuse::Nothing),
        Refuse::One(0) => (true, Refuse::Nothing),
        Refuse::All(0) => (true, Refuse::All(0)),
        Refuse::One(others) => (false, Refuse::One(others - 1)),
        Refuse::All(others) => (false, Refuse::All(others - 1)),
    };
    REFUSE.set(next);
    REFUSED.set(REFUSED.get() + u64::from(is_refused));
    is_refused
}

unsafe extern "C" {
    fn __libc_malloc(bytes: usize) -> *mut c_void;
    fn __libc_calloc(number: usize, bytes: usize) -> *mut c_void;
    fn __libc_realloc(memory: *mut c_void, bytes: usize) -> *mut c_void;
    fn __libc_memalign(alignment: usize, bytes: usize) -> *mut c_void;
}

// SAFETY: takes the place of the C library's function, which it calls.
#[unsafe(no_mangle)]
unsafe extern "C" fn malloc(bytes: usize) -> *mut c_void {
    if is_refused() {
        return ptr::null_mut();
    }
    // SAFETY: the caller's arguments, unchanged.
    unsafe { __libc_malloc(bytes) }
}

// SAFETY: as above.
#[unsafe(no_mangle)]
unsafe extern "C" fn calloc(number: usize, bytes: usize) -> *mut c_void {
    if is_refused() {
        return ptr::null_mut();
    }
    // SAFETY: the caller's arguments, unchanged.
    unsafe { __libc_calloc(number, bytes) }
}

// SAFETY: as above.
#[unsafe(no_mangle)]
unsafe extern "C" fn realloc(memory: *mut c_void, bytes: usize) -> *mut c_void {
    if is_refused() {
        return ptr::null_mut();
    }
    // SAFETY: the caller's arguments, unchanged.
    unsafe { __libc_realloc(memory, bytes) }
}

// SAFETY: as above.
#[unsafe(no_mangle)]
unsafe extern "C" fn posix_memalign(place: *mut *mut c_void, alignment: usize, bytes: usize) -> c_int {
    if is_refused() {
        return libc::ENOMEM;
    }
    // SAFETY: the caller's arguments, unchanged.
    let memory = unsafe { __libc_memalign(alignment, bytes) };
    // SAFETY: the caller's place for the result.
    unsafe { place.write(memory) };
    if memory.is_null() { libc::ENOMEM } else { 0 }
}
