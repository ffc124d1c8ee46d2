//! What states tell of operations beside a time, where the operation has no room for it: one number, and of most nothing.

use super::place::index;

/// A number for some operations, by place; 0 for the others.
#[derive(Debug, Default)]
pub(super) struct Values(Vec<u64>);

impl Values {
    /// What is there.
    #[inline]
    pub(super) fn get(&self, at: u32) -> u64 {
        self.0.get(index(at)).copied().unwrap_or(0)
    }

    /// Changes what is there; `count` is how many operations there are.
    pub(super) fn change(&mut self, at: u32, count: usize, new: impl FnOnce(u64) -> u64) {
        let new = new(self.get(at));
        if new == 0 {
            return;
        }
        if self.0.len() <= index(at) {
            self.0.resize(count.max(index(at) + 1), 0);
        }
        if let Some(value) = self.0.get_mut(index(at)) {
            *value = new;
        }
    }
}
