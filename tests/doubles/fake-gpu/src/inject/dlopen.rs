//! Stands before the C library's `dlopen`: answers for the NVIDIA libraries, and patches NCCL when it is mapped.

use crate::log::warning;
use crate::mapped::real;
use crate::settings::{self, Driver};
use c_double::args::Text;
use std::ffi::{CStr, CString, c_int, c_void};
use std::mem::MaybeUninit;
use std::ptr::null_mut;

fn own_path() -> Option<CString> {
    let mut info = MaybeUninit::<libc::Dl_info>::zeroed();
    let inside: *const c_void = (own_path as *const ()).cast();
    // SAFETY: takes any address; `info` has room for the answer.
    let known = unsafe { libc::dladdr(inside, info.as_mut_ptr()) };
    // SAFETY: all zeroes are valid (pointers that are NULL), whether or not dladdr wrote.
    let info = unsafe { info.assume_init() };
    if known == 0 || info.dli_fname.is_null() {
        return None;
    }
    // SAFETY: not NULL: the loader's name of a file that stays mapped.
    Some(unsafe { CStr::from_ptr(info.dli_fname) }.to_owned())
}

#[unsafe(no_mangle)]
extern "C" fn dlopen(path: Text, flags: c_int) -> *mut c_void {
    let Some(real) = real() else {
        warning!("no dlopen in the C library");
        return null_mut();
    };
    let text = path.get();
    let file = text.rsplit('/').next().unwrap_or("");
    let is_driver = file.starts_with("libcuda.so");
    if is_driver && settings::get().driver == Driver::Absent {
        // SAFETY: the C library's function, with a constant path: it has its own text for `dlerror` then.
        return unsafe { real(c"/nonexistent/libcuda.so.1".as_ptr(), flags) };
    }
    if (is_driver || file.starts_with("libnvidia-ml.so"))
        && let Some(own) = own_path()
    {
        // SAFETY: the C library's function, with the path of this library, which is mapped already.
        return unsafe { real(own.as_ptr(), flags) };
    }
    // SAFETY: the C library's function, with what its caller passed.
    let handle = unsafe { real(path.pointer(), flags) };
    if !handle.is_null() {
        super::scan();
    }
    handle
}
