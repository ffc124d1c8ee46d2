//! Runs functions on all cores. A parallel iterator of rayon's adds 10 to 20 KB of code; these share one.

use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;
use rayon::prelude::*;

/// The results of `make` for items that each take long, in the order of the items.
pub fn in_parallel<I: Send, T: Send>(items: impl IntoIterator<Item = I>, make: impl Fn(I) -> T + Sync) -> Vec<T> {
    let slots: Vec<_> = items.into_iter().map(|item| Mutex::new((Some(item), None))).collect();
    // Nobody waits for a lock: each slot is taken once.
    each(slots.len(), &|at| {
        let (item, made) = &mut *slots[at].lock();
        *made = item.take().map(&make);
    });
    slots.into_iter().filter_map(|slot| slot.into_inner().1).collect()
}

/// As [`in_parallel`], and begins no other item after an error.
pub fn try_in_parallel<I: Send, T: Send, E: Send>(
    items: impl IntoIterator<Item = I>,
    make: impl Fn(I) -> Result<T, E> + Sync,
) -> Result<Vec<T>, E> {
    let has_failed = AtomicBool::new(false);
    let made = in_parallel(items, |item| {
        (!has_failed.load(Ordering::Relaxed))
            .then(|| make(item).inspect_err(|_| has_failed.store(true, Ordering::Relaxed)))
    });
    made.into_iter().flatten().collect()
}

#[inline(never)]
fn each(count: usize, work: &(dyn Fn(usize) + Sync)) {
    (0..count).into_par_iter().with_max_len(1).for_each(work);
}
