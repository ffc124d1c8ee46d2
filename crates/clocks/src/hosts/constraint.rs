//! A constraint on the clocks of hosts: a moment on one was not after a moment on another.

/// A reading of a host's clock: CLOCK_REALTIME of the host's kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Reading {
    /// Number of the host's boot, which identifies the clock.
    pub boot: usize,
    pub ns: u64,
}

/// One moment was not after another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Constraint {
    pub earlier: Reading,
    pub later: Reading,
}
