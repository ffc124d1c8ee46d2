//! Times of GPU work by CUDA events: one in the launch's stream before what NCCL launches, one behind it. It disturbs no
//! other tool and needs nothing but the driver.
//!
//! ```text
//!   launching thread   begins: a free pair of events; is the stream captured? cuEventRecord(before)
//!                      NCCL launches
//!                      ends: cuEventRecord(after), the pair is left to the worker
//!   worker             a reference event a second; cuEventQuery of what was left, cuEventElapsedTime, the pair is free again
//! ```
//!
//! A launch into a stream that captures a graph gets no events: they would become part of the graph, and what is
//! captured does not run. The current context on the launching thread is NCCL's, and so are stream and device of the
//! launch; the events are of the same context, and the driver itself refuses where they are not.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use super::devices::Place;
use super::driver::{CudaContext, Driver, Refusal, Stream};
use super::way::{Launch, Output, Timing};
use nccl_events::id::EventId;

mod collect;
mod context;
mod pool;
mod reference;
#[cfg(test)]
mod tests;
mod thread;

use collect::Worker;
use pool::Pool;
use thread::{Open, Thread};

/// Contexts at a time: one a device.
const MOST_CONTEXTS: usize = 64;
/// The way.
pub(super) struct Events {
    driver: Driver,
    /// Tells this from an earlier session's in threads that live longer.
    serial: u64,
    entries: Box<[Entry]>,
    counts: Counts,
    /// What the driver first refused to a launching thread; 0 for nothing.
    refusal: AtomicI32,
    /// The driver has shut down: nothing is called any more.
    is_over: AtomicBool,
    pace_ms: AtomicU32,
    worker: Mutex<Worker>,
}

/// A context as launching threads see it.
#[derive(Debug, Default)]
struct Entry {
    /// The context's handle; 0 where launches are not timed.
    context: AtomicU64,
    pool: OnceLock<Pool>,
}

/// What launching threads count, since it was last asked.
#[derive(Debug, Default)]
struct Counts {
    launches: AtomicU64,
    captured: AtomicU64,
    no_event_left: AtomicU64,
    refused: AtomicU64,
    on_callback_thread: AtomicU64,
}

/// Why a launch is not timed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum NotTimed {
    Captured,
    NoEventLeft,
    OnCallbackThread,
    Refused(Refusal),
}

impl From<Refusal> for NotTimed {
    fn from(refusal: Refusal) -> Self {
        match refusal {
            refusal if refusal.is_of_capture() => Self::Captured,
            Refusal::NOT_PERMITTED => Self::OnCallbackThread,
            refusal => Self::Refused(refusal),
        }
    }
}

impl Events {
    /// The way, with a driver that answers.
    pub(super) fn new(driver: Driver) -> Self {
        static SERIAL: AtomicU64 = AtomicU64::new(0);
        Self {
            driver,
            serial: SERIAL.fetch_add(1, Ordering::Relaxed),
            entries: (0..MOST_CONTEXTS).map(|_| Entry::default()).collect(),
            counts: Counts::default(),
            refusal: AtomicI32::new(0),
            is_over: AtomicBool::new(false),
            pace_ms: AtomicU32::new(50),
            worker: Mutex::default(),
        }
    }

    /// Puts the first event into the stream.
    fn begin(&self, launch: Launch, thread: &mut Thread) -> Result<(), NotTimed> {
        if thread.is_cudas() {
            return Err(NotTimed::OnCallbackThread);
        }
        if self.is_over.load(Ordering::Relaxed) {
            return Err(NotTimed::Refused(Refusal::DEINITIALIZED));
        }
        let context = self.driver.current()?;
        let (index, pool) = self
            .entry(context)
            .ok_or(NotTimed::Refused(Refusal::NO_EVENTS))?;
        let stream = Stream(launch.stream);
        if self.driver.is_capturing(stream)? {
            return Err(NotTimed::Captured);
        }
        let pair = pool.take().ok_or(NotTimed::NoEventLeft)?;
        if let Err(refusal) = self.driver.record(pair.before, stream) {
            pool.put_back(pair);
            return Err(self.refused_by(refusal, index));
        }
        thread.keep(Open {
            serial: self.serial,
            id: launch.id,
            entry: index,
            pair,
            stream,
        });
        Ok(())
    }

    /// Puts the second event into the stream.
    fn end(&self, open: Open) -> Result<(), NotTimed> {
        let Some(pool) = self
            .entries
            .get(open.entry)
            .and_then(|entry| entry.pool.get())
        else {
            return Ok(());
        };
        match self.driver.record(open.pair.after, open.stream) {
            Ok(()) => {
                pool.leave(open.pair, open.id.get(), open.stream.0);
                Ok(())
            }
            Err(refusal) => {
                pool.put_back(open.pair);
                Err(self.refused_by(refusal, open.entry))
            }
        }
    }

    /// A context whose driver refuses an event is left alone from then on.
    #[cold]
    fn refused_by(&self, refusal: Refusal, entry: usize) -> NotTimed {
        let not_timed = NotTimed::from(refusal);
        if let (NotTimed::Refused(_), Some(entry)) = (not_timed, self.entries.get(entry)) {
            entry.context.store(0, Ordering::Relaxed);
        }
        not_timed
    }

    #[inline]
    fn entry(&self, context: CudaContext) -> Option<(usize, &Pool)> {
        if context.0 == 0 {
            return None;
        }
        let index = self
            .entries
            .iter()
            .position(|entry| entry.context.load(Ordering::Acquire) == context.0)?;
        Some((index, self.entries.get(index)?.pool.get()?))
    }
}

impl Timing for Events {
    fn begins(&self, launch: Launch) {
        self.counts.launches.fetch_add(1, Ordering::Relaxed);
        let begun = thread::with(|thread| self.begin(launch, thread));
        if let Some(Err(why)) = begun {
            self.count(why);
        }
    }

    fn ends(&self, id: EventId) {
        // Nothing where the launch is not timed, or was begun on another thread.
        let open = thread::with(|thread| thread.take(self.serial, id)).flatten();
        if let Some(Err(why)) = open.map(|open| self.end(open)) {
            self.count(why);
        }
    }

    fn communicator_begins(&self, communicator: u64, place: Place, out: &mut dyn Output) {
        self.on_worker(|worker| worker.communicator_begins(self, communicator, place, out));
    }

    fn communicator_ends(&self, communicator: u64, out: &mut dyn Output, deadline: Instant) {
        self.on_worker(|worker| worker.communicator_ends(self, communicator, out, deadline));
    }

    fn collect(&self, out: &mut dyn Output) {
        self.on_worker(|worker| worker.collect(self, out));
    }

    fn pace(&self) -> Duration {
        Duration::from_millis(self.pace_ms.load(Ordering::Relaxed).into())
    }

    fn finish(&self, out: &mut dyn Output, deadline: Instant) {
        self.on_worker(|worker| worker.finish(self, out, deadline));
    }
}

impl Events {
    /// Takes out what the worker uses, so that nothing is called under a lock.
    fn on_worker(&self, action: impl FnOnce(&mut Worker)) {
        let mut worker = std::mem::take(&mut *self.worker.lock());
        action(&mut worker);
        *self.worker.lock() = worker;
    }

    #[cold]
    fn count(&self, why: NotTimed) {
        let counter = match why {
            NotTimed::Captured => &self.counts.captured,
            NotTimed::NoEventLeft => &self.counts.no_event_left,
            NotTimed::OnCallbackThread => &self.counts.on_callback_thread,
            NotTimed::Refused(refusal) => {
                // The first says why; that there are no events from then on follows from it.
                let _not_the_first = self.refusal.compare_exchange(
                    0,
                    refusal.0,
                    Ordering::Relaxed,
                    Ordering::Relaxed,
                );
                &self.counts.refused
            }
        };
        counter.fetch_add(1, Ordering::Relaxed);
    }
}
