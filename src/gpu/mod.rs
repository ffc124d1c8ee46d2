//! GPUs: which there are, and when they did what NCCL launched.
//!
//! What is found out goes into the journal as [`GpuRecord`]s; the writing half makes rows of it.
//!
//! ```text
//!   launching thread   recorder ── facade ── a way (way::Timing): by CUDA events (events/), by CUPTI (cupti/)
//!   worker thread      decides on the way, keeps it going, writes down what it finds out (book)
//!   communicators      begin and end: the worker is told, and does what CUDA must do then
//! ```
//!
//! No call of CUDA's is made under a lock, in a forked child, or on a thread of CUDA's own. With `NCCL_OTF2_GPU=off`,
//! and where no driver is loaded, none is made at all.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use crate::config::Verbosity;
use crate::host::logger;
use journal::clock::ticks;
use journal::writer::Registry;
use journal::writer::SharedCursor;
use nccl_events::Name;

mod book;
mod cupti;
mod decide;
mod devices;
mod driver;
mod events;
mod facade;
mod way;
mod worker;

use crate::config::gpu::{GpuSettings, Wish};
use book::Book;
use decide::{Decision, Surroundings, decide};
use devices::Place;
use driver::Driver;
pub(crate) use facade::{disable, event_ends, launch_begins};
use nccl_events::gpu::{GpuRecord, Way};
use worker::{Mailbox, Message, Work};

/// How long the making of a communicator may wait for the worker, which may have to load a library.
const LONGEST_BEGINNING: Duration = Duration::from_secs(2);
/// How long a communicator's end may wait for launches that are under way.
const LAST_WAIT: Duration = Duration::from_millis(200);
/// How long the session's end may: CUPTI has to be turned off.
const LAST_WAIT_OF_ALL: Duration = Duration::from_millis(500);
/// And so much longer for the worker's answer.
const GRACE: Duration = Duration::from_millis(300);

/// What a session gives.
pub(crate) struct Options {
    pub(crate) settings: GpuSettings,
    pub(crate) verbosity: Verbosity,
    /// The version of NCCL's profiler interface.
    pub(crate) table: u8,
    /// What is recorded.
    pub(crate) mask: u32,
    pub(crate) registry: Arc<Registry>,
    pub(crate) notes: SharedCursor,
}

/// The recording of GPUs in one session.
#[derive(Debug)]
pub(crate) struct Gpus {
    driver: Driver,
    mailbox: Arc<Mailbox>,
    is_closed: Arc<AtomicBool>,
    notes: SharedCursor,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl Gpus {
    /// Begins it, if it is wanted and there is a driver. Calls nothing of CUDA's: that the worker does.
    pub(crate) fn begin(options: Options) -> Option<Self> {
        let Options {
            settings,
            verbosity,
            table,
            mask,
            registry,
            notes,
        } = options;
        if settings.wish == Wish::Off {
            return None;
        }
        let is_closed = Arc::new(AtomicBool::new(false));
        let mut book = Book::new(registry, notes.clone(), verbosity, Arc::clone(&is_closed));
        let Some(driver) = Driver::of_process() else {
            let there = Surroundings {
                maps: &[],
                environment: &[],
                driver: None,
                table,
                mask,
                is_cupti_ours: false,
            };
            let Decision {
                way,
                line,
                is_fault,
            } = decide(settings.wish, &there);
            book.say(way, &line, is_fault);
            return None;
        };
        let mailbox = Arc::new(Mailbox::default());
        let work = Work {
            mailbox: Arc::clone(&mailbox),
            driver,
            settings,
            table,
            mask,
            book,
        };
        let thread = journal::host::without_signals(|| {
            std::thread::Builder::new()
                .name(book::NAME.to_owned())
                .stack_size(512 * 1024)
                .spawn(move || work.run())
        });
        match thread {
            Ok(thread) => Some(Self {
                driver,
                mailbox,
                is_closed,
                notes,
                thread: Mutex::new(Some(thread)),
            }),
            Err(error) => {
                logger::warn(&format!("GPU work is not timed: no thread for it: {error}"));
                None
            }
        }
    }

    /// A communicator was made, on this thread. Waits until its device is known and its launches can be timed.
    pub(crate) fn communicator_begins(&self, communicator: u64) {
        let message = Message::Begins {
            communicator,
            place: Place::current(&self.driver),
        };
        let _hangs = self
            .mailbox
            .ask(message, Instant::now() + LONGEST_BEGINNING);
    }

    /// A communicator has ended. Waits until nothing is used any more of what was made on its device.
    pub(crate) fn communicator_ends(&self, communicator: u64) {
        let deadline = Instant::now() + LAST_WAIT;
        let message = Message::Ends {
            communicator,
            deadline,
        };
        let _hangs = self.mailbox.ask(message, deadline + GRACE);
    }

    /// Ends it: afterwards nothing more is written.
    pub(crate) fn end(&self) {
        let deadline = Instant::now() + LAST_WAIT_OF_ALL;
        let has_ended = self
            .mailbox
            .ask(Message::Finish { deadline }, deadline + GRACE);
        self.is_closed.store(true, Ordering::Release);
        facade::close();
        let thread = self.thread.lock().take();
        if has_ended {
            let _panicked = thread.map(JoinHandle::join);
        } else {
            let text = c"the CUDA driver did not answer at the end: times of the last launches are missing";
            let notice = GpuRecord::Notice {
                way: Way::Off,
                text: Name::from_cstr(text),
            };
            let _has_room = self.notes.put(ticks(), 0, &notice);
            logger::warn(&text.to_string_lossy());
        }
    }
}
