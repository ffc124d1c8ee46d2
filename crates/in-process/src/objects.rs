//! Finds the loaded object (program or library) that contains an address.

use std::ffi::CStr;
use std::mem::MaybeUninit;
use std::ptr;

#[derive(Clone, Copy, Debug)]
pub struct Object {
    pub base: usize,
    path: *const libc::c_char,
}

impl Object {
    /// The object that contains `address`; `None` if no object does, or if the object has no path.
    pub fn of(address: usize) -> Option<Self> {
        if address == 0 {
            return None;
        }
        let mut info = MaybeUninit::<libc::Dl_info>::zeroed();
        // SAFETY: dladdr only compares the address, and fills the structure if it knows the object.
        let found = unsafe { libc::dladdr(ptr::without_provenance(address), info.as_mut_ptr()) };
        // SAFETY: zeroed pointers are valid values, whether or not dladdr filled them.
        let info = unsafe { info.assume_init() };
        (found != 0 && !info.dli_fname.is_null()).then(|| Self { base: info.dli_fbase.addr(), path: info.dli_fname })
    }

    /// The object of a symbol of the library with this name or path, if loaded: that library, or one that it needs.
    pub fn of_symbol(library: &CStr, symbol: &CStr) -> Option<Self> {
        // SAFETY: a C string; with RTLD_NOLOAD nothing is loaded, so no constructor runs.
        let handle = unsafe { libc::dlopen(library.as_ptr(), libc::RTLD_LAZY | libc::RTLD_NOLOAD) };
        if handle.is_null() {
            return None;
        }
        // SAFETY: a handle from dlopen; the name is a C string.
        let symbol = unsafe { libc::dlsym(handle, symbol.as_ptr()) };
        let object = Self::of(symbol.addr());
        // SAFETY: releases the reference that dlopen took above.
        let _ = unsafe { libc::dlclose(handle) };
        object
    }

    /// The path as the dynamic linker stores it, valid while the object is loaded.
    pub const fn path(&self) -> *const libc::c_char {
        self.path
    }

    /// The file name, without its directory. The object must still be loaded.
    pub fn file_name(&self) -> String {
        // SAFETY: the path is not NULL (`of`), so it is the dynamic linker's string, which lives as long as the object
        // is loaded. Callers call this right after they have found a symbol in the object.
        let path = unsafe { CStr::from_ptr(self.path) };
        let path = path.to_string_lossy();
        path.rsplit('/').next().unwrap_or(&path).to_owned()
    }
}
