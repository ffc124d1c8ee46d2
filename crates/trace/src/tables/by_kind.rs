//! The operations by kind: who looks at one kind does not pass by all others, which are hundreds of megabytes.

use crate::tables::assembly::{Assembly, Operation};
use crate::tables::near::{AHEAD, bring_near};
use crate::tables::packed::Larger;
use crate::tables::place::index;
use nccl_events::Kind;

/// Places of operations by kind, ascending.
#[derive(Debug, Default)]
pub(crate) struct ByKind([Vec<u32>; Kind::COUNT]);

impl ByKind {
    /// Makes room for so many of a kind.
    pub(crate) fn reserve(&mut self, kind: Kind, count: usize) {
        if let Some(places) = self.0.get_mut(usize::from(kind as u8)) {
            places.reserve_exact(count);
        }
    }

    /// Notes the next operation.
    pub(crate) fn push(&mut self, kind: Kind, at: u32) {
        if let Some(places) = self.0.get_mut(usize::from(kind as u8)) {
            places.push(at);
        }
    }

    /// The places of the operations of a kind.
    pub(crate) fn places(&self, kind: Kind) -> &[u32] {
        self.0
            .get(usize::from(kind as u8))
            .map_or(&[], Vec::as_slice)
    }
}

/// Operations of lists of places as one list, ascending.
struct Merged<'a, const N: usize> {
    lists: [&'a [u32]; N],
    operations: &'a [Operation],
    larger: &'a Larger,
}

impl<'a, const N: usize> Iterator for Merged<'a, N> {
    type Item = (u32, &'a Operation);

    #[inline]
    fn next(&mut self) -> Option<(u32, &'a Operation)> {
        let lists = self.lists.iter_mut().filter(|list| !list.is_empty());
        let first = lists.min_by_key(|list| list.first().copied())?;
        let (&at, left) = first.split_first()?;
        *first = left;
        let ahead = |steps: usize| self.operations.get(index(*left.get(steps)?));
        if let Some(operation) = ahead(AHEAD) {
            bring_near(operation);
        }
        if let Some(operation) = ahead(AHEAD / 2) {
            operation.fields.bring_near(self.larger);
        }
        Some((at, self.operations.get(index(at))?))
    }
}

impl Assembly {
    /// The operations of a kind with their places, in the order of all.
    pub fn of_kind(&self, kind: Kind) -> impl Iterator<Item = (u32, &Operation)> {
        self.of_kinds([kind])
    }

    /// The operations of some kinds with their places, in the order of all.
    pub fn of_kinds<const N: usize>(
        &self,
        kinds: [Kind; N],
    ) -> impl Iterator<Item = (u32, &Operation)> {
        Merged {
            lists: kinds.map(|kind| self.by_kind.places(kind)),
            operations: &self.operations,
            larger: &self.larger,
        }
    }

    /// The places of the operations of a kind.
    #[must_use]
    pub fn places_of(&self, kind: Kind) -> &[u32] {
        self.by_kind.places(kind)
    }
}
