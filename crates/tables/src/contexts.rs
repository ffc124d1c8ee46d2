//! The contexts that events name, by number: an event names one by 32 bits.

use rustc_hash::FxHashMap;

use crate::place::{index, place};

/// What says of a number that it is of a context that is not a place in the list of contexts.
const ELSEWHERE: u32 = 1 << 31;

/// Which context an event names: a place in [`crate::Tables::contexts`], or a number in [`Named`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ContextName(u32);

impl ContextName {
    /// The place, if it has one.
    #[must_use]
    #[inline]
    pub const fn at(self) -> Option<u32> {
        if self.0 & ELSEWHERE == 0 { Some(self.0) } else { None }
    }

    /// The name of a context at a place.
    #[must_use]
    pub const fn of_place(at: u32) -> Self {
        Self(at & !ELSEWHERE)
    }

    /// The number, if it has no place.
    pub(crate) const fn number(self) -> Option<u32> {
        if self.0 & ELSEWHERE == 0 { None } else { Some(self.0 & !ELSEWHERE) }
    }
}

/// The ids of contexts as NCCL passed them, each once.
#[derive(Debug, Default)]
pub(crate) struct Named {
    ids: Vec<u64>,
    numbers: FxHashMap<u64, u32>,
    last: Option<(u64, u32)>,
}

impl Named {
    /// The name of an id, of which it is not known whether it is in the list of contexts.
    #[inline]
    pub(crate) fn name(&mut self, id: u64) -> ContextName {
        let number = match self.last {
            Some((last, number)) if last == id => number,
            _ => self.look_up(id),
        };
        ContextName(ELSEWHERE | number)
    }

    fn look_up(&mut self, id: u64) -> u32 {
        let next = place(self.ids.len());
        let number = *self.numbers.entry(id).or_insert(next);
        if number == next {
            self.ids.push(id);
        }
        self.last = Some((id, number));
        number
    }

    /// The id with a number.
    #[inline]
    pub(crate) fn id(&self, number: u32) -> u64 {
        self.ids.get(index(number)).copied().unwrap_or(0)
    }

    /// All ids, by number.
    pub(crate) fn ids(&self) -> &[u64] {
        &self.ids
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_id_has_one_name() {
        let mut named = Named::default();
        let ids = [7, 7, 0, 9, 7, 0];
        let names = ids.map(|id| named.name(id));
        for (id, name) in ids.into_iter().zip(names) {
            assert_eq!(name.at(), None);
            assert_eq!(name.number().map(|number| named.id(number)), Some(id));
        }
        assert_eq!(named.ids(), [7, 0, 9]);
        let placed = ContextName::of_place(3);
        assert_eq!((placed.at(), placed.number()), (Some(3), None));
    }
}
