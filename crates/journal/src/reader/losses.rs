//! What the headers of segments say of what has no record.

use crate::format::layout::{header, header_of_2};
use nccl_events::Kind;

/// What the recording half could not record, from the segment headers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Losses {
    /// Starts not recorded, by kind.
    pub starts: [u64; Kind::COUNT],
    /// Stops not recorded, by kind: [`Kind::Unknown`] has those of handles that this process did not make, and
    /// all of journals up to format 2, which do not tell.
    pub stops: [u64; Kind::COUNT],
    /// State changes not recorded, by kind.
    pub states: [u64; Kind::COUNT],
    /// Beginnings and ends of communicators not recorded.
    pub communicators: u64,
    /// How often a recording thread prepared a segment itself.
    pub stalls: u64,
    /// Proxy control events without a state: not lost, but told by this number alone.
    pub empty_controls: u64,
    /// Repetitions of a waiting state: not lost, but told by this number alone.
    pub repeated_waits: u64,
}

/// No recording loses more: a day of nothing but losses of one kind on one thread. A damaged header may say anything, and sums over all kinds
/// and slots must not overflow.
const MOST: u64 = 1 << 42;

impl Losses {
    /// Everything that should have been recorded and was not.
    #[must_use]
    pub fn total(&self) -> u64 {
        let by_kind = [self.starts, self.stops, self.states];
        by_kind.iter().flatten().sum::<u64>() + self.communicators
    }

    pub(crate) fn add(&mut self, other: &Self) {
        for (totals, more) in [
            (&mut self.starts, other.starts),
            (&mut self.stops, other.stops),
            (&mut self.states, other.states),
        ] {
            for (total, more) in totals.iter_mut().zip(more) {
                *total += more;
            }
        }
        self.communicators += other.communicators;
        self.stalls += other.stalls;
        self.empty_controls += other.empty_controls;
        self.repeated_waits += other.repeated_waits;
    }

    /// The counters of losses that begin at a word of a segment's header.
    fn at(head: &[u64], first: usize, version: u32) -> Self {
        let from = |word: usize| first + word - header::LOST_STARTS;
        let word = |index: usize| head.get(from(index)).copied().unwrap_or(0).min(MOST);
        let by_kind = |word_of_first: usize| {
            let mut totals = [0; Kind::COUNT];
            for (total, index) in totals.iter_mut().zip(word_of_first..) {
                *total = word(index);
            }
            totals
        };
        let of_no_kind = |index: usize| {
            let mut totals = [0; Kind::COUNT];
            if let Some(unknown) = totals.get_mut(Kind::Unknown as usize) {
                *unknown = word(index);
            }
            totals
        };
        let starts = by_kind(header::LOST_STARTS);
        if version <= 2 {
            return Self {
                starts,
                stops: of_no_kind(header_of_2::LOST_STOPS),
                states: of_no_kind(header_of_2::LOST_STATES),
                communicators: word(header_of_2::LOST_COMMUNICATORS),
                ..Self::default()
            };
        }
        Self {
            starts,
            stops: by_kind(header::LOST_STOPS),
            states: by_kind(header::LOST_STATES),
            communicators: word(header::LOST_COMMUNICATORS),
            ..Self::default()
        }
    }
}

/// What the header of a slot's segment says of the slot.
pub(crate) fn losses(head: &[u64], version: u32) -> Losses {
    let word = |index: usize| head.get(index).copied().unwrap_or(0).min(MOST);
    let (empty_controls, repeated_waits) = if version <= 2 {
        (header_of_2::EMPTY_CONTROLS, header_of_2::REPEATED_WAITS)
    } else {
        (header::EMPTY_CONTROLS, header::REPEATED_WAITS)
    };
    Losses {
        stalls: word(header::STALLS),
        empty_controls: word(empty_controls),
        repeated_waits: word(repeated_waits),
        ..Losses::at(head, header::LOST_STARTS, version)
    }
}

/// Losses of threads without a slot.
pub(crate) fn slotless_losses(head: &[u64], version: u32) -> Losses {
    let first = if version <= 2 {
        header_of_2::SLOTLESS_LOST
    } else {
        header::SLOTLESS_LOST
    };
    Losses::at(head, first, version)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::layout::HEADER_WORDS;

    #[test]
    fn garbage_in_headers_adds_up() {
        let garbage = [u64::MAX; HEADER_WORDS];
        let mut sum = Losses::default();
        for version in [1, 2, 3, 4] {
            for _slot in 0..1 << 12 {
                sum.add(&losses(&garbage, version));
                sum.add(&slotless_losses(&garbage, version));
            }
        }
        assert!(sum.total() > MOST, "{sum:?}");
    }
}
