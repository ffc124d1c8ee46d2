//! The parts of an operation that follow each other on its lane, without memory of their own: they are found for each of
//! its events.

use crate::timeline::figure::Shape;

/// More than an operation has: a step has six at most.
const MOST: usize = 8;

/// Shapes with their beginnings, in order, each once.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Parts {
    all: [(Shape, u64); MOST],
    number: usize,
}

impl Parts {
    /// None yet.
    pub(super) const fn new() -> Self {
        Self {
            all: [(Shape::Step, 0); MOST],
            number: 0,
        }
    }

    /// Adds a part, unless it is there already: a state that comes late says nothing new about it.
    pub(super) fn add(&mut self, shape: Shape, begin: u64) {
        if self.all().iter().any(|&(before, _)| before == shape) {
            return;
        }
        if let Some(free) = self.all.get_mut(self.number) {
            *free = (shape, begin);
            self.number += 1;
        }
    }

    /// The parts.
    pub(super) fn all(&self) -> &[(Shape, u64)] {
        self.all.get(..self.number).unwrap_or(&self.all)
    }

    /// Whether there is none.
    pub(super) const fn is_empty(&self) -> bool {
        self.number == 0
    }
}
