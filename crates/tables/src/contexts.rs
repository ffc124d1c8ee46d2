//! The contexts that events name, by number: an event names one by 32 bits.

use rustc_hash::FxHashMap;

use crate::index::{index, index_u32};

/// Set in the number of an id that is not in the list of contexts.
const NOT_LISTED: u32 = 1 << 31;

/// Which context an event names: an index in [`crate::Tables::contexts`], or a number in [`ContextNames`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ContextName(u32);

impl ContextName {
    /// The index, if it is in the list.
    #[inline]
    pub const fn at(self) -> Option<u32> {
        if self.0 & NOT_LISTED == 0 { Some(self.0) } else { None }
    }

    /// The name of a context of the list.
    pub const fn of_index(at: u32) -> Self {
        Self(at & !NOT_LISTED)
    }

    /// The number, if it is not in the list.
    pub(crate) const fn number(self) -> Option<u32> {
        if self.0 & NOT_LISTED == 0 { None } else { Some(self.0 & !NOT_LISTED) }
    }
}

/// The ids of contexts as NCCL passed them, each once.
#[derive(Debug, Default)]
pub(crate) struct ContextNames {
    ids: Vec<u64>,
    numbers: FxHashMap<u64, u32>,
    last: Option<(u64, u32)>,
}

impl ContextNames {
    /// The name of an id, of which it is not known whether it is in the list of contexts.
    #[inline]
    pub(crate) fn name(&mut self, id: u64) -> ContextName {
        let number = match self.last {
            Some((last, number)) if last == id => number,
            _ => self.look_up(id),
        };
        ContextName(NOT_LISTED | number)
    }

    fn look_up(&mut self, id: u64) -> u32 {
        let next = index_u32(self.ids.len());
        let number = *self.numbers.entry(id).or_insert(next);
        if number == next {
            self.ids.push(id);
        }
        self.last = Some((id, number));
        number
    }

    #[inline]
    pub(crate) fn id(&self, number: u32) -> u64 {
        self.ids.get(index(number)).copied().unwrap_or(0)
    }

    pub(crate) fn ids(&self) -> &[u64] {
        &self.ids
    }
}
