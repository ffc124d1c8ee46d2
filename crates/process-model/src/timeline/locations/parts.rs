//! The consecutive parts of an operation. They take no memory of their own: each event computes them again.

use crate::timeline::instance::InstanceKind;

/// More than any operation has: a step has at most six.
const MOST: usize = 8;

/// Instance kinds with their beginnings, in order, each at most once.
#[derive(Clone, Copy, Debug)]
pub(super) struct Parts {
    all: [(InstanceKind, u64); MOST],
    number: usize,
}

impl Parts {
    pub(super) const fn new() -> Self {
        Self { all: [(InstanceKind::Step, 0); MOST], number: 0 }
    }

    /// Adds a part unless present: a state that repeats adds nothing.
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
