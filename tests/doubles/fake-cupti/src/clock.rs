//! CUPTI's host clock. What happened is known in nanoseconds of `CLOCK_REALTIME`; records say it on the clock that is in
//! force when they are made: that one, one that was stepped, or whatever counter a tool registered.

use crate::knobs::{Ticks, knobs};
use parking_lot::Mutex;
use std::sync::OnceLock;
use std::time::{SystemTime, UNIX_EPOCH};

/// A timestamp callback of a tool.
pub(crate) type Callback = extern "C" fn() -> u64;

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

/// Ticks of a counter that makes 2.9 per nanosecond, and was not started at any time that matters.
pub(crate) fn ticks_of(realtime: u64) -> u64 {
    let since = i128::from(realtime) - i128::from(origin_ns());
    let ticks = since * 29 / 10 + 7_000_000_000_000;
    u64::try_from(ticks).unwrap_or(0)
}

/// The counter that another tool installs.
pub(crate) extern "C" fn tick_counter() -> u64 {
    ticks_of(realtime_ns())
}

struct Registered {
    callback: Callback,
    /// realtime and the callback's answer, when it was registered
    anchor: (u64, u64),
}

static REGISTERED: Mutex<Option<Registered>> = Mutex::new(None);

/// Takes another clock, for all of the process.
pub(crate) fn register(callback: Option<Callback>) {
    let registered = callback.map(|callback| Registered {
        callback,
        anchor: (realtime_ns(), callback()),
    });
    *REGISTERED.lock() = registered;
}

/// Two simultaneous readings, and the same from before: where the line through them is at some time.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    reason = "an interpolation, as CUPTI's"
)]
fn on_line(anchor: (u64, u64), now: (u64, u64), at: u64) -> u64 {
    let elapsed = now.0.saturating_sub(anchor.0);
    let counted = now.1.saturating_sub(anchor.1);
    let rate = if elapsed < 1000 {
        1.0
    } else {
        counted as f64 / elapsed as f64
    };
    let back = (i128::from(now.0) - i128::from(at)) as f64 * rate;
    u64::try_from(i128::from(now.1) - back as i128).unwrap_or(0)
}

fn stepped(at: u64) -> u64 {
    let after = origin_ns().saturating_add(knobs().step_after_ms.saturating_mul(1_000_000));
    if knobs().step_ns != 0 && at >= after {
        at.saturating_add_signed(knobs().step_ns)
    } else {
        at
    }
}

/// This time on CUPTI's clock.
pub(crate) fn stamp(realtime: u64) -> u64 {
    let registered = REGISTERED.lock();
    if let Some(own) = registered.as_ref() {
        let (callback, anchor) = (own.callback, own.anchor);
        // Its code may call CUPTI.
        drop(registered);
        return on_line(anchor, (realtime_ns(), callback()), realtime);
    }
    match knobs().ticks {
        Ticks::Realtime => stepped(realtime),
        Ticks::Foreign => ticks_of(realtime),
    }
}

/// Now on CUPTI's clock.
pub(crate) fn now() -> u64 {
    stamp(realtime_ns())
}

/// Begins to count.
pub(crate) fn start() {
    let _ = origin_ns();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_placed_on_the_line_of_two_readings() {
        assert_eq!(on_line((1_000, 500), (11_000, 29_500), 1_000), 500);
        assert_eq!(on_line((1_000, 500), (11_000, 29_500), 6_000), 15_000);
        assert_eq!(on_line((1_000, 500), (1_001, 503), 901), 403);
    }

    #[test]
    fn the_foreign_counter_has_its_own_rate() {
        let at = origin_ns();
        assert_eq!(ticks_of(at + 1_000) - ticks_of(at), 2_900);
    }
}
