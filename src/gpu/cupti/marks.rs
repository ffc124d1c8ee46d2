//! What each thread has told CUPTI that it is launching: the launches between NCCL's start and its stop.
//!
//! CUPTI's stacks of external ids are of the thread. An id that is left there would stand on every later launch of that
//! thread, of whatever program; so it is known here what lies there, and it is taken away at the next occasion.

use std::cell::Cell;

/// Launches of one thread that can be open at the same time; NCCL opens one.
const DEEPEST: usize = 8;

/// A launch that was begun on this thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Mark {
    pub(super) id: u64,
    /// Whether CUPTI was told.
    pub(super) is_pushed: bool,
}

/// The open launches of a thread.
#[derive(Debug)]
pub(super) struct Marks {
    /// Of which session they are.
    session: Cell<u64>,
    depth: Cell<usize>,
    open: [Cell<Mark>; DEEPEST],
}

thread_local! {
    static MARKS: Marks = const { Marks::none(0) };
}

/// Works on those of this thread that are of `session`.
#[inline]
pub(super) fn with<T>(session: u64, action: impl FnOnce(&Marks) -> T) -> T {
    MARKS.with(|marks| {
        if marks.session.replace(session) != session {
            // Of an earlier session, whose subscription is over.
            marks.depth.set(0);
        }
        action(marks)
    })
}

impl Marks {
    const fn none(session: u64) -> Self {
        Self {
            session: Cell::new(session),
            depth: Cell::new(0),
            open: [const {
                Cell::new(Mark {
                    id: 0,
                    is_pushed: false,
                })
            }; DEEPEST],
        }
    }

    /// Whether no more launches can be begun before one has ended: those that are open were not stopped here.
    pub(super) const fn is_full(&self) -> bool {
        self.depth.get() >= DEEPEST
    }

    /// A launch begins. Not when full.
    pub(super) fn begin(&self, mark: Mark) {
        let depth = self.depth.get();
        if let Some(place) = self.open.get(depth) {
            place.set(mark);
            self.depth.set(depth + 1);
        }
    }

    /// The last one that began.
    pub(super) fn take_last(&self) -> Option<Mark> {
        let depth = self.depth.get().checked_sub(1)?;
        self.depth.set(depth);
        self.open.get(depth).map(Cell::get)
    }

    /// Whether this launch was begun on this thread and is open.
    pub(super) fn has(&self, id: u64) -> bool {
        let open = self.open.iter().take(self.depth.get());
        open.map(Cell::get).any(|mark| mark.id == id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn mark(id: u64) -> Mark {
        Mark {
            id,
            is_pushed: true,
        }
    }

    #[test]
    fn launches_end_in_the_order_of_a_stack() {
        let marks = Marks::none(1);
        marks.begin(mark(10));
        marks.begin(mark(11));
        assert!(marks.has(10) && marks.has(11) && !marks.has(12));
        assert_eq!(marks.take_last(), Some(mark(11)));
        assert!(!marks.has(11));
        assert_eq!(marks.take_last(), Some(mark(10)));
        assert_eq!(marks.take_last(), None);
    }

    #[test]
    fn the_depth_has_a_bound() {
        let marks = Marks::none(1);
        for id in 0..20 {
            marks.begin(mark(id));
        }
        assert!(marks.is_full());
        assert!(marks.has(7) && !marks.has(8));
    }

    #[test]
    fn threads_and_sessions_have_their_own() {
        with(1, |marks| marks.begin(mark(10)));
        assert!(with(1, |marks| marks.has(10)));
        std::thread::scope(|scope| {
            scope.spawn(|| assert!(!with(1, |marks| marks.has(10))));
        });
        assert!(!with(2, |marks| marks.has(10)));
    }
}
