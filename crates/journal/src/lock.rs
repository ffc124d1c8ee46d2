//! A lock for callbacks. With `parking_lot`, a thread that waits allocates memory first, and aborts if there is none.

#[expect(clippy::disallowed_types, reason = "waiting for it needs no memory; poisoning is undone below")]
use std::sync::Mutex;
use std::sync::{MutexGuard, PoisonError, TryLockError};

/// A mutex that panics do not poison and that never allocates.
#[derive(Debug, Default)]
#[expect(clippy::disallowed_types, reason = "as above")]
pub struct Lock<T>(Mutex<T>);

impl<T> Lock<T> {
    /// An unlocked lock.
    #[expect(clippy::disallowed_types, reason = "as above")]
    pub const fn new(value: T) -> Self {
        Self(Mutex::new(value))
    }

    /// Waits for the lock.
    pub fn lock(&self) -> MutexGuard<'_, T> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes the lock if no other thread holds it.
    pub fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
        match self.0.try_lock() {
            Ok(guard) => Some(guard),
            Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }
}
