//! CUPTI tells when kernels ran: the way that knows most, and that other tools of the process can be in the way of.
//!
//! ```text
//!  launching thread   begins: push id ── NCCL launches ── ends: pop id      marks.rs
//!                     (CUPTI asks for a buffer)                             buffers.rs
//!  CUPTI's threads    a buffer comes back                                   buffers.rs
//!  worker             collect: flush ▸ read ▸ join ▸ out                    read.rs  decode.rs  join.rs  names.rs
//!                       clock.rs  samples of CUPTI's clock     watch.rs  whether records come at all
//!  helper             calls that may not come back                          helper.rs
//! ```
//!
//! `session.rs` finds CUPTI, subscribes and turns kinds on; `calls.rs` has all calls. `cuptiFinalize` is not among them:
//! it ends CUPTI for everybody, and crashes some. What CUPTI still has when the session ends stays where it is.

mod buffers;
mod calls;
mod clock;
mod decode;
mod helper;
mod join;
mod marks;
mod names;
mod read;
mod session;
#[cfg(test)]
mod tests;
mod watch;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use cupti_sys::Code;
use cupti_sys::constants::{EXTERNAL_CUSTOM2, FLUSH_FORCED};
use parking_lot::Mutex;

use self::helper::Helper;
use self::marks::Mark;
use self::read::Reading;
use self::session::Session;
pub(crate) use self::session::{NotUsed, Settings};
use super::devices::Place;
use super::driver::{Driver, Refusal, Stream};
use super::way::{Launch, Output, Timing};
use nccl_events::Kind;
use nccl_events::gpu::GpuCount;
use nccl_events::gpu::Way;
use nccl_events::id::EventId;

/// A flush is waited for this long; while it goes on, records that have come are read all the same.
const FLUSH_PATIENCE: Duration = Duration::from_millis(250);
/// A flush that takes longer than this is worth a line.
const HANGS_AFTER: Duration = Duration::from_secs(10);
/// At the end: how long kernels that still run, and buffers that are on their way, are waited for.
const LAST_PATIENCE: Duration = Duration::from_millis(200);

/// Whether CUPTI is in this process because we loaded it.
static IS_OURS: AtomicBool = AtomicBool::new(false);
/// Sessions so far.
static SESSIONS: AtomicU64 = AtomicU64::new(0);

/// Timing by CUPTI.
pub(crate) struct Cupti {
    session: Session,
    /// The how-manieth of the process it is.
    number: u64,
    settings: Settings,
    driver: Driver,
    helper: Helper,
    /// What the worker works with. It is taken out for the time of the work: no lock is held while CUPTI is called.
    reading: Mutex<Option<Box<Reading>>>,
    doors: Doors,
    counts: Counts,
    /// What the last flush said.
    flushed: Arc<AtomicI32>,
    /// When the flush that has not come back was begun.
    flush_began: Mutex<Option<Instant>>,
}

/// Lets threads call CUPTI until the session ends, and tells how many are at it.
#[derive(Default)]
struct Doors(AtomicU32);

impl Doors {
    const CLOSED: u32 = 1 << 31;

    /// Runs `action` unless the doors are closed.
    #[inline]
    fn pass(&self, action: impl FnOnce()) {
        let before = self.0.fetch_add(1, Ordering::Acquire);
        if before & Self::CLOSED == 0 {
            action();
        }
        self.0.fetch_sub(1, Ordering::Release);
    }

    /// Closes them; whether everybody is out by then.
    fn close(&self, deadline: Instant) -> bool {
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

/// What launching threads count.
#[derive(Default)]
struct Counts {
    launches: AtomicU64,
    captured: AtomicU64,
    refused: AtomicU64,
    on_callback_thread: AtomicU64,
    /// The code of the last refusal.
    refusal: AtomicI32,
    /// Ids that were not on CUPTI's stack where we had put them.
    disturbed: AtomicU64,
}

fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}

/// CUPTI in use.
pub(crate) struct Opened {
    pub(crate) timing: Arc<Cupti>,
    /// Which, and what that means: a part of a sentence.
    pub(crate) which: String,
}

/// Whether CUPTI's library is in this process because an earlier session of ours wanted it.
pub(crate) fn is_ours() -> bool {
    IS_OURS.load(Ordering::Relaxed)
}

/// Begins to record with CUPTI.
pub(crate) fn open(settings: Settings, driver: Driver) -> Result<Opened, NotUsed> {
    let session = Session::open(&settings)?;
    let which = format!(
        "that of CUDA {}, {}, which {}{}",
        session.release(),
        session.path.display(),
        if session.calls.is_shared() {
            "other tools can use too"
        } else {
            "no other tool can use meanwhile"
        },
        if session.has_all_driver_calls {
            "; before CUDA 12.5 it records every call of the driver's, too, which costs more"
        } else {
            ""
        }
    );
    let timing = Arc::new(Cupti::new(session, settings, driver));
    Ok(Opened { timing, which })
}

impl Timing for Cupti {
    fn communicator_begins(&self, _communicator: u64, _place: Place, out: &mut dyn Output) {
        // Soon after the beginning: kernels before the first sample would be placed by the rate after it.
        let taken = self.reading.lock().take();
        if let Some(mut reading) = taken {
            reading.sample_clock(out);
            *self.reading.lock() = Some(reading);
        }
    }

    fn communicator_ends(&self, _communicator: u64, out: &mut dyn Output, deadline: Instant) {
        // Its context may go with it.
        self.collect_until(deadline, out);
    }

    fn begins(&self, launch: Launch) {
        if launch.id.kind() == Kind::CeColl && !self.settings.copies {
            return;
        }
        self.doors.pass(|| self.push(launch));
    }

    fn ends(&self, id: EventId) {
        self.doors.pass(|| self.pop(id.get()));
    }

    fn collect(&self, out: &mut dyn Output) {
        self.collect_until(Instant::now() + FLUSH_PATIENCE, out);
    }

    fn finish(&self, out: &mut dyn Output, deadline: Instant) {
        let everybody_is_out = self
            .doors
            .close(deadline.min(Instant::now() + LAST_PATIENCE));
        let taken = self.reading.lock().take();
        let Some(mut reading) = taken else {
            out.fault(
                Way::Off,
                "the last kernels are missing: the thread that reads CUPTI's records has not come back",
            );
            return;
        };
        let launches = self.take_counts(&mut reading, out);
        reading.sample_clock(out);
        // Most often all kernels have run by now. If not, they get a little time, not more.
        let end_of_patience = deadline.min(Instant::now() + LAST_PATIENCE);
        let mut flushes = self.flush(&mut reading, 0, deadline, out);
        reading.read_all(out);
        while flushes && reading.misses_launches() && Instant::now() < end_of_patience {
            std::thread::sleep(Duration::from_millis(10));
            flushes = self.flush(&mut reading, 0, deadline, out);
            reading.read_all(out);
        }
        if flushes {
            flushes = self.turn_off(&mut reading, deadline, out);
        }
        self.wait_for_buffers(&mut reading, deadline, out);
        if flushes && buffers::pool().outstanding() > 0 && !reading.is_taken_over() {
            // Records of kernels that run are given up: they come without an end.
            flushes = self.flush(&mut reading, FLUSH_FORCED, deadline, out);
            self.wait_for_buffers(&mut reading, deadline, out);
        }
        reading.sample_clock(out);
        reading.look_around(launches, out);
        reading.end(out);
        // CUPTI still has these: they are never freed, and what comes in them is not read.
        let late = buffers::pool().outstanding();
        buffers::pool().close();
        out.count(
            GpuCount::LateBuffers,
            u64::try_from(late).unwrap_or(u64::MAX),
        );
        if !flushes {
            reading.say_hangs(out);
        }
        // A subscription must not end under a thread that is about to use it.
        if flushes && everybody_is_out {
            let calls = self.session.calls;
            self.helper.run(deadline, move || {
                calls.unsubscribe();
            });
        }
    }
}

impl Cupti {
    fn new(session: Session, settings: Settings, driver: Driver) -> Self {
        Self {
            reading: Mutex::new(Some(Box::new(Reading::new(
                session.calls,
                session.version,
                settings.all_kernels,
            )))),
            session,
            number: SESSIONS.fetch_add(1, Ordering::Relaxed) + 1,
            settings,
            driver,
            helper: Helper::start(),
            doors: Doors::default(),
            counts: Counts::default(),
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
        reading.look_around(launches, out);
        buffers::pool().top_up();
        *self.reading.lock() = Some(reading);
    }

    fn push(&self, launch: Launch) {
        let id = launch.id.get();
        let calls = &self.session.calls;
        count(&self.counts.launches);
        let capturing = self.driver.is_capturing(Stream(launch.stream));
        marks::with(self.number, |marks| {
            if marks.is_full() {
                // They were stopped on other threads, which NCCL does not do.
                while let Some(mark) = marks.take_last() {
                    self.take_away(mark);
                }
            }
            let mut is_pushed = false;
            match capturing {
                // Nothing runs now; what the graph runs later has no id.
                Ok(true) => count(&self.counts.captured),
                Err(Refusal::NOT_PERMITTED) => count(&self.counts.on_callback_thread),
                // Where the driver cannot say, nothing captures.
                Ok(false) | Err(_) => {
                    let code = calls.push(EXTERNAL_CUSTOM2, id);
                    is_pushed = code.is_success();
                    if !is_pushed {
                        count(&self.counts.refused);
                        self.counts.refusal.store(code.0, Ordering::Relaxed);
                    }
                }
            }
            marks.begin(Mark { id, is_pushed });
        });
    }

    fn pop(&self, id: u64) {
        marks::with(self.number, |marks| {
            // Of another thread's launch: its stack cannot be reached from here.
            if !marks.has(id) {
                return;
            }
            while let Some(mark) = marks.take_last() {
                self.take_away(mark);
                if mark.id == id {
                    return;
                }
            }
        });
    }

    fn take_away(&self, mark: Mark) {
        if mark.is_pushed && self.session.calls.pop(EXTERNAL_CUSTOM2) != Ok(mark.id) {
            count(&self.counts.disturbed);
        }
    }

    /// Hands on what launching threads counted; how many of the launches were told CUPTI.
    fn take_counts(&self, reading: &mut Reading, out: &mut dyn Output) -> u64 {
        let take = |counter: &AtomicU64| counter.swap(0, Ordering::Relaxed);
        let (captured, refused) = (take(&self.counts.captured), take(&self.counts.refused));
        let on_callback_thread = take(&self.counts.on_callback_thread);
        // Last, so that no launch is counted as refused that is not counted yet.
        let launches = take(&self.counts.launches);
        out.count(GpuCount::Launches, launches);
        out.count(GpuCount::Captured, captured);
        out.count(GpuCount::Refused, refused);
        out.count(GpuCount::OnCallbackThread, on_callback_thread);
        let told = launches.saturating_sub(captured + refused + on_callback_thread);
        reading.expect(told);
        if refused > 0 {
            let code = Code(self.counts.refusal.load(Ordering::Relaxed));
            reading.say_refused(code, out);
        }
        if take(&self.counts.disturbed) > 0 {
            reading.say_disturbed(out);
        }
        told
    }

    /// Has CUPTI give back its buffers. False when it does not come back with that.
    fn flush(
        &self,
        reading: &mut Reading,
        flag: u32,
        deadline: Instant,
        out: &mut dyn Output,
    ) -> bool {
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
            reading.say_flushed(Code(self.flushed.load(Ordering::Relaxed)), out);
        } else if began.is_some_and(|began| began.elapsed() > HANGS_AFTER) {
            reading.say_hangs(out);
        }
        is_done
    }

    /// Turns off what was turned on, unless another tool may need it by now: kinds are the whole process's.
    fn turn_off(&self, reading: &mut Reading, deadline: Instant, out: &mut dyn Output) -> bool {
        if reading.is_taken_over() && !self.session.calls.is_shared() {
            return true;
        }
        let (calls, on) = (self.session.calls, self.session.on());
        let is_done = self.helper.run(deadline, move || on.turn_off(&calls));
        if !is_done {
            reading.say_hangs(out);
        }
        is_done && self.flush(reading, 0, deadline, out)
    }

    /// Buffers come a moment after the flush that gave them back.
    fn wait_for_buffers(&self, reading: &mut Reading, deadline: Instant, out: &mut dyn Output) {
        let end = deadline.min(Instant::now() + LAST_PATIENCE);
        reading.read_all(out);
        while buffers::pool().outstanding() > 0 && Instant::now() < end {
            std::thread::sleep(Duration::from_millis(5));
            reading.read_all(out);
        }
    }
}
