//! The maintenance thread: one a process. Prepares segments before they are needed, lets go of used ones,
//! reads the system's clocks so that ticks can be turned into time, makes snapshots, and follows the control file.

use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};

use crate::control::{self, Control};
use crate::host::hooks;
use crate::host::logger;
use crate::session::snapshot::Maker;
use crate::session::test_clock::TestClock;
use journal::clock::{self, ClockPair};
use journal::writer::{Cursor, Registry, SharedCursor};
use nccl_events::CommInit;

/// The maintenance's name in its own slot of the journal.
pub(crate) const MAINTENANCE_NAME: &str = "nccl-otf2-maintenance";

/// Clock pairs are read every second, and twice soon after the start: so a process that is killed in its
/// first second has the rate of its ticks.
const CLOCK_INTERVAL: Duration = Duration::from_secs(1);
const FIRST_INTERVALS: [Duration; 2] = [Duration::from_millis(10), Duration::from_millis(100)];
/// A callback must not wake the maintenance (a system call), so it looks by itself: often while segments fill
/// up, seldom in a quiet job.
const SHORTEST: Duration = Duration::from_micros(500);
const LONGEST: Duration = Duration::from_millis(64);

/// The running maintenance.
#[derive(Debug)]
pub(crate) struct Maintenance {
    shared: Arc<Shared>,
    /// Absent when the system refused a thread: then recording threads prepare their own segments.
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug)]
struct Shared {
    cursor: SharedCursor,
    test_clock: Option<TestClock>,
    stop: Mutex<bool>,
    wake: Condvar,
}

impl Maintenance {
    /// Records a first clock pair into `cursor`, the maintenance's own slot, and starts the thread.
    pub(crate) fn start(
        registry: Arc<Registry>,
        cursor: Cursor,
        test_clock: Option<TestClock>,
        snapshots: Maker,
        mut control: Control,
    ) -> Self {
        let shared = Arc::new(Shared {
            cursor: SharedCursor::new(cursor),
            test_clock,
            stop: Mutex::new(false),
            wake: Condvar::new(),
        });
        shared.record_clocks();
        // Before the first event: a job can be started with recording off.
        shared.follow(&mut control);
        let for_thread = Arc::clone(&shared);
        let thread = journal::host::without_signals(|| {
            let builder = std::thread::Builder::new()
                .name("nccl-otf2".to_owned())
                .stack_size(256 * 1024);
            builder
                .spawn(move || keep(&registry, &for_thread, snapshots, control))
                .ok()
        });
        Self { shared, thread }
    }

    /// Records a communicator where it is kept as long as the session: in a flight recording the record of its
    /// beginning is removed some day.
    pub(crate) fn communicator(
        &self,
        context: u64,
        begin_ticks: u64,
        repetition: u32,
        comm: &CommInit<'_>,
    ) {
        let mut cursor = self.shared.cursor.lock();
        cursor.comm_known(context, begin_ticks, repetition, comm);
    }

    /// Where others may write what is to be kept as long as the session.
    pub(crate) fn notes(&self) -> SharedCursor {
        self.shared.cursor.clone()
    }

    /// Ends the thread and records the last clock pair.
    pub(crate) fn stop(self) {
        *self.shared.stop.lock() = true;
        self.shared.wake.notify_all();
        if let Some(thread) = self.thread
            && thread.join().is_err()
        {
            logger::warn(&format!(
                "internal error in the maintenance thread{}; threads made their own segments",
                hooks::panic_place()
            ));
        }
        self.shared.record_clocks();
        self.shared.record_not_wanted();
    }
}

impl Shared {
    fn record_clocks(&self) {
        let mut pair = ClockPair::read();
        if let Some(clock) = &self.test_clock {
            pair = clock.shift(pair);
        }
        self.cursor.lock().clock_pair(&pair);
    }

    /// Does what the control file says, and records that.
    fn follow(&self, control: &mut Control) {
        let begin_ticks = clock::ticks();
        for switch in control.poll() {
            self.cursor.lock().switch(begin_ticks, 0, &switch);
        }
    }

    /// So that a process that is killed has its counts up to the last second.
    fn record_not_wanted(&self) {
        if let Some(counts) = control::take_refused() {
            self.cursor.lock().not_wanted(counts);
        }
    }
}

fn keep(registry: &Registry, shared: &Shared, mut snapshots: Maker, mut control: Control) {
    let mut pause = SHORTEST;
    let mut first_intervals = FIRST_INTERVALS.into_iter();
    let mut next_interval = || first_intervals.next().unwrap_or(CLOCK_INTERVAL);
    let mut clock_due = Instant::now() + next_interval();
    loop {
        {
            let mut stop = shared.stop.lock();
            if !*stop {
                shared.wake.wait_for(&mut stop, pause);
            }
            if *stop {
                return;
            }
        }
        pause = if registry.keep() {
            SHORTEST
        } else {
            (pause * 2).min(LONGEST)
        };
        if Instant::now() >= clock_due {
            clock_due = Instant::now() + next_interval();
            shared.record_clocks();
            shared.record_not_wanted();
        }
        shared.follow(&mut control);
        if let Some(request) = snapshots.wanted() {
            // So that the snapshot knows its clock to its end.
            shared.record_clocks();
            shared.record_not_wanted();
            snapshots.answer(request, registry);
        }
    }
}
