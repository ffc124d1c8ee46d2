//! The clock of the emulated device: the host's wall clock, unless it is to run at a rate of its own
//! (`FAKEGPU_CLOCK_PPM`) or from another start (`FAKEGPU_CLOCK_OFFSET_NS`).

use crate::settings;
use c_double::realtime_ns;
use std::sync::OnceLock;
use std::time::Instant;

/// Global timer of the device, in nanoseconds.
pub(crate) fn device_ns() -> u64 {
    static START: OnceLock<(Instant, u64)> = OnceLock::new();
    let settings = settings::get();
    let (ppm, offset_ns) = (settings.clock_ppm, settings.clock_offset_ns);
    if (ppm, offset_ns) == (0, 0) {
        return realtime_ns();
    }
    // It started with the host's, and has run by itself since.
    let (start, start_ns) = START.get_or_init(|| (Instant::now(), realtime_ns()));
    let elapsed = start.elapsed().as_nanos() as i128;
    let gained = elapsed * i128::from(ppm) / 1_000_000;
    (i128::from(*start_ns) + i128::from(offset_ns) + elapsed + gained) as u64
}
