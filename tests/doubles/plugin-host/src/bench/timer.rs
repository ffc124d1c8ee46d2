//! Reads time as cheaply as the machine can, and knows what that costs.

use std::time::{Duration, Instant};

#[derive(Clone, Copy, Debug)]
pub(crate) struct Timer {
    ns_per_tick: f64,
    /// Ticks between two reads with nothing between them: subtracted from every sample.
    cost_ticks: u64,
}

#[inline(always)]
pub(crate) fn now() -> u64 {
    #[cfg(target_arch = "x86_64")]
    {
        // SAFETY: reads a counter; every x86-64 has it.
        unsafe { core::arch::x86_64::_rdtsc() }
    }
    #[cfg(target_arch = "aarch64")]
    {
        let ticks: u64;
        // SAFETY: reads the virtual counter, which Linux lets programs read; touches no memory.
        unsafe { core::arch::asm!("mrs {}, cntvct_el0", out(reg) ticks, options(nomem, nostack)) };
        ticks
    }
}

impl Timer {
    pub(crate) fn calibrate() -> Self {
        let (begin, first) = (Instant::now(), now());
        while begin.elapsed() < Duration::from_millis(50) {
            std::hint::spin_loop();
        }
        let ticks = now().wrapping_sub(first);
        let ns = begin.elapsed().as_nanos();
        let mut costs: Vec<u64> = (0..20_000)
            .map(|_| {
                let first = now();
                now().wrapping_sub(first)
            })
            .collect();
        costs.sort_unstable();
        Self {
            ns_per_tick: approximate(u64::try_from(ns).unwrap_or(u64::MAX)) / approximate(ticks.max(1)),
            cost_ticks: costs[costs.len() / 2],
        }
    }

    /// The time between two reads, less what the reading costs, in ns.
    pub(crate) fn ns(self, ticks: u32) -> f64 {
        approximate(u64::from(ticks).saturating_sub(self.cost_ticks)) * self.ns_per_tick
    }

    pub(crate) fn cost_ns(self) -> f64 {
        approximate(self.cost_ticks) * self.ns_per_tick
    }
}

#[expect(clippy::cast_precision_loss, reason = "a measurement has fewer than 52 bits")]
pub(crate) fn approximate(number: u64) -> f64 {
    number as f64
}
