//! A lock for callbacks. A thread that has to wait for one of `parking_lot` first allocates a record of itself, which
//! ends the program where there is no memory.

#[expect(clippy::disallowed_types, reason = "waiting for it needs no memory; poisoning is undone below")]
use std::sync::Mutex;
use std::sync::{MutexGuard, PoisonError, TryLockError};

/// A mutex that is not poisoned by panics, and needs no memory.
#[derive(Debug, Default)]
#[expect(clippy::disallowed_types, reason = "as above")]
pub struct Lock<T>(Mutex<T>);

impl<T> Lock<T> {
    /// Not locked.
    #[expect(clippy::disallowed_types, reason = "as above")]
    pub const fn new(value: T) -> Self {
        Self(Mutex::new(value))
    }

    /// Waits until nobody else has the lock.
    pub fn lock(&self) -> MutexGuard<'_, T> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes the lock unless another has it.
    pub fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
        match self.0.try_lock() {
            Ok(guard) => Some(guard),
            Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }
}
