//! Recognises collectives that NCCL implements as sends and receives, by the order of these.

use super::Collective;

/// A collective that NCCL implements as sends and receives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Pattern {
    /// `ncclAlltoAll`.
    AlltoAll,
    /// `ncclGather`, recognised only on the root.
    Gather,
    /// `ncclScatter`, recognised only on the root.
    Scatter,
}

impl Pattern {
    /// The function that the program called.
    pub const fn collective(self) -> Collective {
        match self {
            Self::AlltoAll => Collective::AlltoAll,
            Self::Gather => Collective::Gather,
            Self::Scatter => Collective::Scatter,
        }
    }

    /// Whether all ranks recognise the pattern. If so, it has one collective record instead of its members' messages,
    /// because the same bytes must not be reported twice.
    pub const fn is_collective_record(self) -> bool {
        matches!(self, Self::AlltoAll)
    }

    /// The pattern of a group's calls in a communicator of size `ranks`; `true` means send.
    pub fn of(sends: &[bool], ranks: usize) -> Option<Self> {
        if ranks < 2 {
            return None;
        }
        let alternate = sends.chunks(2).all(|pair| pair == [true, false]);
        if alternate && sends.len() == ranks.checked_mul(2)? {
            return Some(Self::AlltoAll);
        }
        if sends.len() != ranks.checked_add(1)? {
            return None;
        }
        match sends {
            [true, received @ ..] if received.iter().all(|&send| !send) => Some(Self::Gather),
            [sent @ .., false] if sent.iter().all(|&send| send) => Some(Self::Scatter),
            _ => None,
        }
    }

    /// Number of transfers between this rank and the others.
    pub const fn transfers(self, ranks: usize) -> usize {
        let others = ranks.saturating_sub(1);
        match self {
            Self::AlltoAll => 2 * others,
            Self::Gather | Self::Scatter => others,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_order_of_calls_tells_the_collective() {
        use Pattern::{AlltoAll, Gather, Scatter};
        for (calls, ranks, pattern) in [
            ("SRSR", 2, Some(AlltoAll)),
            ("SRR", 2, Some(Gather)),
            ("SSR", 2, Some(Scatter)),
            ("SRSRSR", 3, Some(AlltoAll)),
            ("SRRR", 3, Some(Gather)),
            ("SSSR", 3, Some(Scatter)),
            ("", 0, None),
            ("S", 2, None),
            ("R", 2, None),
            ("SR", 1, None),
            ("SRS", 2, None),
            ("SRSR", 3, None),
            ("RSRS", 2, None),
            ("SRRS", 2, None),
            ("RRR", 2, None),
            ("SSS", 2, None),
        ] {
            let sends: Vec<bool> = calls.chars().map(|call| call == 'S').collect();
            assert_eq!(Pattern::of(&sends, ranks), pattern, "{calls} on {ranks}");
        }
    }
}
