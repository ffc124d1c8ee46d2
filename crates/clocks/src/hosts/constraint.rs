//! What constrains the clocks of hosts: a moment on one was not after a moment on another.

/// A reading of a host's clock: CLOCK_REALTIME as the host's kernel has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Reading {
    /// Whose clock: the number of the host's boot.
    pub boot: usize,
    pub ns: u64,
}

/// One moment was not after another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Constraint {
    pub earlier: Reading,
    pub later: Reading,
}
