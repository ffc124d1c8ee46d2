//! Samples, unions of intervals, regressions, changes over time.

pub(super) mod change;
pub(super) mod fit;
pub(super) mod sample;
pub(super) mod union;
