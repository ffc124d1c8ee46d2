//! What the C side knows by a handle.

use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Things by their handles: an address that nobody else has, and that is never 0, 1 or 2.
pub(crate) struct Handles<T>(Mutex<BTreeMap<usize, Arc<T>>>);

impl<T> Handles<T> {
    pub(crate) const fn new() -> Self {
        Handles(Mutex::new(BTreeMap::new()))
    }

    pub(crate) fn add(&self, thing: Arc<T>) -> usize {
        let handle = Arc::as_ptr(&thing).addr();
        self.0.lock().insert(handle, thing);
        handle
    }

    pub(crate) fn get(&self, handle: usize) -> Option<Arc<T>> {
        self.0.lock().get(&handle).cloned()
    }

    pub(crate) fn remove(&self, handle: usize) -> bool {
        // Dropped after the lock is: what is kept by it may call back.
        let thing = self.0.lock().remove(&handle);
        thing.is_some()
    }

    pub(crate) fn all(&self) -> Vec<Arc<T>> {
        self.0.lock().values().cloned().collect()
    }
}
