//! Hands a turn from thread to thread, so that callbacks of many threads come in one given order.

use parking_lot::{Condvar, Mutex};

/// Whose turn it is, and what the one whose turn it is may touch.
pub(super) struct Turn<T> {
    state: Mutex<State<T>>,
    waiting: Vec<Condvar>,
    owners: Vec<usize>,
}

struct State<T> {
    next: usize,
    shared: T,
}

impl<T> Turn<T> {
    pub(super) fn new(threads: usize, owners: Vec<usize>, shared: T) -> Self {
        Self {
            state: Mutex::new(State { next: 0, shared }),
            waiting: (0..threads).map(|_| Condvar::new()).collect(),
            owners,
        }
    }

    /// Waits for a turn of the calling thread, runs it, and wakes the owner of the next.
    pub(super) fn take(&self, turn: usize, work: impl FnOnce(&mut T)) {
        let owner = self.owners[turn];
        let mut state = self.state.lock();
        while state.next != turn {
            self.waiting[owner].wait(&mut state);
        }
        work(&mut state.shared);
        state.next += 1;
        drop(state);
        if let Some(next) = self.owners.get(turn + 1).filter(|next| **next != owner) {
            self.waiting[*next].notify_one();
        }
    }

    pub(super) fn into_shared(self) -> T {
        self.state.into_inner().shared
    }
}
