//! Steps of proxy operations.

/// How many steps of a proxy operation are under way at most: NCCL keeps one handle for each.
pub const STEP_SLOTS: u8 = 8;

/// The slot of a step: 0 … 7.
pub fn slot(step: i32) -> u8 {
    u8::try_from(step.rem_euclid(STEP_SLOTS.into())).unwrap_or(0)
}
