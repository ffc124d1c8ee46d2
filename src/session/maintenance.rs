//! The maintenance thread, one per process: prepares segments before they are needed, releases used ones, reads the
//! system's clocks to relate ticks to time, makes snapshots, and follows the control file.

use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};

use super::snapshots::Maker;
use super::test_clock::TestClock;
use crate::control::{self, Control};
use crate::host::{logger, memory, process};
use crate::record;
use crate::record::open_ranges::counts::counts_since;

use journal::clock::{self, ClockPair};
use journal::writer::{JournalWriter, SharedSlotWriter, SlotWriter};
use journal::writing;
use nccl_events::CommInit;
use nccl_events::range::RangeCount;

pub(crate) const MAINTENANCE_NAME: &str = "nccl-otf2-maintenance";

/// Clock pairs are read every second, and twice soon after the start, so that the tick rate is known even if the
/// process is killed in its first second.
const CLOCK_INTERVAL: Duration = Duration::from_secs(1);
const FIRST_INTERVALS: [Duration; 2] = [Duration::from_millis(10), Duration::from_millis(100)];
/// The range of the thread's sleep. Callbacks make no system call to wake it, so it polls, the more often the faster
/// they record: four times while a thread fills what is prepared for it.
const SHORTEST: Duration = Duration::from_micros(500);
const LONGEST: Duration = Duration::from_millis(20);
const POLLS: u32 = 4;

#[derive(Debug)]
pub(crate) struct Maintenance {
    shared: Arc<Shared>,
    /// Absent if the system refused a thread; recording threads then prepare their own segments.
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug)]
struct Shared {
    slot_writer: SharedSlotWriter,
    test_clock: Option<TestClock>,
    /// The counts of ranges that were recorded last.
    range_counts: Mutex<[u64; RangeCount::COUNT]>,
    stop: Mutex<bool>,
    wake: Condvar,
}

impl Maintenance {
    /// Records a first clock pair into `slot_writer`, the thread's own slot, and starts the thread.
    pub(crate) fn start(
        writer: Arc<JournalWriter>,
        slot_writer: SlotWriter,
        test_clock: Option<TestClock>,
        snapshots: Maker,
        mut control: Control,
    ) -> Self {
        let shared = Arc::new(Shared {
            slot_writer: SharedSlotWriter::new(slot_writer),
            test_clock,
            range_counts: Mutex::default(),
            stop: Mutex::new(false),
            wake: Condvar::new(),
        });
        shared.record_clocks();
        // Before the first event, because a job can start with recording off.
        shared.follow(&mut control);
        let for_thread = Arc::clone(&shared);
        let thread = process::spawn("nccl-otf2", 256 << 10, move || run(&writer, &for_thread, snapshots, control));
        Self { shared, thread: thread.ok() }
    }

    /// Records a communicator in the slot that flight recordings keep: the record of its beginning may be removed.
    pub(crate) fn communicator(&self, context: u64, begin_ticks: u64, repetition: u32, comm: &CommInit<'_>) {
        let mut slot_writer = self.shared.slot_writer.lock();
        slot_writer.comm_known(context, begin_ticks, repetition, comm);
    }

    /// The slot that flight recordings keep, for records that must last as long as the session.
    pub(crate) fn notes(&self) -> SharedSlotWriter {
        self.shared.slot_writer.clone()
    }

    pub(crate) fn record_clocks(&self) {
        self.shared.record_clocks();
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
                in_process::location()
            ));
        }
        self.shared.record_clocks();
        self.shared.record_counts();
    }
}

impl Shared {
    fn record_clocks(&self) {
        let mut pair = ClockPair::read();
        if let Some(clock) = &self.test_clock {
            pair = clock.shift(pair);
        }
        self.slot_writer.lock().clock_pair(&pair);
    }

    fn follow(&self, control: &mut Control) {
        let begin_ticks = clock::ticks();
        for switch in control.poll() {
            self.slot_writer.lock().switch(begin_ticks, 0, &switch);
        }
    }

    /// Records the counts regularly, so that they are known up to the last second if the process is killed.
    fn record_counts(&self) {
        if let Some(counts) = control::take_refused() {
            self.slot_writer.lock().not_selected(counts);
        }
        let mut range_counts = self.range_counts.lock();
        if let Some(counts) = counts_since(*range_counts) {
            *range_counts = counts;
            let _full = self.slot_writer.lock().range_counts(clock::ticks(), counts);
        }
    }
}

fn run(writer: &JournalWriter, shared: &Shared, mut snapshots: Maker, mut control: Control) {
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
        if memory::has_failed() {
            writer.stop_without_memory();
        }
        let lasts = writer.keep().map_or(LONGEST, |lasts| lasts / POLLS);
        pause = lasts.min(pause * 2).clamp(SHORTEST, LONGEST);
        if Instant::now() >= clock_due {
            clock_due = Instant::now() + next_interval();
            shared.record_clocks();
            shared.record_counts();
            record::account_for_unrecorded(writer);
        }
        shared.follow(&mut control);
        if let Some(request) = snapshots.wanted() {
            // Gives the snapshot clock readings up to its end.
            shared.record_clocks();
            shared.record_counts();
            writing::guarded(|| snapshots.answer(request, writer));
        }
    }
}
