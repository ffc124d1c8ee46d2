//! Times GPU work with CUPTI's records: more detail than CUDA events, but other tools in the process can interfere.
//!
//! ```text
//!  launching thread   begins: push id ── NCCL launches ── ends: pop id      here
//!                     (CUPTI requests a buffer)                             buffers.rs
//!  CUPTI's threads    a buffer comes back                                   buffers.rs
//!  worker             collect: flush ▸ decode ▸ join ▸ output               records.rs, join.rs
//!  helper thread      calls that may not return                             here
//! ```
//!
//! `session.rs` finds CUPTI, subscribes and enables activity kinds; `buffers.rs` has all calls. The plugin never calls
//! `cuptiFinalize`, which ends CUPTI for all tools and crashes some. Buffers that CUPTI still holds when the session
//! ends are never freed.

use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::gpu::cupti::records::{Fault, RecordReader};
use crate::gpu::cupti::session::Session;
use crate::gpu::driver::{CudaError, DeviceContext, Driver, Stream};
use crate::gpu::output::{Backend, Launch, LaunchCounts, Mailbox, NotTimed, Output};
use crate::host::process;
use crate::host::threads::PerThread;
use cupti_sys::Code;
use cupti_sys::constants::{EXTERNAL_CUSTOM2, FLUSH_FORCED};
use nccl_events::Kind;
use nccl_events::gpu::{Backend as BackendKind, GpuCount};
use nccl_events::ids::EventId;
use parking_lot::Mutex;

mod buffers;
mod join;
mod records;
mod session;

pub(crate) use crate::gpu::cupti::session::{NotUsed, Settings, is_ours};

/// How long the worker waits for a flush. It reads the available records even if the flush has not returned.
const FLUSH_PATIENCE: Duration = Duration::from_millis(250);
/// A flush that takes longer is reported.
const HANGS_AFTER: Duration = Duration::from_secs(10);
/// How long the worker waits at the end for running kernels, and for outstanding buffers.
const LAST_PATIENCE: Duration = Duration::from_millis(200);

static SESSIONS: AtomicU64 = AtomicU64::new(0);

/// The backend: launches push their ids, the worker collects records, and the end of the session waits for the rest.
pub(crate) struct Cupti {
    session: Session,
    number: u64,
    settings: Settings,
    driver: Driver,
    helper: Helper,
    /// The worker's state. The worker moves it out, so that it holds no lock while it calls CUPTI.
    reading: Mutex<Option<Box<RecordReader>>>,
    gate: Gate,
    counts: LaunchCounts,
    /// The number of pushed ids that were not on top of CUPTI's stack when the plugin popped them.
    disturbed: AtomicU64,
    flushed: Arc<AtomicI32>,
    flush_began: Mutex<Option<Instant>>,
}

pub(crate) struct OpenedCupti {
    pub(crate) backend: Arc<Cupti>,
    pub(crate) description: String,
}

pub(crate) fn open(settings: Settings, driver: Driver) -> Result<OpenedCupti, NotUsed> {
    let session = Session::open(&settings)?;
    let description = format!(
        "that of CUDA {}, {}, which {}{}",
        session.release(),
        session.path.display(),
        if session.calls.is_shared() { "other tools can use too" } else { "no other tool can use meanwhile" },
        if session.has_all_driver_calls {
            "; before CUDA 12.5 it records every call of the driver's, too, which costs more"
        } else {
            ""
        }
    );
    let backend = Arc::new(Cupti::new(session, settings, driver));
    Ok(OpenedCupti { backend, description })
}

impl Backend for Cupti {
    fn communicator_begins(&self, _communicator: u64, _device: DeviceContext, out: &mut dyn Output) {
        // Early, because the times of kernels before the first sample are extrapolated.
        let taken = self.reading.lock().take();
        if let Some(mut reading) = taken {
            reading.sample_clock(out);
            *self.reading.lock() = Some(reading);
        }
    }

    fn communicator_ends(&self, _communicator: u64, out: &mut dyn Output, deadline: Instant) {
        // The context may be destroyed with the communicator.
        self.collect_until(deadline, out);
    }

    fn begins(&self, launch: Launch) {
        if launch.id.kind() == Kind::CeColl && !self.settings.copies {
            return;
        }
        self.gate.pass(|| self.push(launch));
    }

    fn ends(&self, id: EventId) {
        self.gate.pass(|| self.pop(id.get()));
    }

    fn collect(&self, out: &mut dyn Output) {
        self.collect_until(Instant::now() + FLUSH_PATIENCE, out);
    }

    fn finish(&self, out: &mut dyn Output, deadline: Instant) {
        let gate_is_empty = self.gate.close(deadline.min(Instant::now() + LAST_PATIENCE));
        let taken = self.reading.lock().take();
        let Some(mut reading) = taken else {
            out.fault(
                BackendKind::Off,
                "the last kernels are missing: the thread that reads CUPTI's records has not returned",
            );
            return;
        };
        let launches = self.take_counts(&mut reading, out);
        reading.sample_clock(out);
        // Usually all kernels have run by now; if not, the worker waits a little.
        let flush_deadline = deadline.min(Instant::now() + LAST_PATIENCE);
        let mut is_flushed = self.flush(&mut reading, 0, deadline, out);
        reading.read_all(out);
        while is_flushed && reading.misses_launches() && Instant::now() < flush_deadline {
            std::thread::sleep(Duration::from_millis(10));
            is_flushed = self.flush(&mut reading, 0, deadline, out);
            reading.read_all(out);
        }
        if is_flushed {
            is_flushed = self.turn_off(&mut reading, deadline, out);
        }
        self.wait_for_buffers(&mut reading, deadline, out);
        if is_flushed && buffers::pool().outstanding() > 0 && !reading.is_taken_over() {
            // A forced flush gives up running kernels: their records come without an end.
            is_flushed = self.flush(&mut reading, FLUSH_FORCED, deadline, out);
            self.wait_for_buffers(&mut reading, deadline, out);
        }
        reading.sample_clock(out);
        reading.check(launches, out);
        reading.end(out);
        // CUPTI still holds these buffers: they are never freed, and their records are not read.
        let late = buffers::pool().outstanding();
        buffers::pool().close();
        out.count(GpuCount::LateBuffers, u64::try_from(late).unwrap_or(u64::MAX));
        if !is_flushed {
            reading.reports.once(&Fault::FlushHangs, out);
        }
        // The subscription must not end while a thread uses it.
        if is_flushed && gate_is_empty {
            let calls = self.session.calls;
            self.helper.run(deadline, move || {
                calls.unsubscribe();
            });
        }
    }
}

impl Cupti {
    pub(crate) fn new(session: Session, settings: Settings, driver: Driver) -> Self {
        Self {
            reading: Mutex::new(Some(Box::new(RecordReader::new(
                session.calls,
                session.version,
                settings.all_kernels,
            )))),
            session,
            number: SESSIONS.fetch_add(1, Ordering::Relaxed) + 1,
            settings,
            driver,
            helper: Helper::start(),
            gate: Gate::default(),
            counts: LaunchCounts::default(),
            disturbed: AtomicU64::new(0),
            flushed: Arc::new(AtomicI32::new(0)),
            flush_began: Mutex::new(None),
        }
    }

    fn collect_until(&self, deadline: Instant, out: &mut dyn Output) {
        let taken = self.reading.lock().take();
        let Some(mut reading) = taken else {
            return;
        };
        reading.sample_clock(out);
        self.flush(&mut reading, 0, deadline, out);
        let launches = self.take_counts(&mut reading, out);
        reading.read_all(out);
        reading.check(launches, out);
        buffers::pool().top_up();
        *self.reading.lock() = Some(reading);
    }

    fn push(&self, launch: Launch) {
        let id = launch.id.get();
        let calls = &self.session.calls;
        self.counts.launch();
        let capturing = self.driver.is_capturing(Stream(launch.stream));
        let begun = with(self.number, |open| {
            if open.is_full() {
                // Reached only if stops came on other threads, which NCCL does not do.
                while let Some(launch) = open.take_last() {
                    self.remove(launch);
                }
            }
            let mut is_pushed = false;
            match capturing {
                // Nothing runs now, and the graph's replays have no id.
                Ok(true) => self.counts.not_timed(NotTimed::Captured),
                Err(CudaError::NOT_PERMITTED) => {
                    self.counts.not_timed(NotTimed::OnCallbackThread);
                }
                // If the driver cannot answer, nothing is being captured.
                Ok(false) | Err(_) => {
                    let code = calls.push(EXTERNAL_CUSTOM2, id);
                    is_pushed = code.is_success();
                    if !is_pushed {
                        self.counts.not_timed(NotTimed::Refused(code.0));
                    }
                }
            }
            open.begin(OpenLaunch { id, is_pushed });
        });
        if begun.is_none() {
            self.counts.not_timed(NotTimed::NoEventLeft);
        }
    }

    fn pop(&self, id: u64) {
        with(self.number, |open| {
            // CUPTI's stacks are per thread: another thread's stack cannot be changed here.
            if !open.has(id) {
                return;
            }
            while let Some(launch) = open.take_last() {
                self.remove(launch);
                if launch.id == id {
                    return;
                }
            }
        });
    }

    fn remove(&self, launch: OpenLaunch) {
        if launch.is_pushed && self.session.calls.pop(EXTERNAL_CUSTOM2) != Ok(launch.id) {
            self.disturbed.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Reports the launching threads' counters, and returns the number of launches whose ids CUPTI has.
    fn take_counts(&self, reading: &mut RecordReader, out: &mut dyn Output) -> u64 {
        let reported = self.counts.report(out);
        let pushed = reported.launches.saturating_sub(reported.not_timed);
        reading.expect(pushed);
        if let Some(code) = reported.error {
            reading.reports.once(&Fault::PushFailed(Code(code)), out);
        }
        if self.disturbed.swap(0, Ordering::Relaxed) > 0 {
            reading.reports.once(&Fault::IdsDisturbed, out);
        }
        pushed
    }

    /// Makes CUPTI return its buffers. False if the call has not returned by `deadline`.
    fn flush(&self, reading: &mut RecordReader, flag: u32, deadline: Instant, out: &mut dyn Output) -> bool {
        if !self.helper.is_busy() {
            *self.flush_began.lock() = Some(Instant::now());
        }
        let calls = self.session.calls;
        let answer = Arc::clone(&self.flushed);
        let is_done = self.helper.run(deadline, move || {
            answer.store(calls.flush(flag).0, Ordering::Relaxed);
        });
        let began = *self.flush_began.lock();
        if is_done {
            let code = Code(self.flushed.load(Ordering::Relaxed));
            if !code.is_success() {
                reading.reports.once(&Fault::FlushFailed(code), out);
            }
        } else if began.is_some_and(|began| began.elapsed() > HANGS_AFTER) {
            reading.reports.once(&Fault::FlushHangs, out);
        }
        is_done
    }

    /// Disables the activity kinds, unless another tool may be using them now: they are global to the process.
    fn turn_off(&self, reading: &mut RecordReader, deadline: Instant, out: &mut dyn Output) -> bool {
        if reading.is_taken_over() && !self.session.calls.is_shared() {
            return true;
        }
        let (calls, enabled) = (self.session.calls, self.session.enabled.clone());
        let is_done = self.helper.run(deadline, move || enabled.turn_off(&calls));
        if !is_done {
            reading.reports.once(&Fault::FlushHangs, out);
        }
        is_done && self.flush(reading, 0, deadline, out)
    }

    /// Waits for the buffers that come back shortly after the flush.
    fn wait_for_buffers(&self, reading: &mut RecordReader, deadline: Instant, out: &mut dyn Output) {
        let end = deadline.min(Instant::now() + LAST_PATIENCE);
        reading.read_all(out);
        while buffers::pool().outstanding() > 0 && Instant::now() < end {
            std::thread::sleep(Duration::from_millis(5));
            reading.read_all(out);
        }
    }
}

// A thread's open launches are those between NCCL's start and stop, whose ids are on CUPTI's stack. CUPTI has a stack
// of external ids for each thread. An id that stays there would tag every later launch of that thread. So the plugin
// tracks the ids that it pushed, and pops leftovers at the next opportunity.

/// The largest number of open launches of a thread; NCCL opens one.
const DEEPEST: usize = 8;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct OpenLaunch {
    pub(crate) id: u64,
    pub(crate) is_pushed: bool,
}

#[derive(Debug)]
pub(crate) struct OpenLaunches {
    session: Cell<u64>,
    depth: Cell<usize>,
    open: [Cell<OpenLaunch>; DEEPEST],
}

static OPEN: PerThread<OpenLaunches> = PerThread::new();

/// Runs `action` with this thread's launches in `session`; does nothing if there is no memory for them.
#[inline]
pub(crate) fn with<T>(session: u64, action: impl FnOnce(&OpenLaunches) -> T) -> Option<T> {
    let none = || Some(OpenLaunches::none(0));
    OPEN.with(none, |open| {
        if open.session.replace(session) != session {
            // The launches belong to an earlier session, whose subscription is over.
            open.depth.set(0);
        }
        action(open)
    })
}

impl OpenLaunches {
    const fn none(session: u64) -> Self {
        Self {
            session: Cell::new(session),
            depth: Cell::new(0),
            open: [const { Cell::new(OpenLaunch { id: 0, is_pushed: false }) }; DEEPEST],
        }
    }

    /// Whether there is no room for another launch, because the open ones were not stopped on this thread.
    pub(crate) const fn is_full(&self) -> bool {
        self.depth.get() >= DEEPEST
    }

    pub(crate) fn begin(&self, launch: OpenLaunch) {
        let depth = self.depth.get();
        if let Some(slot) = self.open.get(depth) {
            slot.set(launch);
            self.depth.set(depth + 1);
        }
    }

    pub(crate) fn take_last(&self) -> Option<OpenLaunch> {
        let depth = self.depth.get().checked_sub(1)?;
        self.depth.set(depth);
        self.open.get(depth).map(Cell::get)
    }

    pub(crate) fn has(&self, id: u64) -> bool {
        let open = self.open.iter().take(self.depth.get());
        open.map(Cell::get).any(|launch| launch.id == id)
    }
}

// `cuptiActivityFlushAll` waits for CUPTI's own threads, and disabling a kind waits for contexts. The helper thread
// makes the calls that may not return, so that the worker waits for them only for a bounded time.

type Task = Box<dyn FnOnce() + Send>;

pub(crate) struct Helper {
    mailbox: Arc<Mailbox<Task>>,
    /// False if the system refused to start a thread; tasks then run on the caller's thread.
    has_thread: bool,
}

impl Helper {
    pub(crate) fn start() -> Self {
        let mailbox = Arc::new(Mailbox::<Task>::new());
        let for_thread = Arc::clone(&mailbox);
        let thread = process::spawn("nccl-otf2-cupti", 512 << 10, move || {
            while let Some(task) = for_thread.wait() {
                // A task that panics counts as finished.
                let _panicked = in_process::catch(task);
                for_thread.answer();
            }
        });
        Self { mailbox, has_thread: thread.is_ok() }
    }

    /// Runs `task`, and waits for it until `deadline`. False if the task has not returned by then, or did not begin
    /// because an earlier task has not returned.
    pub(crate) fn run(&self, deadline: Instant, task: impl FnOnce() + Send + 'static) -> bool {
        if !self.has_thread {
            task();
            return true;
        }
        self.mailbox.is_idle(deadline) && self.mailbox.ask(Box::new(task), deadline)
    }

    pub(crate) fn is_busy(&self) -> bool {
        !self.mailbox.is_idle(Instant::now())
    }
}

impl Drop for Helper {
    fn drop(&mut self) {
        // Does not join the thread, which may hang in a task.
        self.mailbox.close();
    }
}

/// A gate for threads that call CUPTI: it closes when the session ends. The number of threads inside; the top bit is
/// set when the gate is closed.
#[derive(Default)]
pub(crate) struct Gate(AtomicU32);

impl Gate {
    const CLOSED: u32 = 1 << 31;

    #[inline]
    pub(crate) fn pass(&self, action: impl FnOnce()) {
        let before = self.0.fetch_add(1, Ordering::Acquire);
        if before & Self::CLOSED == 0 {
            action();
        }
        self.0.fetch_sub(1, Ordering::Release);
    }

    /// Closes the gate, and waits until all threads have left. False if some are still inside at `deadline`.
    pub(crate) fn close(&self, deadline: Instant) -> bool {
        self.0.fetch_or(Self::CLOSED, Ordering::AcqRel);
        while self.0.load(Ordering::Acquire) & !Self::CLOSED != 0 {
            if Instant::now() >= deadline {
                return false;
            }
            std::thread::sleep(Duration::from_micros(100));
        }
        true
    }
}

#[cfg(test)]
mod tests;
