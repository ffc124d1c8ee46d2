//! When and where something happened.

/// When something was said, and by which thread.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Moment {
    /// CLOCK_MONOTONIC; ticks until the clock is known.
    pub(crate) ns: u64,
    pub(crate) tid: u32,
}
