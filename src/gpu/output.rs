//! What the worker thread and the backends share: the interface of the backends (CUPTI, CUDA events), the journal slots
//! into which their records go, requests to the worker, the counters of launching threads, and the descriptions of
//! devices.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::gpu::driver::{Attribute, CudaError, DeviceContext, Driver};
use crate::host::process;
use journal::clock::ticks;
use journal::writer::{JournalWriter, SharedSlotWriter, SlotWriter};
use nccl_events::Name;
use nccl_events::gpu::{Backend as BackendKind, Device, GpuCount, GpuRecord};
use nccl_events::ids::EventId;
use parking_lot::{Condvar, Mutex};
use settings::Verbosity;

pub(crate) const NAME: &str = "nccl-otf2-gpu";

/// Writes a backend's records to the worker's slot and the maintenance thread's slot of the journal.
pub(crate) struct JournalOutput {
    writer: Arc<JournalWriter>,
    notes: SharedSlotWriter,
    verbosity: Verbosity,
    /// Requested with the first record, because it takes a mebibyte; `Some(None)` if it was refused.
    slot: Option<Option<Box<SlotWriter>>>,
    counts: [u64; GpuCount::COUNT],
    /// Whether the counts have been written since they last changed.
    is_counted: bool,
    /// Set when the session has ended without waiting for the worker.
    is_closed: Arc<AtomicBool>,
}

impl JournalOutput {
    pub(crate) fn new(
        writer: Arc<JournalWriter>,
        notes: SharedSlotWriter,
        verbosity: Verbosity,
        is_closed: Arc<AtomicBool>,
    ) -> Self {
        Self { writer, notes, verbosity, slot: None, counts: [0; GpuCount::COUNT], is_counted: true, is_closed }
    }

    pub(crate) fn put_counts(&mut self) {
        if !std::mem::replace(&mut self.is_counted, true) && !self.is_closed() {
            self.notes.put(ticks(), 0, &GpuRecord::Counts(self.counts));
        }
    }

    fn is_closed(&self) -> bool {
        self.is_closed.load(Ordering::Acquire)
    }

    fn slot(&mut self) -> Option<&mut SlotWriter> {
        let slot = self.slot.get_or_insert_with(|| self.writer.register(NAME).ok().map(Box::new));
        slot.as_deref_mut()
    }

    pub(crate) fn log_notice(&mut self, backend: BackendKind, text: &str, is_fault: bool) {
        if self.is_closed() {
            return;
        }
        let cut = text.chars().filter(|character| *character != '\0');
        let line = std::ffi::CString::new(cut.collect::<String>()).unwrap_or_default();
        let record = GpuRecord::Notice { backend, text: Name::from_cstr(&line) };
        self.notes.put(ticks(), 0, &record);
        match self.verbosity {
            _ if is_fault => process::warn(text),
            Verbosity::Quiet => {}
            Verbosity::Normal => process::info(text),
            Verbosity::Verbose => process::warn(text),
        }
    }
}

impl Output for JournalOutput {
    fn record(&mut self, ticks: u64, id: u64, record: &GpuRecord<Name<'_>>) {
        if self.is_closed() {
            return;
        }
        let has_room = match record {
            GpuRecord::Kernel(_) | GpuRecord::Copy(_) | GpuRecord::LaunchTime(_) => {
                self.slot().is_some_and(|slot_writer| slot_writer.gpu(ticks, id, record))
            }
            _ => self.notes.put(ticks, id, record),
        };
        if !has_room {
            self.count(GpuCount::NoRoom, 1);
        }
    }

    fn count(&mut self, count: GpuCount, more: u64) {
        if more > 0
            && let Some(total) = self.counts.get_mut(count as usize)
        {
            *total += more;
            self.is_counted = false;
        }
    }

    fn notice(&mut self, backend: BackendKind, text: &str) {
        self.log_notice(backend, text, false);
    }

    fn fault(&mut self, backend: BackendKind, text: &str) {
        self.log_notice(backend, text, true);
    }
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Message {
    Begins { communicator: u64, device: Result<DeviceContext, CudaError> },
    Ends { communicator: u64, deadline: Instant },
    Finish { deadline: Instant },
}

/// Requests to one of the plugin's threads. Other threads wait for its answers without a lock and for a bounded time.
#[derive(Debug)]
pub(crate) struct Mailbox<M> {
    state: Mutex<State<M>>,
    requested: Condvar,
    answered: Condvar,
}

#[derive(Debug)]
struct State<M> {
    messages: VecDeque<M>,
    sent: u64,
    answered: u64,
    is_over: bool,
}

impl<M> State<M> {
    const fn is_answered(&self, number: u64) -> bool {
        self.answered >= number || self.is_over
    }
}

impl<M> Mailbox<M> {
    pub(crate) const fn new() -> Self {
        let state = State { messages: VecDeque::new(), sent: 0, answered: 0, is_over: false };
        Self { state: Mutex::new(state), requested: Condvar::new(), answered: Condvar::new() }
    }

    /// Sends a message, and waits for its answer until `until`. False if there is no answer by then.
    pub(crate) fn ask(&self, message: M, until: Instant) -> bool {
        let mut state = self.state.lock();
        if state.is_over {
            return true;
        }
        state.sent += 1;
        let number = state.sent;
        state.messages.push_back(message);
        self.requested.notify_one();
        self.answered.wait_while_until(&mut state, |state| !state.is_answered(number), until);
        state.is_answered(number)
    }

    /// Waits until all messages are answered. False if some are not by `until`.
    pub(crate) fn is_idle(&self, until: Instant) -> bool {
        let mut state = self.state.lock();
        let sent = state.sent;
        self.answered.wait_while_until(&mut state, |state| !state.is_answered(sent), until);
        state.is_answered(sent)
    }

    /// The next message, waiting for one until `until`.
    pub(crate) fn next(&self, until: Instant) -> Option<M> {
        let mut state = self.state.lock();
        if state.messages.is_empty() {
            self.requested.wait_until(&mut state, until);
        }
        state.messages.pop_front()
    }

    /// The next message, waiting until the mailbox is closed.
    pub(crate) fn wait(&self) -> Option<M> {
        let mut state = self.state.lock();
        self.requested.wait_while(&mut state, |state| state.messages.is_empty() && !state.is_over);
        state.messages.pop_front()
    }

    /// The thread has handled the current message.
    pub(crate) fn answer(&self) {
        self.state.lock().answered += 1;
        self.answered.notify_all();
    }

    pub(crate) fn close(&self) {
        self.state.lock().is_over = true;
        self.requested.notify_all();
        self.answered.notify_all();
    }
}

/// Counters of launching threads, reported in the same way by all backends.
#[derive(Debug, Default)]
pub(crate) struct LaunchCounts {
    launches: AtomicU64,
    captured: AtomicU64,
    no_event_left: AtomicU64,
    on_callback_thread: AtomicU64,
    refused: AtomicU64,
    /// The code of the first failed call; later errors follow from it.
    first_error: AtomicI32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NotTimed {
    Captured,
    NoEventLeft,
    /// The launch was on one of CUDA's own threads.
    OnCallbackThread,
    Refused(i32),
}

pub(crate) struct Reported {
    pub(crate) launches: u64,
    pub(crate) not_timed: u64,
    pub(crate) error: Option<i32>,
}

impl LaunchCounts {
    #[inline]
    pub(crate) fn launch(&self) {
        self.launches.fetch_add(1, Ordering::Relaxed);
    }

    #[cold]
    pub(crate) fn not_timed(&self, why: NotTimed) {
        let counter = match why {
            NotTimed::Captured => &self.captured,
            NotTimed::NoEventLeft => &self.no_event_left,
            NotTimed::OnCallbackThread => &self.on_callback_thread,
            NotTimed::Refused(code) => {
                let relaxed = Ordering::Relaxed;
                let _is_first = self.first_error.compare_exchange(0, code, relaxed, relaxed);
                &self.refused
            }
        };
        counter.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn report(&self, out: &mut dyn Output) -> Reported {
        let mut report = |counter: &AtomicU64, count| {
            let more = counter.swap(0, Ordering::Relaxed);
            if more > 0 {
                out.count(count, more);
            }
            more
        };
        let refused = report(&self.refused, GpuCount::Refused);
        let not_timed = refused
            + report(&self.captured, GpuCount::Captured)
            + report(&self.no_event_left, GpuCount::NoEventLeft)
            + report(&self.on_callback_thread, GpuCount::OnCallbackThread);
        Reported {
            not_timed,
            // Read last: a launch is counted before it is counted as not timed.
            launches: report(&self.launches, GpuCount::Launches),
            error: (refused > 0).then(|| self.first_error.load(Ordering::Relaxed)),
        }
    }
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Launch {
    /// NCCL's event: a KernelLaunch, or a CeColl, which copy engines execute.
    pub(crate) id: EventId,
    /// The stream's handle; 0 for the default stream, or if NCCL does not report the stream.
    pub(crate) stream: u64,
}

/// A way to time GPU work: when it is called, and what it must not do.
pub(crate) trait Backend: Send + Sync {
    /// On the worker thread. The thread that makes a communicator waits for this call, for a bounded time.
    fn communicator_begins(&self, _communicator: u64, _device: DeviceContext, _out: &mut dyn Output) {}

    /// On the worker thread. The thread that destroys a communicator waits, until shortly after `deadline`. After a
    /// device's last communicator has ended, the backend must not touch anything that it made there.
    fn communicator_ends(&self, _communicator: u64, _out: &mut dyn Output, _deadline: Instant) {}

    /// On the launching thread, just before the launch. Must not lock, log, panic, or allocate after warm-up.
    fn begins(&self, launch: Launch);

    /// As [`Self::begins`], on the thread that stops the event. Another thread's event may only be counted.
    fn ends(&self, id: EventId);

    /// On the worker thread, once in every [`Self::pace`]: records the results available so far.
    fn collect(&self, out: &mut dyn Output);

    /// How long the worker sleeps between two calls of [`Self::collect`].
    fn pace(&self) -> Duration {
        Duration::from_millis(500)
    }

    /// On the worker thread, as the last call, when recording has ended: records what becomes available before
    /// `deadline`. The thread that closes the session waits until shortly after the deadline. After this call the
    /// backend must not call CUDA or CUPTI.
    fn finish(&self, out: &mut dyn Output, deadline: Instant);
}

/// The destination of records: the worker's slot of the journal. Devices, clocks, counts and notices go to the
/// maintenance thread's slot, which flight recordings keep.
pub(crate) trait Output {
    /// Writes a record at `ticks`; [`GpuRecord`] documents the meaning of `id`.
    fn record(&mut self, ticks: u64, id: u64, record: &GpuRecord<Name<'_>>);

    fn count(&mut self, count: GpuCount, more: u64);

    /// Writes a line to the log and to the archive. `backend` is in use from now on.
    fn notice(&mut self, backend: BackendKind, text: &str);

    /// As [`Self::notice`], but as a warning: something went wrong.
    fn fault(&mut self, backend: BackendKind, text: &str);
}

/// The devices that communicators use, as far as they have been described.
#[derive(Debug, Default)]
pub(crate) struct Devices {
    described: Vec<u32>,
}

impl Devices {
    /// Records a communicator's device, and describes the device if it is new.
    pub(crate) fn note(&mut self, driver: &Driver, communicator: u64, ordinal: u32, out: &mut dyn Output) {
        if !self.described.contains(&ordinal) {
            self.described.push(ordinal);
            describe(driver, ordinal, out);
        }
        let record = GpuRecord::DeviceOfCommunicator { ordinal };
        out.record(ticks(), communicator, &record);
    }
}

/// Records the driver's description of a device. Unknown values are zero.
fn describe(driver: &Driver, ordinal: u32, out: &mut dyn Output) {
    let name = driver.device_name(ordinal).unwrap_or_default();
    let has_mig_name = name.to_string_lossy().contains(" MIG ");
    let whole = driver.device_uuid(ordinal);
    let instance = driver.instance_uuid(ordinal);
    // Only the newer function returns UUIDs of MIG instances.
    let is_instance = matches!((&whole, &instance), (Ok(whole), Ok(instance)) if whole != instance);
    let number = |attribute| driver.attribute(attribute, ordinal).unwrap_or(0);
    let small = |attribute| u16::try_from(number(attribute)).unwrap_or(0);
    let byte = |attribute| u8::try_from(number(attribute)).unwrap_or(0);
    let device = Device {
        ordinal,
        is_mig: is_instance || has_mig_name,
        uuid: instance.or(whole).unwrap_or_default(),
        pci_domain: number(Attribute::CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID),
        pci_bus: byte(Attribute::CU_DEVICE_ATTRIBUTE_PCI_BUS_ID),
        pci_device: byte(Attribute::CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID),
        driver_version: driver.version().unwrap_or(0),
        compute_capability: [
            small(Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR),
            small(Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR),
        ],
        multiprocessors: number(Attribute::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT),
        name: Name::from_cstr(&name),
    };
    out.record(ticks(), 0, &GpuRecord::Device(device));
}
