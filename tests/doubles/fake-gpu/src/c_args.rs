//! Parameters of the C functions that this library stands in for.
//!
//! The invariant, upheld by the callers in C (NCCL and the host program), to whom these functions are the ones of
//! the CUDA headers: a pointer parameter is NULL, or valid for the access its type stands for during the call.
//! The types below can only come into being as such parameters: they have no constructor, and are transparent,
//! so that a C pointer is one. A result that is asked for with NULL is not wanted, and dropped.

use std::borrow::Cow;
use std::ffi::{CStr, c_char};

/// `T *`: where the caller wants a result.
#[repr(transparent)]
pub(crate) struct Out<T>(*mut T);

impl<T: Copy> Out<T> {
    /// Gives the caller its result.
    pub(crate) fn set(&self, value: T) {
        if !self.0.is_null() {
            // SAFETY: not NULL, so valid for a write by the invariant of this module (upheld by the C caller).
            unsafe { self.0.write_unaligned(value) }
        }
    }

    /// Gives the caller one element of a structure or array.
    pub(crate) fn set_element(&self, index: usize, value: T) {
        if !self.0.is_null() {
            Out(self.0.wrapping_add(index)).set(value);
        }
    }

    /// Gives the caller a result of several elements.
    pub(crate) fn set_all(&self, values: &[T]) {
        if !self.0.is_null() {
            // SAFETY: not NULL; the callers of functions with such a parameter have room for the whole structure
            // (the invariant of this module), of which `values` is the head.
            unsafe { std::ptr::copy_nonoverlapping(values.as_ptr(), self.0, values.len()) }
        }
    }
}

/// `T *`: a value that the call exchanges for another.
#[repr(transparent)]
pub(crate) struct InOut<T>(*mut T);

impl<T: Copy> InOut<T> {
    /// Gives the caller the other value for its own.
    pub(crate) fn exchange(&self, other: impl FnOnce(T) -> T) {
        if let Some(own) = In(self.0.cast_const()).get() {
            Out(self.0).set(other(own));
        }
    }
}

/// `const T *`: what the caller passes.
#[repr(transparent)]
pub(crate) struct In<T>(*const T);

impl<T: Copy> In<T> {
    /// What it points to.
    pub(crate) fn get(&self) -> Option<T> {
        if self.0.is_null() {
            return None;
        }
        // SAFETY: not NULL, so valid for a read by the invariant of this module (upheld by the C caller).
        Some(unsafe { self.0.read_unaligned() })
    }

    /// Element of the array it points to.
    pub(crate) fn element(&self, index: usize) -> Option<T> {
        if self.0.is_null() {
            return None;
        }
        In(self.0.wrapping_add(index)).get()
    }

    /// The address.
    pub(crate) fn address(&self) -> usize {
        self.0 as usize
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
pub(crate) struct Text(*const c_char);

impl Text {
    /// The text; empty where there is none.
    pub(crate) fn get(&self) -> Cow<'_, str> {
        if self.0.is_null() {
            return Cow::Borrowed("");
        }
        // SAFETY: not NULL, so a NUL-terminated text during the call, by the invariant of this module.
        unsafe { CStr::from_ptr(self.0) }.to_string_lossy()
    }

    /// The pointer itself, to hand on.
    pub(crate) fn pointer(&self) -> *const c_char {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ptr::{null, null_mut};

    #[test]
    fn what_is_not_asked_for_is_not_written() {
        let none = Out::<u32>(null_mut());
        none.set(1);
        none.set_element(3, 1);
        none.set_all(&[1, 2]);
        let mut values = [0_u32; 3];
        let out = Out(values.as_mut_ptr());
        out.set(1);
        out.set_element(2, 3);
        assert_eq!(values, [1, 0, 3]);
    }

    #[test]
    fn nothing_is_read_from_nowhere() {
        let none = In::<u64>(null());
        assert_eq!((none.get(), none.element(1)), (None, None));
        assert_eq!(Text(null()).get(), "");
        assert_eq!(In([4_u64, 5].as_ptr()).element(1), Some(5));
    }
}
