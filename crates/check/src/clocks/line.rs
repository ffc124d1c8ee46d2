//! A clock defined by its clock offsets: linear between each two of them.

use otf2::ClockOffset;

/// The largest correction of a drift: at worst, two quartzes are off by 100 ppm each, and NTP slews each clock by up to
/// 500 ppm. Slightly more, because the drift is measured on the corrected clock.
pub(super) const MOST_PPM: u64 = 1250;
/// Offsets and their times are whole ticks.
const ROUNDING: u64 = 2;

/// Each pair of adjacent offsets, which are joined by a line.
pub(super) fn pieces(clock: &[ClockOffset]) -> impl Iterator<Item = (&ClockOffset, &ClockOffset)> {
    clock.iter().zip(clock.iter().skip(1))
}

pub(super) fn corrected(offset: &ClockOffset) -> i128 {
    i128::from(offset.time) + i128::from(offset.offset)
}

pub(super) fn is_too_fast(from: &ClockOffset, to: &ClockOffset) -> bool {
    let drift = i128::from(to.offset) - i128::from(from.offset);
    let most = u128::from(to.time.abs_diff(from.time)) * u128::from(MOST_PPM) / 1_000_000;
    drift.unsigned_abs() > most + u128::from(ROUNDING)
}

/// Whether two lists of offsets are one clock: the same corrections, or the same constant.
pub(super) fn is_same(a: &[ClockOffset], b: &[ClockOffset]) -> bool {
    a == b || matches!((constant(a), constant(b)), (Some(a), Some(b)) if a == b)
}

fn constant(clock: &[ClockOffset]) -> Option<i64> {
    let first = clock.first()?.offset;
    clock.iter().all(|offset| offset.offset == first).then_some(first)
}
