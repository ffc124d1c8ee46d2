//! Describes the GPUs, and times on them what NCCL launches (`docs/GPU.md`).
//!
//! ```text
//!   launching thread   callbacks ── facade ── backend: cupti/ (CUPTI's records) or events/ (CUDA events)
//!   worker thread      chooses the backend, collects from it, writes its records (output)
//!   init, finalize     send messages to the worker, and wait for a bounded time
//! ```
//!
//! The plugin calls CUDA without holding a lock, and never in a forked child or on one of CUDA's own threads. It makes
//! no CUDA calls with `NCCL_OTF2_GPU=off` or if no driver is loaded.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

mod backend;
mod cupti;
mod decide;
mod devices;
mod driver;
mod events;
mod facade;
mod launch_counts;
mod mailbox;
mod output;
mod worker;

use crate::host::{logger, process};
use decide::{Decision, Surroundings, decide};
use driver::Driver;
pub(crate) use facade::{disable, event_ends, launch_begins};
use journal::clock::ticks;
use journal::writer::{JournalWriter, SharedSlotWriter};
use mailbox::{Mailbox, Message};
use nccl_events::gpu::{Backend as BackendKind, GpuRecord};
use nccl_events::{Name, Table};
use output::JournalOutput;
use settings::Verbosity;
use settings::config::{BackendChoice, GpuSettings};
use worker::Worker;

/// How long `init` waits for the worker, which may have to load a library.
const BEGIN_WAIT: Duration = Duration::from_secs(2);
/// How long the end of a communicator waits for unfinished launches.
const COMMUNICATOR_END_WAIT: Duration = Duration::from_millis(200);
/// How long the end of a session waits, because the worker must turn CUPTI off.
const SESSION_END_WAIT: Duration = Duration::from_millis(500);
/// How much longer both kinds of end wait for the worker's answer.
const GRACE: Duration = Duration::from_millis(300);

pub(crate) struct Options {
    pub(crate) settings: GpuSettings,
    pub(crate) verbosity: Verbosity,
    pub(crate) table: Table,
    pub(crate) mask: u32,
    pub(crate) writer: Arc<JournalWriter>,
    pub(crate) notes: SharedSlotWriter,
}

#[derive(Debug)]
pub(crate) struct Gpus {
    driver: Driver,
    mailbox: Arc<Mailbox<Message>>,
    is_closed: Arc<AtomicBool>,
    notes: SharedSlotWriter,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl Gpus {
    /// Starts the worker, if the user wants timing and there is a driver. Makes no CUDA calls.
    pub(crate) fn begin(options: Options) -> Option<Self> {
        let Options { settings, verbosity, table, mask, writer, notes } = options;
        if settings.backend == BackendChoice::Off {
            return None;
        }
        let is_closed = Arc::new(AtomicBool::new(false));
        let mut output = JournalOutput::new(writer, notes.clone(), verbosity, Arc::clone(&is_closed));
        let Some(driver) = Driver::of_process() else {
            let without_driver =
                Surroundings { maps: &[], environment: &[], driver: None, table, mask, is_cupti_ours: false };
            let Decision { backend, line, is_fault } = decide(settings.backend, &without_driver);
            output.say(backend, &line, is_fault);
            return None;
        };
        let mailbox = Arc::new(Mailbox::new());
        let worker = Worker {
            mailbox: Arc::clone(&mailbox),
            driver,
            settings,
            table,
            mask,
            output,
            is_closed: Arc::clone(&is_closed),
        };
        match process::spawn(output::NAME, 512 << 10, move || worker.run()) {
            Ok(thread) => Some(Self { driver, mailbox, is_closed, notes, thread: Mutex::new(Some(thread)) }),
            Err(error) => {
                logger::warn(&format!("GPU work is not timed: no thread for it: {error}"));
                None
            }
        }
    }

    /// This thread has made a communicator. Waits until its device is recorded and its launches can be timed.
    pub(crate) fn communicator_begins(&self, communicator: u64) {
        let message = Message::Begins {
            communicator,
            // NCCL has made the communicator's device current on this thread.
            device: self.driver.current_device_context(),
        };
        let _hangs = self.mailbox.ask(message, Instant::now() + BEGIN_WAIT);
    }

    /// A communicator has ended. Waits until the backend no longer uses anything that it made on the device.
    pub(crate) fn communicator_ends(&self, communicator: u64) {
        let deadline = Instant::now() + COMMUNICATOR_END_WAIT;
        let message = Message::Ends { communicator, deadline };
        let _hangs = self.mailbox.ask(message, deadline + GRACE);
    }

    /// Ends the timing; nothing is written after that.
    pub(crate) fn end(&self) {
        let deadline = Instant::now() + SESSION_END_WAIT;
        let has_ended = self.mailbox.ask(Message::Finish { deadline }, deadline + GRACE);
        self.is_closed.store(true, Ordering::Release);
        facade::close();
        let thread = self.thread.lock().take();
        if has_ended {
            let _panicked = thread.map(JoinHandle::join);
        } else {
            let text = c"the CUDA driver did not answer at the end: times of the last launches are missing";
            let notice = GpuRecord::Notice { backend: BackendKind::Off, text: Name::from_cstr(text) };
            let _has_room = self.notes.put(ticks(), 0, &notice);
            logger::warn(&text.to_string_lossy());
        }
    }
}
