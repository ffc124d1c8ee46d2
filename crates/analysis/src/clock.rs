//! The archive's clock.

use crate::archive::Trace;

#[derive(Clone, Copy, Debug)]
pub struct Clock {
    begin: u64,
    ticks_per_second: u64,
}

impl Default for Clock {
    fn default() -> Self {
        Self { begin: 0, ticks_per_second: NS }
    }
}

const NS: u64 = 1_000_000_000;

impl Clock {
    pub fn of(trace: &Trace) -> Self {
        let clock = trace.definitions.clock.as_ref();
        clock.map_or_else(Self::default, |clock| Self {
            begin: clock.global_offset,
            ticks_per_second: clock.timer_resolution.max(1),
        })
    }

    /// The length of the trace; 0 if the archive does not state it.
    pub fn length_ns(self, trace: &Trace) -> u64 {
        let clock = trace.definitions.clock.as_ref();
        clock.map_or(0, |clock| self.ns(clock.global_offset.saturating_add(clock.trace_length)))
    }

    pub fn ns(self, time: u64) -> u64 {
        let ticks = time.saturating_sub(self.begin);
        if self.ticks_per_second == NS {
            return ticks;
        }
        let ns = u128::from(ticks) * u128::from(NS) / u128::from(self.ticks_per_second);
        u64::try_from(ns).unwrap_or(u64::MAX)
    }
}
