//! State for launching threads: contexts with their pools of events, counters, and the calls around a launch.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

use super::pool::Pool;
use super::thread::{self, Open, Thread};
use crate::gpu::backend::Launch;
use crate::gpu::driver::{CudaContext, CudaError, Driver, Stream};
use crate::gpu::launch_counts::{LaunchCounts, NotTimed};
use nccl_events::ids::EventId;

/// The largest number of contexts at a time, one per device.
const MOST_CONTEXTS: usize = 64;

pub(super) struct Shared {
    pub(super) driver: Driver,
    /// Distinguishes this session from earlier ones in threads that outlive a session.
    serial: u64,
    pub(super) entries: Box<[Entry]>,
    pub(super) counts: LaunchCounts,
    /// Set when the driver has shut down; the driver is not called after that.
    is_over: AtomicBool,
    pub(super) pace_ms: AtomicU32,
}

#[derive(Debug, Default)]
pub(super) struct Entry {
    /// The context's handle; 0 while its launches are not timed.
    pub(super) context: AtomicU64,
    pub(super) pool: OnceLock<Pool>,
}

impl From<CudaError> for NotTimed {
    fn from(error: CudaError) -> Self {
        match error {
            error if error.is_capture_error() => Self::Captured,
            CudaError::NOT_PERMITTED => Self::OnCallbackThread,
            error => Self::Refused(error.0),
        }
    }
}

impl Shared {
    pub(super) fn new(driver: Driver) -> Self {
        static SERIAL: AtomicU64 = AtomicU64::new(0);
        Self {
            driver,
            serial: SERIAL.fetch_add(1, Ordering::Relaxed),
            entries: (0..MOST_CONTEXTS).map(|_| Entry::default()).collect(),
            counts: LaunchCounts::default(),
            is_over: AtomicBool::new(false),
            pace_ms: AtomicU32::new(50),
        }
    }

    pub(super) fn begins(&self, launch: Launch) {
        self.counts.launch();
        let begun = thread::with(|thread| self.begin(launch, thread));
        if let Err(why) = begun.unwrap_or(Err(NotTimed::NoEventLeft)) {
            self.counts.not_timed(why);
        }
    }

    /// A launch ends. Does nothing if it is not timed, or began on another thread.
    pub(super) fn ends(&self, id: EventId) {
        let open = thread::with(|thread| thread.take(self.serial, id)).flatten();
        if let Some(Err(why)) = open.map(|open| self.end(open)) {
            self.counts.not_timed(why);
        }
    }

    fn begin(&self, launch: Launch, thread: &mut Thread) -> Result<(), NotTimed> {
        if thread.is_cuda_thread() {
            return Err(NotTimed::OnCallbackThread);
        }
        if self.is_over() {
            return Err(CudaError::DEINITIALIZED.into());
        }
        let context = self.driver.current()?;
        let (index, pool) = self.entry(context).ok_or(CudaError::NO_EVENTS)?;
        let stream = Stream(launch.stream);
        if self.driver.is_capturing(stream)? {
            return Err(NotTimed::Captured);
        }
        let pair = pool.take().ok_or(NotTimed::NoEventLeft)?;
        if let Err(error) = self.driver.record(pair.before, stream) {
            pool.put_back(pair);
            return Err(self.reject(error, index));
        }
        thread.keep(Open { serial: self.serial, id: launch.id, entry: index, pair, stream });
        Ok(())
    }

    fn end(&self, open: Open) -> Result<(), NotTimed> {
        let Some((_, pool)) = self.at(open.entry) else {
            return Ok(());
        };
        match self.driver.record(open.pair.after, open.stream) {
            Ok(()) => {
                pool.leave(open.pair, open.id.get(), open.stream.0);
                Ok(())
            }
            Err(error) => {
                pool.put_back(open.pair);
                Err(self.reject(error, open.entry))
            }
        }
    }

    /// The driver cannot record events in a context: stops timing its launches.
    #[cold]
    fn reject(&self, error: CudaError, entry: usize) -> NotTimed {
        let not_timed = NotTimed::from(error);
        if matches!(not_timed, NotTimed::Refused(_)) {
            self.close(entry);
        }
        not_timed
    }

    #[inline]
    fn entry(&self, context: CudaContext) -> Option<(usize, &Pool)> {
        if context.0 == 0 {
            return None;
        }
        let index = self.entries.iter().position(|entry| entry.context.load(Ordering::Acquire) == context.0)?;
        Some((index, self.at(index)?.1))
    }

    pub(super) fn at(&self, entry: usize) -> Option<(&Entry, &Pool)> {
        let entry = self.entries.get(entry)?;
        Some((entry, entry.pool.get()?))
    }

    /// Keeps launching threads out of a context.
    pub(super) fn close(&self, entry: usize) {
        if let Some(entry) = self.entries.get(entry) {
            entry.context.store(0, Ordering::Relaxed);
        }
    }

    pub(super) fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Relaxed)
    }

    pub(super) fn stop(&self) {
        self.is_over.store(true, Ordering::Relaxed);
    }
}
