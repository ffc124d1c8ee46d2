//! Parameters of the C functions that a double stands in for.
//!
//! The invariant, upheld by the callers in C, to whom these functions are those of the real headers: a pointer
//! parameter is NULL, or valid for the access its type stands for during the call. The types below only come into being
//! as such parameters, or are read from what such a parameter points to: they have no constructor, and are transparent.
//! A result that is asked for with NULL is dropped.

use std::borrow::Cow;
use std::ffi::{CStr, c_char};

/// `T *`: where the caller wants a result, or keeps a value that the call changes.
#[repr(transparent)]
#[derive(Debug)]
pub struct Out<T>(*mut T);

impl<T> Out<T> {
    pub const NONE: Self = Out(std::ptr::null_mut());
}

impl<T: Copy> Out<T> {
    pub fn is_null(&self) -> bool {
        self.0.is_null()
    }

    pub fn get(&self) -> Option<T> {
        In(self.0.cast_const()).get()
    }

    pub fn set(&self, value: T) {
        self.set_element(0, value);
    }

    pub fn set_element(&self, index: usize, value: T) {
        if !self.0.is_null() {
            // SAFETY: not NULL, so valid for a write by the invariant of this module (upheld by the C caller).
            unsafe { self.0.wrapping_add(index).write_unaligned(value) }
        }
    }

    pub fn set_all(&self, values: &[T]) {
        for (index, value) in values.iter().enumerate() {
            self.set_element(index, *value);
        }
    }
}

impl<T> Clone for Out<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Out<T> {}

/// `const T *`: what the caller passes.
#[repr(transparent)]
#[derive(Debug)]
pub struct In<T>(*const T);

impl<T: Copy> In<T> {
    pub fn get(&self) -> Option<T> {
        self.element(0)
    }

    pub fn element(&self, index: usize) -> Option<T> {
        if self.0.is_null() {
            return None;
        }
        // SAFETY: not NULL, so valid for a read by the invariant of this module (upheld by the C caller).
        Some(unsafe { self.0.wrapping_add(index).read_unaligned() })
    }

    /// The same place, to be read as something else that is there.
    pub fn cast<U>(&self) -> In<U> {
        In(self.0.cast())
    }

    pub fn address(&self) -> usize {
        self.0.expose_provenance()
    }
}

impl<T> Clone for In<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for In<T> {}

/// `const char *`: a text.
#[repr(transparent)]
#[derive(Clone, Copy, Debug)]
pub struct Text(*const c_char);

impl Text {
    /// The text; empty for NULL.
    pub fn get(&self) -> Cow<'_, str> {
        if self.0.is_null() {
            return Cow::Borrowed("");
        }
        // SAFETY: not NULL, so a NUL-terminated text during the call, by the invariant of this module.
        unsafe { CStr::from_ptr(self.0) }.to_string_lossy()
    }

    pub fn pointer(&self) -> *const c_char {
        self.0
    }
}
