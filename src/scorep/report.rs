//! Counts what was and was not forwarded, for the archive.

use std::sync::atomic::{AtomicU64, Ordering};

use journal::part::ScorepReport;

macro_rules! counts {
    ($($(#[doc = $about:literal])* $count:ident $name:literal,)+) => {
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(super) enum Count {
            $($(#[doc = $about])* $count,)+
        }

        impl Count {
            const ALL: &'static [(Self, &'static str)] = &[$((Self::$count, $name),)+];
        }
    };
}

counts! {
    Calls "CALLS",
    /// The part of `CALLS` that the plugin closed because NCCL did not report their end.
    CallsClosed "CALLS_CLOSED",
    CallsUnknownThread "CALLS_UNKNOWN_THREAD",
    CallsOutside "CALLS_OUTSIDE",
    /// Calls while Score-P's recording was off, within Score-P's work, or while another thread made the definitions.
    CallsNotRecorded "CALLS_NOT_RECORDED",
    CallsFiltered "CALLS_FILTERED",
    /// Forwarded operations. With the disjoint counts below they add up to all operations that started.
    Operations "OPERATIONS",
    /// The part of `OPERATIONS` that begins at the end of the previous operation, because the two overlapped.
    OperationsMoved "OPERATIONS_MOVED",
    OperationsUnfinished "OPERATIONS_UNFINISHED",
    OperationsDropped "OPERATIONS_DROPPED",
    /// Operations that overlap an operation of another communicator, or lie inside the previous operation.
    OperationsOverlapping "OPERATIONS_OVERLAPPING",
    OperationsNotPlaced "OPERATIONS_NOT_PLACED",
    OperationsFiltered "OPERATIONS_FILTERED",
    OperationsCallsOnly "OPERATIONS_CALLS_ONLY",
    /// Operations left for the end of Score-P's measurement when the report was written.
    OperationsWaiting "OPERATIONS_WAITING",
    /// Parts whose operation was already forwarded, or belongs to another process.
    ChildrenAlone "CHILDREN_ALONE",
}

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

pub(super) fn report(target: String, counts: &Counts) -> ScorepReport {
    let named = Count::ALL.iter().filter_map(|&(count, name)| {
        let number = counts.0.get(count as usize)?.load(Ordering::Relaxed);
        (number > 0).then(|| (name.to_owned(), number))
    });
    ScorepReport { target, counts: named.collect() }
}
