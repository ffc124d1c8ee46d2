//! The clock of the emulated device: the host's wall clock, unless it is to run at a rate of its own
//! (`FAKEGPU_CLOCK_PPM`) or from another start (`FAKEGPU_CLOCK_OFFSET_NS`).

use crate::settings::number;
use std::sync::OnceLock;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

/// Wall clock of the host, in nanoseconds.
pub(crate) fn host_ns() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos() as u64)
}

/// A clock that started with the host's and has run by itself since.
struct Own {
    start: Instant,
    at_start_ns: i64,
    ppm: i64,
}

impl Own {
    fn now_ns(&self) -> u64 {
        let elapsed = self.start.elapsed().as_nanos() as i128;
        let gained = elapsed * i128::from(self.ppm) / 1_000_000;
        (i128::from(self.at_start_ns) + elapsed + gained) as u64
    }
}

/// Global timer of the device, in nanoseconds.
pub(crate) fn device_ns() -> u64 {
    static OWN: OnceLock<Option<Own>> = OnceLock::new();
    let own = OWN.get_or_init(|| {
        let (ppm, offset) = (number("FAKEGPU_CLOCK_PPM"), number("FAKEGPU_CLOCK_OFFSET_NS"));
        (ppm.is_some() || offset.is_some()).then(|| Own {
            start: Instant::now(),
            at_start_ns: host_ns() as i64 + offset.unwrap_or(0),
            ppm: ppm.unwrap_or(0),
        })
    });
    own.as_ref().map_or_else(host_ns, Own::now_ns)
}
