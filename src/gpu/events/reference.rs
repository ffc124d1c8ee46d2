//! The clock for events: reference events in a stream of their own, one each second.
//!
//! The driver returns no event's time, only the milliseconds between two events, as a 32-bit float, which is coarser
//! the farther they are apart. So an event's time is measured from the nearest reference. A reference's time is the sum
//! of the distances from the first one. Two readings of the host's ticks bound when the reference happened.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use crate::gpu::driver::{CudaError, Driver, Event, Stream};
use crate::gpu::output::Output;
use journal::clock::ticks;
use nccl_events::gpu::{ClockSample, GpuClock, GpuRecord};

/// The time between two references. At half of this distance the float has steps of 31 ns.
const INTERVAL: Duration = Duration::from_secs(1);
/// The number of references kept for launches that ran long before they are collected.
const KEPT: usize = 16;
/// The number of attempts at a reference; the most precise attempt is kept.
const TRIES: usize = 3;
/// How long the worker waits for a reference. In a process whose streams share one queue
/// (`CUDA_DEVICE_MAX_CONNECTIONS=1`), a busy device takes longer; the worker then checks again at the next collection.
const PATIENCE: Duration = Duration::from_millis(2);
/// How long the worker polls without pausing, which is enough for most references.
const SPIN: Duration = Duration::from_micros(100);
const PAUSE: Duration = Duration::from_micros(50);
/// "Resolution of approximately 0.5 microseconds" (`cuEventElapsedTime`).
const RESOLUTION_NS: u32 = 500;

#[derive(Debug)]
pub(crate) struct References {
    ordinal: u32,
    stream: Stream,
    first_ns: u64,
    /// Oldest first.
    kept: VecDeque<Reference>,
    spare: Vec<Event>,
    pending: Option<Attempt>,
    due: Instant,
}

#[derive(Clone, Copy, Debug)]
struct Reference {
    event: Event,
    gpu_ns: u64,
}

#[derive(Clone, Copy, Debug)]
struct Attempt {
    event: Event,
    before_ticks: u64,
}

/// An event that the stream reached between two tick readings.
#[derive(Clone, Copy, Debug)]
struct Bracketed {
    event: Event,
    before_ticks: u64,
    after_ticks: u64,
}

impl Bracketed {
    const fn width(&self) -> u64 {
        self.after_ticks.saturating_sub(self.before_ticks)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct GpuTime {
    pub(crate) gpu_ns: u64,
    pub(crate) uncertainty_ns: u32,
}

impl References {
    pub(crate) fn new(driver: &Driver, ordinal: u32, first_ns: u64) -> Result<Self, CudaError> {
        let stream = driver.create_stream()?;
        let spare: Result<_, _> = (0..KEPT + TRIES).map(|_| driver.create_event()).collect();
        Ok(Self {
            ordinal,
            stream,
            first_ns,
            kept: VecDeque::with_capacity(KEPT + 1),
            spare: spare?,
            pending: None,
            due: Instant::now(),
        })
    }

    /// Whether there is a reference; without one, no event's time is known.
    pub(crate) fn has_one(&self) -> bool {
        !self.kept.is_empty()
    }

    pub(crate) fn newest_ns(&self) -> Option<u64> {
        self.kept.back().map(|newest| newest.gpu_ns)
    }

    pub(crate) fn renew_if_due(&mut self, driver: &Driver, out: &mut dyn Output) -> Result<(), CudaError> {
        if self.pending.is_some() || Instant::now() >= self.due {
            self.renew(driver, out)?;
        }
        Ok(())
    }

    pub(crate) fn renew(&mut self, driver: &Driver, out: &mut dyn Output) -> Result<(), CudaError> {
        if let Some(Attempt { event, before_ticks }) = self.pending {
            if !driver.is_past(event)? {
                return Ok(());
            }
            self.pending = None;
            let after_ticks = ticks();
            return self.keep(driver, Bracketed { event, before_ticks, after_ticks }, out);
        }
        let mut best: Option<Bracketed> = None;
        for _ in 0..TRIES {
            let Some(event) = self.spare.pop() else {
                break;
            };
            let before_ticks = ticks();
            driver.record(event, self.stream)?;
            if let Some(after_ticks) = wait(driver, event)? {
                let bracketed = Bracketed { event, before_ticks, after_ticks };
                let worse = match best {
                    Some(best) if best.width() <= bracketed.width() => bracketed,
                    _ => match best.replace(bracketed) {
                        Some(worse) => worse,
                        None => continue,
                    },
                };
                self.spare.insert(0, worse.event);
            } else if best.is_none() {
                self.pending = Some(Attempt { event, before_ticks });
                break;
            } else {
                // Recording the event again discards the pending recording.
                self.spare.insert(0, event);
                break;
            }
        }
        match best {
            Some(best) => self.keep(driver, best, out),
            None => Ok(()),
        }
    }

    fn keep(&mut self, driver: &Driver, reference: Bracketed, out: &mut dyn Output) -> Result<(), CudaError> {
        let gpu_ns = match self.kept.back() {
            Some(last) => {
                let elapsed_ms = driver.elapsed_ms(last.event, reference.event)?;
                last.gpu_ns.saturating_add_signed(nanoseconds(elapsed_ms))
            }
            None => self.first_ns,
        };
        self.kept.push_back(Reference { event: reference.event, gpu_ns });
        if self.kept.len() > KEPT
            && let Some(oldest) = self.kept.pop_front()
        {
            self.spare.push(oldest.event);
        }
        self.due = Instant::now() + INTERVAL;
        let half = reference.width() / 2;
        let sample =
            ClockSample { clock: GpuClock::Events, ordinal: self.ordinal, gpu_ns, uncertainty_ticks: half + 1 };
        out.record(reference.before_ticks + half, 0, &GpuRecord::Clock(sample));
        Ok(())
    }

    /// The time of an event that its stream has passed. `None` if there is no reference yet.
    pub(crate) fn locate(&self, driver: &Driver, event: Event) -> Result<Option<GpuTime>, CudaError> {
        let Some(newest) = self.kept.back() else {
            return Ok(None);
        };
        let roughly = from_reference(newest, driver.elapsed_ms(newest.event, event)?);
        let nearest = self.kept.iter().min_by_key(|reference| reference.gpu_ns.abs_diff(roughly.gpu_ns));
        match nearest {
            Some(nearest) if nearest.event != newest.event => {
                let elapsed_ms = driver.elapsed_ms(nearest.event, event)?;
                Ok(Some(from_reference(nearest, elapsed_ms)))
            }
            _ => Ok(Some(roughly)),
        }
    }

    /// Destroys everything that [`Self::new`] made. The context must still exist.
    pub(crate) fn destroy(self, driver: &Driver) -> Result<(), CudaError> {
        let pending = self.pending.map(|attempt| attempt.event);
        let kept = self.kept.iter().map(|reference| reference.event);
        for event in kept.chain(pending).chain(self.spare) {
            driver.destroy_event(event)?;
        }
        driver.destroy_stream(self.stream)
    }
}

/// The tick reading when the stream had passed the event; `None` if that takes too long.
fn wait(driver: &Driver, event: Event) -> Result<Option<u64>, CudaError> {
    let begin = Instant::now();
    loop {
        if driver.is_past(event)? {
            return Ok(Some(ticks()));
        }
        match begin.elapsed() {
            waited if waited < SPIN => std::hint::spin_loop(),
            waited if waited < PATIENCE => std::thread::sleep(PAUSE),
            _ => return Ok(None),
        }
    }
}

fn from_reference(reference: &Reference, elapsed_ms: f32) -> GpuTime {
    // Half a unit in the last place.
    let coarseness_ns = elapsed_ms.abs() * (f32::EPSILON / 2.0) * 1e6;
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "not negative; the conversion saturates"
    )]
    let coarseness_ns = coarseness_ns.ceil() as u32;
    GpuTime {
        gpu_ns: reference.gpu_ns.saturating_add_signed(nanoseconds(elapsed_ms)),
        uncertainty_ns: RESOLUTION_NS.saturating_add(coarseness_ns),
    }
}

#[expect(clippy::cast_possible_truncation, reason = "the conversion saturates, and what is not a number becomes zero")]
pub(crate) fn nanoseconds(ms: f32) -> i64 {
    (f64::from(ms) * 1e6).round() as i64
}
