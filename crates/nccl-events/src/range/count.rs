//! What the recorder counts about ranges.

/// What the recorder counts about ranges.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum RangeCount {
    /// Ranges and marks under the name `(other names)`, because the process had too many names.
    OtherNames = 0,
    /// Pushes deeper than [`super::MOST_LEVELS`], which are not recorded.
    TooDeep = 1,
    /// Pops of a domain without an open range on the thread, which are ignored.
    UnbalancedPops = 2,
    /// Ranges and marks that a thread could not record: no room, or no slot.
    Lost = 3,
}

impl RangeCount {
    /// Number of counts.
    pub const COUNT: usize = 4;
    /// All counts, in the order of the journal.
    pub const ALL: [Self; Self::COUNT] = [Self::OtherNames, Self::TooDeep, Self::UnbalancedPops, Self::Lost];
}
