//! The open launches of each thread: those between NCCL's start and stop, whose ids are on CUPTI's stack.
//!
//! CUPTI has a stack of external ids for each thread. An id that stays there would tag every later launch of that
//! thread. So the plugin tracks the ids that it pushed, and pops leftovers at the next opportunity.

use std::cell::Cell;

use crate::host::per_thread::PerThread;

/// The largest number of open launches of a thread; NCCL opens one.
const DEEPEST: usize = 8;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct OpenLaunch {
    pub(super) id: u64,
    pub(super) is_pushed: bool,
}

#[derive(Debug)]
pub(super) struct OpenLaunches {
    session: Cell<u64>,
    depth: Cell<usize>,
    open: [Cell<OpenLaunch>; DEEPEST],
}

static OPEN: PerThread<OpenLaunches> = PerThread::new();

/// Runs `action` with this thread's launches in `session`; does nothing if there is no memory for them.
#[inline]
pub(super) fn with<T>(session: u64, action: impl FnOnce(&OpenLaunches) -> T) -> Option<T> {
    let none = || Some(OpenLaunches::none(0));
    OPEN.with(none, |open| {
        if open.session.replace(session) != session {
            // The launches belong to an earlier session, whose subscription is over.
            open.depth.set(0);
        }
        action(open)
    })
}

impl OpenLaunches {
    const fn none(session: u64) -> Self {
        Self {
            session: Cell::new(session),
            depth: Cell::new(0),
            open: [const { Cell::new(OpenLaunch { id: 0, is_pushed: false }) }; DEEPEST],
        }
    }

    /// Whether there is no room for another launch, because the open ones were not stopped on this thread.
    pub(super) const fn is_full(&self) -> bool {
        self.depth.get() >= DEEPEST
    }

    pub(super) fn begin(&self, launch: OpenLaunch) {
        let depth = self.depth.get();
        if let Some(slot) = self.open.get(depth) {
            slot.set(launch);
            self.depth.set(depth + 1);
        }
    }

    pub(super) fn take_last(&self) -> Option<OpenLaunch> {
        let depth = self.depth.get().checked_sub(1)?;
        self.depth.set(depth);
        self.open.get(depth).map(Cell::get)
    }

    pub(super) fn has(&self, id: u64) -> bool {
        let open = self.open.iter().take(self.depth.get());
        open.map(Cell::get).any(|launch| launch.id == id)
    }
}
