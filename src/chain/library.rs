//! Loads the libraries of chained plugins, as NCCL does.

use std::ffi::{CStr, CString, c_void};

use crate::host::version;
use in_process::Object;

/// A loaded library. It is never unloaded, because its threads may run at any time.
pub(crate) struct Library(*mut c_void);

impl Library {
    pub(crate) fn load(name: &str) -> Result<Self, String> {
        let mut errors: Vec<String> = Vec::new();
        for file in files(name, version::is_rccl()) {
            match open(&file) {
                Ok(library) => return Ok(library),
                Err(error) => errors.push(error),
            }
        }
        Err(errors.join("; "))
    }

    pub(crate) fn symbol(&self, name: &CStr) -> *const c_void {
        // SAFETY: dlopen returned the handle, which was not closed; the name is a C string.
        unsafe { libc::dlsym(self.0, name.as_ptr()) }
    }
}

pub(crate) fn is_own(address: *const c_void) -> bool {
    static HERE: u8 = 0;
    let base = |address: usize| Object::of(address).map(|object| object.base);
    base(address.addr()).is_some_and(|found| Some(found) == base((&raw const HERE).addr()))
}

fn files(name: &str, by_rccl: bool) -> Vec<String> {
    if name.contains('/') {
        return vec![name.to_owned()];
    }
    let mut files = vec![format!("libnccl-profiler-{name}.so")];
    if by_rccl {
        files.push(format!("librccl-profiler-{name}.so"));
    }
    files.push(name.to_owned());
    files
}

fn open(file: &str) -> Result<Library, String> {
    let path = CString::new(file).map_err(|_| format!("{file:?} has a NUL in it"))?;
    // SAFETY: the user named this library as a profiler plugin; its constructors run as if NCCL had loaded it.
    let handle = unsafe { libc::dlopen(path.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
    if !handle.is_null() {
        return Ok(Library(handle));
    }
    // SAFETY: returns NULL or the message of the call above, which stays valid until the next call on this thread.
    let error = unsafe { libc::dlerror() };
    if error.is_null() {
        return Err(format!("{file} cannot be loaded"));
    }
    // SAFETY: not NULL, so a C string.
    let error = unsafe { CStr::from_ptr(error) };
    Err(error.to_string_lossy().into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_tried_as_nccl_tries_it() {
        assert_eq!(files("inspector", false), ["libnccl-profiler-inspector.so", "inspector"]);
        assert_eq!(files("x", true), ["libnccl-profiler-x.so", "librccl-profiler-x.so", "x"]);
        assert_eq!(files("./x", true), ["./x"]);
    }
}
