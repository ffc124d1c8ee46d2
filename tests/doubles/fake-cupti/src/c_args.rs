//! Parameters of the C functions.
//!
//! The invariant, upheld by the callers in C, to whom these functions are the ones of CUPTI's headers: a pointer
//! parameter is NULL, or valid for the access its type stands for during the call. The types below can only come into
//! being as such parameters: they are transparent, so that a C pointer is one.

use std::ffi::{CStr, c_char};

/// `T *`: where the caller wants a result, or keeps a value that the call changes.
#[repr(transparent)]
#[derive(Clone, Copy)]
pub(crate) struct Out<T>(*mut T);

impl<T: Copy> Out<T> {
    pub(crate) fn is_null(self) -> bool {
        self.0.is_null()
    }

    /// Gives the caller its result; not wanted where there is no place for it.
    pub(crate) fn set(self, value: T) {
        if !self.0.is_null() {
            // SAFETY: not NULL, so valid for a write by the invariant of this module (upheld by the C caller).
            unsafe { self.0.write_unaligned(value) }
        }
    }

    /// What the caller has there.
    pub(crate) fn get(self) -> Option<T> {
        if self.0.is_null() {
            return None;
        }
        // SAFETY: not NULL, so valid for a read by the invariant of this module (upheld by the C caller).
        Some(unsafe { self.0.read_unaligned() })
    }

    /// Gives the caller one element of an array.
    pub(crate) fn set_element(self, index: usize, value: T) {
        if !self.0.is_null() {
            Out(self.0.wrapping_add(index)).set(value);
        }
    }
}

/// `const T *`: what the caller passes.
#[repr(transparent)]
#[derive(Clone, Copy)]
pub(crate) struct In<T>(*const T);

impl<T: Copy> In<T> {
    /// What it points to.
    pub(crate) fn get(self) -> Option<T> {
        self.element(0)
    }

    /// An element of the array it points to.
    pub(crate) fn element(self, index: usize) -> Option<T> {
        if self.0.is_null() {
            return None;
        }
        let at = self.0.wrapping_add(index);
        // SAFETY: not NULL, so valid for a read by the invariant of this module (upheld by the C caller).
        Some(unsafe { at.read_unaligned() })
    }

    /// The same place, to be read as something else that is there.
    pub(crate) fn cast<U: Copy>(self) -> In<U> {
        In(self.0.cast())
    }

    pub(crate) fn address(self) -> usize {
        self.0.expose_provenance()
    }
}

/// `const char *`: a text.
#[repr(transparent)]
#[derive(Clone, Copy)]
pub(crate) struct Text(*const c_char);

impl Text {
    pub(crate) const NONE: Text = Text(std::ptr::null());

    /// A copy of the text, if there is one.
    pub(crate) fn get(self) -> Option<String> {
        if self.0.is_null() {
            return None;
        }
        // SAFETY: not NULL, so a NUL-terminated text during the call, by the invariant of this module.
        let text = unsafe { CStr::from_ptr(self.0) };
        Some(text.to_string_lossy().into_owned())
    }
}
