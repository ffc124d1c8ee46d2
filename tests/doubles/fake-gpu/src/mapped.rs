//! What the process has mapped.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::sync::OnceLock;

/// Files that are mapped: base address and path.
pub(crate) type Mapped = Vec<(usize, String)>;

unsafe extern "C" fn each(info: *mut libc::dl_phdr_info, _: usize, found: *mut c_void) -> c_int {
    // SAFETY: `dl_iterate_phdr` passes a valid structure for the time of this call.
    let info = unsafe { &*info };
    // SAFETY: `mapped` passes a pointer to its own vector, which nobody else uses meanwhile.
    let found = unsafe { &mut *found.cast::<Mapped>() };
    if !info.dlpi_name.is_null() {
        // SAFETY: not NULL: the loader's NUL-terminated name of the file.
        let name = unsafe { CStr::from_ptr(info.dlpi_name) };
        found.push((info.dlpi_addr as usize, name.to_string_lossy().into_owned()));
    }
    0
}

pub(crate) fn mapped(name: &str) -> Mapped {
    let mut found: Mapped = Vec::new();
    // SAFETY: `each` is of the type that is asked for, and the pointer is to a vector that outlives the call.
    unsafe { libc::dl_iterate_phdr(Some(each), (&raw mut found).cast()) };
    found.retain(|(_, path)| path.rsplit('/').next().is_some_and(|file| file.starts_with(name)));
    found
}

/// The C library's `dlopen`.
pub(crate) type Dlopen = unsafe extern "C" fn(*const c_char, c_int) -> *mut c_void;

/// The function that this library's own stands before.
pub(crate) fn real() -> Option<Dlopen> {
    static REAL: OnceLock<Option<Dlopen>> = OnceLock::new();
    *REAL.get_or_init(|| {
        // SAFETY: a constant name; RTLD_NEXT is the libraries after this one.
        let found = unsafe { libc::dlsym(libc::RTLD_NEXT, c"dlopen".as_ptr()) };
        // SAFETY: NULL is None, and anything else is the C library's dlopen, of this type.
        unsafe { std::mem::transmute::<*mut c_void, Option<Dlopen>>(found) }
    })
}

pub(crate) fn open_mapped(path: &CStr) -> Option<*mut c_void> {
    let real = real()?;
    // SAFETY: the C library's function, with a text; nothing is mapped that is not yet.
    let handle = unsafe { real(path.as_ptr(), libc::RTLD_NOW | libc::RTLD_NOLOAD) };
    (!handle.is_null()).then_some(handle)
}
