//! Losses, read from the headers of segments.

use crate::format::layout::header;
use nccl_events::Kind;

/// What the process could not record, from the segment headers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Losses {
    /// Starts not recorded, by kind.
    pub starts: [u64; Kind::COUNT],
    /// Stops not recorded, by kind. [`Kind::Unknown`] counts stops of handles that this process did not create.
    pub stops: [u64; Kind::COUNT],
    /// State changes not recorded, by kind.
    pub states: [u64; Kind::COUNT],
    /// Starts and ends of communicators not recorded.
    pub communicators: u64,
    /// How often a recording thread prepared a segment itself.
    pub stalls: u64,
    /// Proxy control events without a state: counted, not recorded one by one.
    pub empty_controls: u64,
    /// Repetitions of a waiting state: counted, not recorded one by one.
    pub repeated_waits: u64,
}

/// An upper bound of each counter: what one thread can lose of one kind in a day. A damaged header can contain any
/// number, and sums over all kinds and slots must not overflow.
pub(super) const MOST: u64 = 1 << 42;

impl Losses {
    /// Everything that should have been recorded and was not.
    pub fn total(&self) -> u64 {
        [self.starts, self.stops, self.states].iter().flatten().sum::<u64>() + self.communicators
    }

    pub(crate) fn add(&mut self, other: &Self) {
        for (totals, more) in
            [(&mut self.starts, other.starts), (&mut self.stops, other.stops), (&mut self.states, other.states)]
        {
            for (total, more) in totals.iter_mut().zip(more) {
                *total += more;
            }
        }
        self.communicators += other.communicators;
        self.stalls += other.stalls;
        self.empty_controls += other.empty_controls;
        self.repeated_waits += other.repeated_waits;
    }

    /// The loss counters that begin at word `first` of a segment's header.
    fn at(head: &[u64], first: usize) -> Self {
        let from = |word: usize| first + word - header::LOST_STARTS;
        let word = |index: usize| head.get(from(index)).copied().unwrap_or(0).min(MOST);
        let by_kind = |word_of_first: usize| {
            let mut totals = [0; Kind::COUNT];
            for (total, index) in totals.iter_mut().zip(word_of_first..) {
                *total = word(index);
            }
            totals
        };
        Self {
            starts: by_kind(header::LOST_STARTS),
            stops: by_kind(header::LOST_STOPS),
            states: by_kind(header::LOST_STATES),
            communicators: word(header::LOST_COMMUNICATORS),
            ..Self::default()
        }
    }
}

/// The losses of a slot, from the header of its newest segment.
pub(crate) fn losses(head: &[u64]) -> Losses {
    let word = |index: usize| head.get(index).copied().unwrap_or(0).min(MOST);
    Losses {
        stalls: word(header::STALLS),
        empty_controls: word(header::EMPTY_CONTROLS),
        repeated_waits: word(header::REPEATED_WAITS),
        ..Losses::at(head, header::LOST_STARTS)
    }
}

/// Losses of threads without a slot.
pub(crate) fn slotless_losses(head: &[u64]) -> Losses {
    Losses::at(head, header::SLOTLESS_LOST)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::layout::HEADER_WORDS;

    #[test]
    fn garbage_in_headers_adds_up() {
        let garbage = [u64::MAX; HEADER_WORDS];
        let mut sum = Losses::default();
        for _slot in 0..1 << 12 {
            sum.add(&losses(&garbage));
            sum.add(&slotless_losses(&garbage));
        }
        assert!(sum.total() > MOST, "{sum:?}");
    }
}
