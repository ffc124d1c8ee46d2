//! A CUDA context in which communicators were made: its events, and the times of its launches.

use std::time::{Duration, Instant};

use super::pool::{LeftPair, Pool};
use super::reference::{References, nanoseconds};
use crate::gpu::backend::Output;
use crate::gpu::driver::{CudaError, DeviceContext, Driver};
use journal::clock::ticks;
use nccl_events::gpu::{GpuRecord, LaunchTime};
use nccl_events::ids::EventId;

/// The initial number of event pairs; doubled when more than half are in use.
const FIRST_PAIRS: u32 = 512;
const FIRST_WAIT: Duration = Duration::from_millis(20);
/// The pause between two checks for unfinished launches, at the end.
const LAST_PAUSE: Duration = Duration::from_micros(500);

#[derive(Debug)]
pub(super) struct Context {
    pub(super) device: DeviceContext,
    /// The context's index in the launching threads' table.
    pub(super) entry: usize,
    pub(super) communicators: Vec<u64>,
    pub(super) is_open: bool,
    /// Whether this is the device's primary context, which the CUDA runtime uses.
    is_primary: bool,
    references: References,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Collected {
    pub(super) recorded: u64,
    pub(super) unfinished: u64,
    /// The percentage of free pairs before the collection: afterwards nearly all are free, however many were in use.
    pub(super) free_percent: u32,
}

impl Context {
    pub(super) fn new(
        driver: &Driver,
        device: DeviceContext,
        entry: usize,
        pool: &Pool,
        first_ns: u64,
        out: &mut dyn Output,
    ) -> Result<Self, CudaError> {
        inside(driver, device, || {
            let mut references = References::new(driver, device.ordinal, first_ns)?;
            add(driver, pool, FIRST_PAIRS)?;
            let until = Instant::now() + FIRST_WAIT;
            references.renew(driver, out)?;
            while !references.has_one() && Instant::now() < until {
                std::thread::sleep(LAST_PAUSE);
                references.renew(driver, out)?;
            }
            Ok(Self {
                device,
                entry,
                communicators: Vec::new(),
                is_open: false,
                is_primary: driver.has_primary(device.ordinal) == Ok(true),
                references,
            })
        })
    }

    /// Whether there is a reference. Launches before the first are not timed: they may precede the clock's zero.
    pub(super) fn is_ready(&self) -> bool {
        self.references.has_one()
    }

    pub(super) fn newest_ns(&self) -> Option<u64> {
        self.references.newest_ns()
    }

    /// Whether the program has reset the device; nothing made in the context may be touched then.
    pub(super) fn is_gone(&self, driver: &Driver) -> bool {
        self.is_primary && driver.has_primary(self.device.ordinal) == Ok(false)
    }

    /// Makes a reference when it is due, records finished launches, and makes more events when they run short.
    pub(super) fn collect(
        &mut self,
        driver: &Driver,
        pool: &Pool,
        out: &mut dyn Output,
    ) -> Result<Collected, CudaError> {
        inside(driver, self.device, || {
            self.references.renew_if_due(driver, out)?;
            let free_percent = pool.free_percent();
            let collected = self.record(driver, pool, out)?;
            if free_percent < 50 {
                add(driver, pool, pool.size().0)?;
            }
            Ok(Collected { free_percent, ..collected })
        })
    }

    /// The last collection: waits for unfinished launches until `deadline`; returns the number of recorded ones.
    pub(super) fn collect_last(
        &mut self,
        driver: &Driver,
        pool: &Pool,
        out: &mut dyn Output,
        deadline: Instant,
    ) -> Result<u64, CudaError> {
        inside(driver, self.device, || {
            self.references.renew(driver, out)?;
            let mut collected = self.record(driver, pool, out)?;
            let mut recorded = collected.recorded;
            while collected.unfinished > 0 && Instant::now() < deadline {
                std::thread::sleep(LAST_PAUSE);
                collected = self.record(driver, pool, out)?;
                recorded += collected.recorded;
            }
            // Puts the last launches between two samples of the clock.
            self.references.renew(driver, out)?;
            Ok(recorded)
        })
    }

    /// Destroys everything that the plugin made in the context. No thread launches in the context any more.
    pub(super) fn destroy(self, driver: &Driver, pool: &Pool) -> Result<(), CudaError> {
        inside(driver, self.device, || {
            for event in pool.empty() {
                driver.destroy_event(event)?;
            }
            self.references.destroy(driver)
        })
    }

    #[cfg(test)]
    pub(super) fn renew(&mut self, driver: &Driver, out: &mut dyn Output) {
        let renewed = self.references.renew(driver, out);
        renewed.expect("a driver that answers");
    }

    fn record(&self, driver: &Driver, pool: &Pool, out: &mut dyn Output) -> Result<Collected, CudaError> {
        let mut collected = Collected::default();
        let mut left: Vec<LeftPair> = pool.left().collect();
        // A stream runs one thread's launches in order: the driver is not asked about those behind an unfinished one.
        nccl_events::sort::sort_by_key(&mut left, |left| (left.stream, left.launch));
        let order = |left: &LeftPair| (left.stream, EventId::from_raw(left.launch).slot());
        let mut waits_in = None;
        for left in left {
            if waits_in != Some(order(&left))
                && driver.is_past(left.pair.after)?
                && let Some(time) = self.time(driver, &left)?
            {
                out.record(ticks(), left.launch, &GpuRecord::LaunchTime(time));
                pool.put_back(left.pair);
                collected.recorded += 1;
            } else {
                waits_in = Some(order(&left));
                collected.unfinished += 1;
            }
        }
        Ok(collected)
    }

    fn time(&self, driver: &Driver, left: &LeftPair) -> Result<Option<LaunchTime>, CudaError> {
        let Some(start) = self.references.locate(driver, left.pair.before)? else {
            return Ok(None);
        };
        // Measured between the two events, not from the reference, because the resolution is finer for short times.
        let lasted_ms = driver.elapsed_ms(left.pair.before, left.pair.after)?;
        // Negative only within the resolution, so the launch took no time.
        let lasted_ns = u64::try_from(nanoseconds(lasted_ms)).unwrap_or(0);
        Ok(Some(LaunchTime {
            ordinal: self.device.ordinal,
            uncertainty_ns: start.uncertainty_ns,
            stream: left.stream,
            start_ns: start.gpu_ns,
            end_ns: start.gpu_ns.saturating_add(lasted_ns),
        }))
    }
}

/// Runs `action` on the worker with the context current.
fn inside<T>(
    driver: &Driver,
    device: DeviceContext,
    action: impl FnOnce() -> Result<T, CudaError>,
) -> Result<T, CudaError> {
    driver.push(device.context)?;
    let result = action();
    driver.pop();
    result
}

fn add(driver: &Driver, pool: &Pool, pairs: u32) -> Result<(), CudaError> {
    for _ in 0..pairs {
        if pool.is_full() {
            break;
        }
        let before = driver.create_event()?;
        let after = driver.create_event()?;
        let _has_room = pool.add(before, after);
    }
    Ok(())
}
