//! Which loaded object (program or library) an address lies in.

use std::ffi::CStr;
use std::mem::MaybeUninit;
use std::ptr;

#[derive(Clone, Copy, Debug)]
pub struct Object {
    pub base: usize,
    path: *const libc::c_char,
}

impl Object {
    /// The object that contains `address`, if there is one with a path.
    pub fn of(address: usize) -> Option<Self> {
        if address == 0 {
            return None;
        }
        let mut info = MaybeUninit::<libc::Dl_info>::zeroed();
        // SAFETY: dladdr only compares the address, and fills the structure when it knows the object.
        let found = unsafe { libc::dladdr(ptr::without_provenance(address), info.as_mut_ptr()) };
        // SAFETY: zeroed pointers are valid values, whether or not dladdr filled them.
        let info = unsafe { info.assume_init() };
        (found != 0 && !info.dli_fname.is_null()).then(|| Self { base: info.dli_fbase.addr(), path: info.dli_fname })
    }

    /// Its path, as the dynamic linker has it. Valid while the object is loaded.
    pub const fn path(&self) -> *const libc::c_char {
        self.path
    }

    /// The file name, without its directory. The object must still be loaded.
    pub fn file_name(&self) -> String {
        // SAFETY: not NULL (`of`), so a string of the dynamic linker, which lives as long as the object is loaded;
        // callers ask right after they found a symbol in it.
        let path = unsafe { CStr::from_ptr(self.path) };
        let path = path.to_string_lossy();
        path.rsplit('/').next().unwrap_or(&path).to_owned()
    }
}
