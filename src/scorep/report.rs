//! What became of everything that could be forwarded: counted, and said in our own archive.

use std::sync::atomic::{AtomicU64, Ordering};

use journal::part::scorep::ScorepReport;

macro_rules! counts {
    ($($(#[doc = $about:literal])+ $count:ident $name:literal,)+) => {
        /// Something that is counted.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(super) enum Count {
            $($(#[doc = $about])+ $count,)+
        }

        impl Count {
            const ALL: &'static [(Self, &'static str)] = &[$((Self::$count, $name),)+];
        }
    };
}

counts! {
    /// Regions of calls.
    Calls "CALLS",
    /// Of those: left for NCCL, which did not report their end.
    CallsClosed "CALLS_CLOSED",
    /// Calls on threads that Score-P does not know.
    CallsUnknownThread "CALLS_UNKNOWN_THREAD",
    /// Calls before Score-P's measurement or after it.
    CallsOutside "CALLS_OUTSIDE",
    /// Calls while the user had switched Score-P's recording off, inside of Score-P's own work, or while another thread
    /// asked it for what all need.
    CallsNotRecorded "CALLS_NOT_RECORDED",
    /// Operations. Those that started are these and the dropped, overlapping, not placed and waiting ones.
    Operations "OPERATIONS",
    /// Of those: shown from the end of the one before.
    OperationsMoved "OPERATIONS_MOVED",
    /// Of those: their end was not seen.
    OperationsUnfinished "OPERATIONS_UNFINISHED",
    /// Operations for which there was no room, too many being on their way.
    OperationsDropped "OPERATIONS_DROPPED",
    /// Operations at the time of those of another communicator, or inside of the one before.
    OperationsOverlapping "OPERATIONS_OVERLAPPING",
    /// Operations of which Score-P could not be told: it has no functions for that, or an unknown clock.
    OperationsNotPlaced "OPERATIONS_NOT_PLACED",
    /// Operations that were left for the end of Score-P's measurement when this was written.
    OperationsWaiting "OPERATIONS_WAITING",
    /// Parts whose operation was forwarded already, or is another process's.
    ChildrenAlone "PARTS_ALONE",
}

/// Running numbers, of the session that is on.
#[derive(Debug)]
pub(super) struct Counts([AtomicU64; Count::ALL.len()]);

impl Counts {
    pub(super) const fn new() -> Self {
        Self([const { AtomicU64::new(0) }; Count::ALL.len()])
    }

    pub(super) fn add(&self, count: Count) {
        self.add_many(count, 1);
    }

    pub(super) fn add_many(&self, count: Count, number: u64) {
        if let Some(counter) = self.0.get(count as usize) {
            counter.fetch_add(number, Ordering::Relaxed);
        }
    }

    pub(super) fn set(&self, count: Count, number: u64) {
        if let Some(counter) = self.0.get(count as usize) {
            counter.store(number, Ordering::Relaxed);
        }
    }

    pub(super) fn reset(&self) {
        for counter in &self.0 {
            counter.store(0, Ordering::Relaxed);
        }
    }
}

/// What was counted, for the part.
pub(super) fn report(target: String, counts: &Counts) -> ScorepReport {
    let named = Count::ALL.iter().filter_map(|&(count, name)| {
        let number = counts.0.get(count as usize)?.load(Ordering::Relaxed);
        (number > 0).then(|| (name.to_owned(), number))
    });
    ScorepReport {
        target,
        counts: named.collect(),
    }
}
