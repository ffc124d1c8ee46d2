//! The contexts that events name. An event stores a 32-bit number instead of the id.

use rustc_hash::FxHashMap;

use nccl_events::ids::{index, index_u32};

/// Marks the number of an id that is not in the list of contexts.
const NOT_LISTED: u32 = 1 << 31;

/// The context of an event: an index in [`crate::Tables::contexts`], or a number in [`ContextNames`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ContextName(u32);

impl ContextName {
    /// The index, if the context is listed.
    #[inline]
    pub const fn at(self) -> Option<u32> {
        if self.0 & NOT_LISTED == 0 { Some(self.0) } else { None }
    }

    /// The name of a listed context.
    pub const fn of_index(at: u32) -> Self {
        Self(at & !NOT_LISTED)
    }

    /// The number, if the context is not listed.
    pub(crate) const fn number(self) -> Option<u32> {
        if self.0 & NOT_LISTED == 0 { None } else { Some(self.0 & !NOT_LISTED) }
    }
}

/// The distinct ids of contexts as NCCL passed them.
#[derive(Debug, Default)]
pub(crate) struct ContextNames {
    ids: Vec<u64>,
    numbers: FxHashMap<u64, u32>,
    last: Option<(u64, u32)>,
}

impl ContextNames {
    /// The name of an id before it is known whether the context is listed.
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
