//! Per-thread values for callbacks.
//!
//! `thread_local!` ends the program if there is no memory: the C library allocates a library's thread-local block on a
//! thread's first use, and registers destructors in memory of its own. POSIX thread keys return an error instead.

use std::ffi::c_void;
use std::marker::PhantomData;
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicU32, Ordering};

use super::memory;

use journal::uninterrupted::uninterrupted;

/// A value for each thread that asks for it; dropped when the thread ends.
pub(crate) struct PerThread<T: 'static> {
    /// Stored with release order and loaded with acquire order: a thread that uses a key has to see what the C library
    /// noted about it when another thread created it, or it takes the key for an invalid one.
    key: AtomicU32,
    values: PhantomData<fn() -> T>,
}

/// Not a valid key: there are only 1024 keys.
const NO_KEY: u32 = u32::MAX;

impl<T: 'static> PerThread<T> {
    pub(crate) const fn new() -> Self {
        Self { key: AtomicU32::new(NO_KEY), values: PhantomData }
    }

    /// Runs `action` with the calling thread's value, made by `make` if necessary. `None` if `make` returns `None`.
    #[inline]
    pub(crate) fn with<R>(&'static self, make: impl FnOnce() -> Option<T>, action: impl FnOnce(&T) -> R) -> Option<R> {
        let value = match self.value() {
            Some(value) => value,
            None => self.first(make)?,
        };
        // SAFETY: `first` stored a value that only this thread uses and that lives until the thread ends.
        Some(action(unsafe { value.as_ref() }))
    }

    #[inline]
    fn value(&self) -> Option<NonNull<T>> {
        let key = self.key.load(Ordering::Acquire);
        if key == NO_KEY {
            return None;
        }
        // SAFETY: `key` was made by `pthread_key_create` and is never deleted.
        NonNull::new(unsafe { libc::pthread_getspecific(key) }.cast())
    }

    #[cold]
    #[inline(never)]
    fn first(&'static self, make: impl FnOnce() -> Option<T>) -> Option<NonNull<T>> {
        uninterrupted(|| self.made(make))
    }

    fn made(&'static self, make: impl FnOnce() -> Option<T>) -> Option<NonNull<T>> {
        let key = self.key()?;
        let value = NonNull::from(Box::leak(Box::new(make()?)));
        // SAFETY: the key exists, and its destructor accepts such a value.
        if unsafe { libc::pthread_setspecific(key, value.as_ptr().cast()) } == 0 {
            return Some(value);
        }
        memory::fail();
        // SAFETY: the box from above, which nothing else uses.
        drop(unsafe { Box::from_raw(value.as_ptr()) });
        None
    }

    fn key(&self) -> Option<u32> {
        let known = self.key.load(Ordering::Acquire);
        if known != NO_KEY {
            return Some(known);
        }
        let mut key = 0;
        // SAFETY: `key` is writable. The destructor lies in this library, which stays mapped (`-z nodelete`).
        if unsafe { libc::pthread_key_create(&raw mut key, Some(end::<T>)) } != 0 {
            return None;
        }
        match self.key.compare_exchange(NO_KEY, key, Ordering::Release, Ordering::Acquire) {
            Ok(_) => Some(key),
            Err(of_another_thread) => {
                // SAFETY: no thread has used this key.
                unsafe { libc::pthread_key_delete(key) };
                Some(of_another_thread)
            }
        }
    }

    /// Drops the calling thread's value. At exit nothing else drops the exiting thread's value.
    pub(crate) fn end(&'static self) {
        if let Some(value) = self.value() {
            // SAFETY: there is a value, so the key exists.
            unsafe { libc::pthread_setspecific(self.key.load(Ordering::Relaxed), ptr::null()) };
            // SAFETY: `first` made the value, and the thread no longer has it.
            unsafe { end::<T>(value.as_ptr().cast()) };
        }
    }
}

/// # Safety
/// `value` is a box of a `T` that is no longer used.
unsafe extern "C" fn end<T>(value: *mut c_void) {
    // SAFETY: the contract.
    let value = unsafe { Box::from_raw(value.cast::<T>()) };
    let _panicked = in_process::catch(|| uninterrupted(|| drop(value)));
}
