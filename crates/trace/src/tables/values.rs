//! What states tell of operations beside a time, where the operation has no room for it: one number, and of most nothing.

use crate::tables::place::index;

/// A number for some operations, by place; 0 for the others.
#[derive(Debug, Default)]
pub(crate) struct Values(Vec<u64>);

impl Values {
    /// What is there.
    #[inline]
    pub(crate) fn get(&self, at: u32) -> u64 {
        self.0.get(index(at)).copied().unwrap_or(0)
    }

    /// Changes what is there; `count` is how many operations there are.
    pub(crate) fn change(&mut self, at: u32, count: usize, new: impl FnOnce(u64) -> u64) {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_no_memory() {
        let mut values = Values::default();
        values.change(5, 10, |before| before);
        assert_eq!((values.get(5), values.0.capacity()), (0, 0));
        values.change(5, 10, |before| before + 3);
        values.change(5, 10, |before| before + 4);
        // One more than there are: it was counted before.
        values.change(12, 10, |_| 1);
        assert_eq!([4, 5, 12, 13].map(|at| values.get(at)), [0, 7, 1, 0]);
    }
}
