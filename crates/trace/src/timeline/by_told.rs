//! What there is once for all figures of one kind and detail.

use rustc_hash::FxHashMap;

use crate::timeline::figure::Told;

/// Something for each kind and detail. Neighbours are mostly alike, so the last one of each shape and kind is beside the
/// map of all.
#[derive(Debug)]
pub(crate) struct ByTold<T> {
    all: FxHashMap<Told, T>,
    last: Vec<Option<(Told, T)>>,
}

impl<T> Default for ByTold<T> {
    fn default() -> Self {
        Self {
            all: FxHashMap::default(),
            last: Vec::new(),
        }
    }
}

impl<T: Copy> ByTold<T> {
    /// What there is; `new` gives it where there is nothing yet.
    #[inline]
    pub(crate) fn get_or(&mut self, told: Told, new: impl FnOnce() -> T) -> T {
        match self.last.get(told.place()) {
            Some(Some((last, known))) if *last == told => *known,
            _ => self.look_up(told, new),
        }
    }

    fn look_up(&mut self, told: Told, new: impl FnOnce() -> T) -> T {
        let known = *self.all.entry(told).or_insert_with(new);
        if self.last.is_empty() {
            self.last.resize_with(Told::PLACES, || None);
        }
        if let Some(last) = self.last.get_mut(told.place()) {
            *last = Some((told, known));
        }
        known
    }

    /// All there is, in no order.
    pub(crate) fn all(&self) -> impl Iterator<Item = T> {
        self.all.values().copied()
    }
}
