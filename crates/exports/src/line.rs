//! Straight lines that relate one clock to another.

#[derive(Clone, Copy, Debug)]
pub(crate) struct Line {
    pub(crate) from: [i128; 2],
    pub(crate) to: [i128; 2],
}

impl Line {
    /// A line that adds `by` everywhere.
    pub(crate) const fn later(by: i128) -> Self {
        Self { from: [0, 0], to: [by, by] }
    }

    pub(crate) const fn at(&self, place: i128) -> i128 {
        let length = self.from[1] - self.from[0];
        // Division of such large numbers is slow, and most clocks run at the same rate.
        if length == 0 || length == self.to[1] - self.to[0] {
            return self.to[0] + place - self.from[0];
        }
        self.to[0] + (place - self.from[0]) * (self.to[1] - self.to[0]) / length
    }

    pub(crate) const fn inverse(&self) -> Self {
        Self { from: self.to, to: self.from }
    }

    pub(crate) const fn less(&self, value: i128) -> Self {
        Self { from: self.from, to: [self.to[0] - value, self.to[1] - value] }
    }
}

#[cfg(test)]
mod tests {
    use super::Line;

    #[test]
    fn lines_go_there_and_back() {
        let line = Line { from: [1_700_000_000_000_000_000, 1_700_000_010_000_000_000], to: [500, 10_000_000_700] };
        assert_eq!(line.at(1_700_000_005_000_000_000), 5_000_000_600);
        assert_eq!(line.inverse().at(5_000_000_600), 1_700_000_005_000_000_000);
        assert_eq!(line.inverse().less(1_700_000_000_000_000_000).at(500), 0);
        assert_eq!(Line { from: [7, 7], to: [100, 100] }.at(10), 103);
    }
}
