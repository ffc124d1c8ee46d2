//! CUPTI's clock: that of the host, or a counter that another tool has put in its place.

use crate::variables;
use std::sync::OnceLock;
use std::time::{SystemTime, UNIX_EPOCH};

/// Now, in nanoseconds of `CLOCK_REALTIME`.
pub(crate) fn realtime_ns() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| u64::try_from(since.as_nanos()).unwrap_or(0))
}

/// When the process began to use the double.
fn origin_ns() -> u64 {
    static ORIGIN: OnceLock<u64> = OnceLock::new();
    *ORIGIN.get_or_init(realtime_ns)
}

/// Begins to count.
pub(crate) fn start() {
    let _ = origin_ns();
}

/// This time on CUPTI's clock: the foreign one makes 2.9 ticks per nanosecond, and was not started at any time that
/// matters.
pub(crate) fn stamp(realtime: u64) -> u64 {
    if !variables::get().foreign_clock {
        return realtime;
    }
    let since = i128::from(realtime) - i128::from(origin_ns());
    u64::try_from(since * 29 / 10 + 7_000_000_000_000).unwrap_or(0)
}

/// Now on CUPTI's clock.
pub(crate) fn now() -> u64 {
    stamp(realtime_ns())
}
