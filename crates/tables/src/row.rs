//! A row number of a typed table.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::marker::PhantomData;
use std::num::NonZeroU32;

/// A row of the table of events with the fields `F`. Takes four bytes, even in an `Option`.
pub struct Row<F>(NonZeroU32, PhantomData<fn() -> F>);

impl<F> Row<F> {
    /// The row at an index; `None` if the index does not fit.
    #[inline]
    pub(super) fn new(index: usize) -> Option<Self> {
        let number = u32::try_from(index).ok()?.checked_add(1)?;
        Some(Self(NonZeroU32::new(number)?, PhantomData))
    }

    /// Index in the table, from 0.
    #[inline]
    pub fn index(self) -> usize {
        nccl_events::ids::index(self.0.get() - 1)
    }
}

impl<F> Clone for Row<F> {
    #[inline]
    fn clone(&self) -> Self {
        *self
    }
}

impl<F> Copy for Row<F> {}

impl<F> PartialEq for Row<F> {
    #[inline]
    fn eq(&self, other: &Self) -> bool {
        self.0 == other.0
    }
}

impl<F> Eq for Row<F> {}

impl<F> PartialOrd for Row<F> {
    #[inline]
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl<F> Ord for Row<F> {
    #[inline]
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.0.cmp(&other.0)
    }
}

impl<F> Hash for Row<F> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.hash(state);
    }
}

impl<F> fmt::Debug for Row<F> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}", self.index())
    }
}
