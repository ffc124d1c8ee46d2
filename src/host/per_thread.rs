//! A value for each thread, for callbacks.
//!
//! `thread_local!` ends the program when there is no memory: the C library allocates a library's thread-local block on
//! a thread's first use, and registers destructors in its own memory. Keys of POSIX threads fail instead.

use std::ffi::c_void;
use std::marker::PhantomData;
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicU32, Ordering};

use super::memory;
use in_process::panics;

/// A value for each thread that asks for it; dropped when the thread ends.
pub(crate) struct PerThread<T: 'static> {
    key: AtomicU32,
    values: PhantomData<fn() -> T>,
}

/// Not a key: there are 1024.
const NO_KEY: u32 = u32::MAX;

impl<T: 'static> PerThread<T> {
    pub(crate) const fn new() -> Self {
        Self { key: AtomicU32::new(NO_KEY), values: PhantomData }
    }

    /// Runs `action` with the calling thread's value, made by `make` if need be. `None` if that makes none.
    #[inline]
    pub(crate) fn with<R>(&'static self, make: impl FnOnce() -> Option<T>, action: impl FnOnce(&T) -> R) -> Option<R> {
        let value = match self.value() {
            Some(value) => value,
            None => self.first(make)?,
        };
        // SAFETY: `first` put a value there that only this thread has and that lives until it ends.
        Some(action(unsafe { value.as_ref() }))
    }

    #[inline]
    fn value(&self) -> Option<NonNull<T>> {
        let key = self.key.load(Ordering::Relaxed);
        if key == NO_KEY {
            return None;
        }
        // SAFETY: `key` was made by `pthread_key_create` and is never deleted.
        NonNull::new(unsafe { libc::pthread_getspecific(key) }.cast())
    }

    #[cold]
    #[inline(never)]
    fn first(&'static self, make: impl FnOnce() -> Option<T>) -> Option<NonNull<T>> {
        let key = self.key()?;
        let value = NonNull::from(Box::leak(Box::new(make()?)));
        // SAFETY: the key exists, and its destructor takes such a value.
        if unsafe { libc::pthread_setspecific(key, value.as_ptr().cast()) } == 0 {
            return Some(value);
        }
        memory::fail();
        // SAFETY: it is the box of above, and nobody else has it.
        drop(unsafe { Box::from_raw(value.as_ptr()) });
        None
    }

    fn key(&self) -> Option<u32> {
        let known = self.key.load(Ordering::Relaxed);
        if known != NO_KEY {
            return Some(known);
        }
        let mut key = 0;
        // SAFETY: `key` is writable. The destructor lies in this library, which stays mapped (`-z nodelete`).
        if unsafe { libc::pthread_key_create(&raw mut key, Some(end::<T>)) } != 0 {
            return None;
        }
        match self.key.compare_exchange(NO_KEY, key, Ordering::Relaxed, Ordering::Relaxed) {
            Ok(_) => Some(key),
            Err(of_another_thread) => {
                // SAFETY: no thread has used it.
                unsafe { libc::pthread_key_delete(key) };
                Some(of_another_thread)
            }
        }
    }

    /// Drops the calling thread's value. At exit nobody else does for the thread that exits.
    pub(crate) fn end(&'static self) {
        if let Some(value) = self.value() {
            // SAFETY: there is a value, so there is the key.
            unsafe { libc::pthread_setspecific(self.key.load(Ordering::Relaxed), ptr::null()) };
            // SAFETY: the thread does not have it any more, and `first` made it.
            unsafe { end::<T>(value.as_ptr().cast()) };
        }
    }
}

/// # Safety
/// `value` is a box of a `T` that nobody uses any more.
unsafe extern "C" fn end<T>(value: *mut c_void) {
    // SAFETY: the contract.
    let value = unsafe { Box::from_raw(value.cast::<T>()) };
    let _panicked = panics::catch(|| drop(value));
}
