//! What is recorded at the moment, and the switches that change it: the journal records each.

use std::fmt;

/// A range of steps: collectives counted from 1, both ends in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Span {
    /// The first.
    pub first: u32,
    /// The last; [`u32::MAX`] for no end.
    pub last: u32,
}

impl Span {
    /// How many collectives are in it.
    pub const fn len(self) -> u64 {
        self.last as u64 - self.first as u64 + 1
    }

    /// Whether none is: never.
    pub const fn is_empty(self) -> bool {
        self.last < self.first
    }

    /// In one word, which is not 0: collectives are counted from 1.
    pub const fn word(self) -> u64 {
        (self.last as u64) << 32 | self.first as u64
    }

    /// What [`Self::word`] gave; `None` for 0.
    #[expect(clippy::cast_possible_truncation, reason = "the halves of a word")]
    pub const fn from_word(word: u64) -> Option<Self> {
        let (first, last) = (word as u32, (word >> 32) as u32);
        if first == 0 { None } else { Some(Self { first, last }) }
    }
}

impl fmt::Display for Span {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.first, self.last) {
            (first, u32::MAX) => write!(formatter, "{first}-"),
            (first, last) => write!(formatter, "{first}-{last}"),
        }
    }
}

/// What is recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wanted {
    /// Whether anything is.
    pub is_on: bool,
    /// NCCL's mask of the kinds that are.
    pub events: u32,
}

impl Wanted {
    /// What is in force, as a mask; 0 when off.
    pub const fn in_force(self) -> u32 {
        if self.is_on { self.events } else { 0 }
    }
}

/// By what recording is switched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// The control file.
    File,
    /// `NCCL_OTF2_TOGGLE_SIGNAL`.
    Signal,
    /// A range of steps.
    Steps(StepSwitch),
}

/// What step ranges did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StepSwitch {
    /// The range that a rank is in from now on, or was in, or is to be in; `None` when there are none from now on.
    pub range: Option<Span>,
    /// How many collectives the rank had started.
    pub started: u64,
    /// Whether these ranges held from the rank's first collective on: then all ranks that say so record the same.
    pub is_exact: bool,
}

/// A switch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Switch {
    /// By what.
    pub cause: Cause,
    /// What was recorded.
    pub before: Wanted,
    /// What is from now on.
    pub after: Wanted,
}
