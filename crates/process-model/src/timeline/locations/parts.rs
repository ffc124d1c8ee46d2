//! The parts of an operation that follow each other on its location, without memory of their own: they are found for
//! each of its events.

use crate::timeline::instance::InstanceKind;

/// More than an operation has: a step has six at most.
const MOST: usize = 8;

/// InstanceKinds with their beginnings, in order, each once.
#[derive(Clone, Copy, Debug)]
pub(super) struct Parts {
    all: [(InstanceKind, u64); MOST],
    number: usize,
}

impl Parts {
    pub(super) const fn new() -> Self {
        Self { all: [(InstanceKind::Step, 0); MOST], number: 0 }
    }

    /// Adds a part, unless it is there already: a state that comes late says nothing new about it.
    pub(super) fn add(&mut self, kind: InstanceKind, begin: u64) {
        if self.all().iter().any(|&(before, _)| before == kind) {
            return;
        }
        if let Some(free) = self.all.get_mut(self.number) {
            *free = (kind, begin);
            self.number += 1;
        }
    }

    pub(super) fn all(&self) -> &[(InstanceKind, u64)] {
        self.all.get(..self.number).unwrap_or(&self.all)
    }

    pub(super) const fn is_empty(&self) -> bool {
        self.number == 0
    }
}
