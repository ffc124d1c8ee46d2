//! The current selection of what is recorded, and the switches that change it; the journal records each switch.

use std::fmt;

/// A range of steps, which are counted from 1. Both ends are inclusive.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Span {
    /// The first step of the range.
    pub first: u32,
    /// The last step of the range; [`u32::MAX`] if it has no end.
    pub last: u32,
}

impl Span {
    /// Number of steps in the range.
    pub const fn len(self) -> u64 {
        self.last as u64 + 1 - self.first as u64
    }

    /// Whether the range is empty: no collective was called in a step that the program names.
    pub const fn is_empty(self) -> bool {
        self.last < self.first
    }

    /// The range as one word. Never 0, because collectives are counted from 1.
    pub const fn word(self) -> u64 {
        (self.last as u64) << 32 | self.first as u64
    }

    /// The inverse of [`Self::word`]; `None` for 0.
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

/// The selection of what is recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wanted {
    /// Whether anything is recorded.
    pub is_on: bool,
    /// NCCL's mask of the selected kinds.
    pub events: u32,
}

impl Wanted {
    /// The mask in force: 0 if recording is off.
    pub const fn in_force(self) -> u32 {
        if self.is_on { self.events } else { 0 }
    }
}

/// The cause of a switch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// The control file changed.
    File,
    /// The signal in `NCCL_OTF2_TOGGLE_SIGNAL` arrived.
    Signal,
    /// A range of steps began, ended or changed.
    Steps(StepSwitch),
}

/// A switch caused by step ranges.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StepSwitch {
    /// The range of collectives that the rank enters, leaves or waits for; `None` if there are no ranges any more.
    /// Where the program names steps: the collectives since recording was switched on last.
    pub range: Option<Span>,
    /// Number of collectives that the rank had started.
    pub started: u64,
    /// Whether these ranges applied from the rank's first collective on; all such ranks record the same collectives.
    pub is_exact: bool,
    /// Whether the program's ranges with a name are the steps.
    pub is_named: bool,
}

/// A change of the selection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Switch {
    /// The cause of the change.
    pub cause: Cause,
    /// The selection before the switch.
    pub before: Wanted,
    /// The selection from now on.
    pub after: Wanted,
}
