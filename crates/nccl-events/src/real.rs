//! Numbers as people and statistics see them.

/// The nearest `f64`: durations of days are below 2⁵³ ns, and people read fewer digits.
#[expect(clippy::cast_precision_loss, reason = "see above")]
pub const fn real(number: u64) -> f64 {
    number as f64
}
