//! What the worker keeps of a context in which communicators were made.

use std::time::{Duration, Instant};

use super::pool::{Left, Pool};
use super::reference::{References, nanoseconds};
use crate::gpu::devices::Place;
use crate::gpu::driver::{Driver, Refusal};
use crate::gpu::way::Output;
use journal::clock::ticks;
use nccl_events::gpu::{GpuRecord, LaunchTime};
use nccl_events::id::EventId;

/// Pairs of events to begin with; doubled when more than half are in use.
const FIRST_PAIRS: u32 = 512;
/// How long is waited at first for the device to come to a reference.
const FIRST_WAIT: Duration = Duration::from_millis(20);
/// How often it is looked for launches that are still under way, when it is the last time.
const LAST_LOOKS: Duration = Duration::from_micros(500);

/// A context.
#[derive(Debug)]
pub(super) struct Context {
    pub(super) place: Place,
    /// Its number in the table of the launching threads.
    pub(super) entry: usize,
    /// The communicators that were made in it and have not ended.
    pub(super) communicators: Vec<u64>,
    /// Whether launching threads find it.
    pub(super) is_open: bool,
    /// Whether it is its device's primary context, as those of the CUDA runtime are.
    is_primary: bool,
    references: References,
}

/// What a look at a context found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Seen {
    /// Launches that were written down.
    pub(super) placed: u64,
    /// Launches that are still under way.
    pub(super) under_way: u64,
}

impl Context {
    /// Makes what it takes in a context. It is current afterwards as before: not, on the worker.
    pub(super) fn new(
        driver: &Driver,
        place: Place,
        entry: usize,
        pool: &Pool,
        first_ns: u64,
        out: &mut dyn Output,
    ) -> Result<Self, Refusal> {
        inside(driver, place, || {
            let mut references = References::new(driver, place.ordinal, first_ns)?;
            add(driver, pool, FIRST_PAIRS)?;
            let until = Instant::now() + FIRST_WAIT;
            references.renew(driver, out)?;
            while !references.has_one() && Instant::now() < until {
                std::thread::sleep(LAST_LOOKS);
                references.renew(driver, out)?;
            }
            Ok(Self {
                place,
                entry,
                communicators: Vec::new(),
                is_open: false,
                is_primary: driver.has_primary(place.ordinal) == Ok(true),
                references,
            })
        })
    }

    /// Whether there is a reference: before that no launch may be taken on, for it might lie before the clock's zero.
    pub(super) fn is_ready(&self) -> bool {
        self.references.has_one()
    }

    /// The device's clock when it was last looked at.
    pub(super) fn newest_ns(&self) -> Option<u64> {
        self.references.newest_ns()
    }

    /// Whether the program has reset the device under the communicators: then nothing made in the context may be
    /// touched again.
    pub(super) fn is_gone(&self, driver: &Driver) -> bool {
        self.is_primary && driver.has_primary(self.place.ordinal) == Ok(false)
    }

    /// Renews the reference when it is time to, writes down what is through, and makes more events when they run short.
    pub(super) fn look(
        &mut self,
        driver: &Driver,
        pool: &Pool,
        out: &mut dyn Output,
    ) -> Result<Seen, Refusal> {
        let place = self.place;
        inside(driver, place, || {
            self.references.renew_if_due(driver, out)?;
            let seen = self.write_down(driver, pool, out)?;
            let (made, free) = pool.size();
            if free < made / 2 {
                add(driver, pool, made)?;
            }
            Ok(seen)
        })
    }

    /// The last look: waits for what is under way until `deadline`.
    pub(super) fn last_look(
        &mut self,
        driver: &Driver,
        pool: &Pool,
        out: &mut dyn Output,
        deadline: Instant,
    ) -> Result<u64, Refusal> {
        let place = self.place;
        inside(driver, place, || {
            self.references.renew(driver, out)?;
            let mut seen = self.write_down(driver, pool, out)?;
            let mut placed = seen.placed;
            while seen.under_way > 0 && Instant::now() < deadline {
                std::thread::sleep(LAST_LOOKS);
                seen = self.write_down(driver, pool, out)?;
                placed += seen.placed;
            }
            // So that the last launches lie between two samples of the clock.
            self.references.renew(driver, out)?;
            Ok(placed)
        })
    }

    /// Ends all that was made in the context, if it still answers. Nobody launches in it any more.
    pub(super) fn destroy(self, driver: &Driver, pool: &Pool) -> Result<(), Refusal> {
        let place = self.place;
        inside(driver, place, || {
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

    fn write_down(
        &self,
        driver: &Driver,
        pool: &Pool,
        out: &mut dyn Output,
    ) -> Result<Seen, Refusal> {
        let mut seen = Seen::default();
        let mut left: Vec<Left> = pool.left().collect();
        // A stream comes to the launches of one thread in their order: behind one that it has not come to, none is
        // asked for.
        left.sort_unstable_by_key(|left| (left.stream, left.launch));
        let line = |left: &Left| (left.stream, EventId::from_raw(left.launch).slot());
        let mut waits_in = None;
        for left in left {
            if waits_in != Some(line(&left))
                && driver.is_past(left.pair.after)?
                && let Some(time) = self.time(driver, &left)?
            {
                out.record(ticks(), left.launch, &GpuRecord::LaunchTime(time));
                pool.put_back(left.pair);
                seen.placed += 1;
            } else {
                waits_in = Some(line(&left));
                seen.under_way += 1;
            }
        }
        Ok(seen)
    }

    fn time(&self, driver: &Driver, left: &Left) -> Result<Option<LaunchTime>, Refusal> {
        let Some(start) = self.references.place(driver, left.pair.before)? else {
            return Ok(None);
        };
        // From one event to the other, not to the reference: a short time is told finely.
        let lasted_ms = driver.elapsed_ms(left.pair.before, left.pair.after)?;
        let lasted_ns = u64::try_from(nanoseconds(lasted_ms)).unwrap_or(0);
        Ok(Some(LaunchTime {
            ordinal: self.place.ordinal,
            uncertainty_ns: start.uncertainty_ns,
            stream: left.stream,
            start_ns: start.gpu_ns,
            end_ns: start.gpu_ns.saturating_add(lasted_ns),
        }))
    }
}

/// Does something with a context current on the worker.
fn inside<T>(
    driver: &Driver,
    place: Place,
    action: impl FnOnce() -> Result<T, Refusal>,
) -> Result<T, Refusal> {
    driver.push(place.context)?;
    let result = action();
    driver.pop();
    result
}

fn add(driver: &Driver, pool: &Pool, pairs: u32) -> Result<(), Refusal> {
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
