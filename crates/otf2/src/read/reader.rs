//! An `OTF2_Reader*`, and the strings that it allocates.

use std::ffi::{c_char, c_void};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::ptr::{self, NonNull};

use otf2_sys as sys;

use super::anchor_file::check_anchor;
use crate::error::{self, Result, c_string, check, refused, text};

/// An open reader. Dropping it closes it, together with everything obtained from it.
pub(super) struct Reader {
    reader: NonNull<sys::OTF2_Reader>,
}

// SAFETY: the reader is reachable only through this value, libotf2 keeps no readers in global or thread-local
// state, and all methods take `&mut self`.
unsafe impl Send for Reader {}

impl Reader {
    pub(super) fn open(anchor: &Path) -> Result<Self> {
        let operation = || format!("open the archive {}", anchor.display());
        error::listen();
        if anchor.extension().is_none_or(|extension| extension != "otf2") {
            return Err(refused(operation(), "the anchor file of an archive ends in .otf2"));
        }
        check_anchor(anchor)?;
        let path = c_string(anchor.as_os_str().as_bytes(), operation)?;
        // SAFETY: a NUL-terminated string.
        let reader = unsafe { sys::OTF2_Reader_Open(path.as_ptr()) };
        let damaged = || error::damaged(anchor, "cannot be read", &error::null(operation()));
        let reader = NonNull::new(reader).ok_or_else(damaged)?;
        let opened = Self { reader };
        // SAFETY: the reader is open and has no collective callbacks yet.
        let code = unsafe { sys::OTF2_Reader_SetSerialCollectiveCallbacks(reader.as_ptr()) };
        check(code, operation)?;
        Ok(opened)
    }

    pub(super) fn as_ptr(&mut self) -> *mut sys::OTF2_Reader {
        self.reader.as_ptr()
    }

    /// Calls a function that allocates a string for its caller.
    pub(super) fn string(
        &mut self,
        what: &str,
        get: unsafe extern "C" fn(*mut sys::OTF2_Reader, *mut *mut c_char) -> sys::OTF2_ErrorCode,
    ) -> Result<String> {
        let mut text = ptr::null_mut();
        // SAFETY: all functions passed here take an open reader and a pointer to store a string in.
        let code = unsafe { get(self.reader.as_ptr(), &raw mut text) };
        let text = Allocated::new(text);
        check(code, || format!("read the {what}"))?;
        Ok(text.map(|text| text.to_string()).unwrap_or_default())
    }

    pub(super) fn properties(&mut self) -> Result<Vec<(String, String)>> {
        let operation = || "read the properties".to_owned();
        let (mut count, mut names) = (0_u32, ptr::null_mut());
        // SAFETY: the reader is open, and both pointers refer to local variables.
        let code = unsafe { sys::OTF2_Reader_GetPropertyNames(self.reader.as_ptr(), &raw mut count, &raw mut names) };
        // One allocation holds the array and the names.
        let array = Allocated::new(names.cast());
        check(code, operation)?;
        let mut properties = Vec::new();
        if array.is_none() {
            return Ok(properties);
        }
        for index in 0..usize::try_from(count).unwrap_or(0) {
            // SAFETY: libotf2 returned an array of `count` elements.
            let place = unsafe { names.add(index) };
            // SAFETY: as above; the array is alive.
            let name = unsafe { place.read() };
            let mut value = ptr::null_mut();
            // SAFETY: the reader is open, `name` comes from libotf2, and `value` is a local variable.
            let code = unsafe { sys::OTF2_Reader_GetProperty(self.reader.as_ptr(), name, &raw mut value) };
            let value = Allocated::new(value);
            check(code, operation)?;
            let value = value.map(|value| value.to_string()).unwrap_or_default();
            properties.push((text(name), value));
        }
        small_sort::sort(&mut properties);
        Ok(properties)
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        // SAFETY: open until here. Ignoring the result is fine: closing files that were only read loses nothing.
        unsafe { sys::OTF2_Reader_Close(self.reader.as_ptr()) };
    }
}

/// A string that libotf2 allocated with C's `malloc`.
struct Allocated(NonNull<c_char>);

unsafe extern "C" {
    fn free(memory: *mut c_void);
}

impl Allocated {
    fn new(text: *mut c_char) -> Option<Self> {
        NonNull::new(text).map(Self)
    }
}

impl std::fmt::Display for Allocated {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&text(self.0.as_ptr()))
    }
}

impl Drop for Allocated {
    fn drop(&mut self) {
        // SAFETY: allocated by libotf2 with `malloc` for the caller to free, and freed only here.
        unsafe { free(self.0.as_ptr().cast()) };
    }
}

/// Copies an array that libotf2 passed to a callback.
///
/// # Safety
///
/// `values` is NULL or points to `length` values that are alive.
pub(super) unsafe fn array<T: Copy>(values: *const T, length: usize) -> Vec<T> {
    if values.is_null() || length == 0 {
        return Vec::new();
    }
    // SAFETY: not NULL; the caller guarantees the rest.
    unsafe { std::slice::from_raw_parts(values, length) }.to_vec()
}

/// A table of callbacks, which a reader of libotf2 copies.
macro_rules! callback_table {
    ($name:ident of $type:ident: $new:ident, $delete:ident) => {
        pub(super) struct $name(std::ptr::NonNull<sys::$type>);

        impl $name {
            fn empty() -> Result<Self> {
                crate::error::forget();
                // SAFETY: takes no arguments, returns a table or NULL.
                let table = std::ptr::NonNull::new(unsafe { sys::$new() });
                table.map(Self).ok_or_else(|| crate::error::null("make a table of callbacks".to_owned()))
            }

            pub(super) fn as_ptr(&self) -> *mut sys::$type {
                self.0.as_ptr()
            }
        }

        impl Drop for $name {
            fn drop(&mut self) {
                // SAFETY: made by libotf2 and deleted only here; readers have their own copies.
                unsafe { sys::$delete(self.0.as_ptr()) };
            }
        }
    };
}
pub(super) use callback_table;
