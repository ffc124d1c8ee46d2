//! The thread that makes all calls of CUDA's but those around launches.
//!
//! Others ask it by messages and wait for its answer a bounded time, without a lock: a driver that hangs must not hang
//! the program's communicators or its exit more than the program's own calls do.

use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use cupti_sys::mapped::Mapped;
use parking_lot::{Condvar, Mutex};

use super::book::Book;
use super::cupti::{self, NotUsed, Opened};
use super::decide::{Decision, Surroundings, decide};
use super::devices::{Devices, Place};
use super::driver::{Driver, Refusal};
use super::events::Events;
use super::facade;
use super::way::{Output, Timing};
use crate::config::gpu::{CuptiKernels, GpuSettings, Wish};
use nccl_events::Kind;
use nccl_events::gpu::Way;

/// The first interface that tells of copy-engine collectives: NCCL 2.29's.
const FIRST_WITH_COPIES: u8 = 6;
/// How often counts are recorded, for a process that is killed.
const COUNTS_INTERVAL: Duration = Duration::from_secs(1);

/// What the worker is asked.
#[derive(Clone, Copy, Debug)]
pub(super) enum Message {
    /// A communicator was made here.
    Begins {
        communicator: u64,
        place: Result<Place, Refusal>,
    },
    /// A communicator has ended.
    Ends {
        communicator: u64,
        deadline: Instant,
    },
    /// The session has ended.
    Finish { deadline: Instant },
}

/// Where it is asked.
#[derive(Debug, Default)]
pub(super) struct Mailbox {
    state: Mutex<State>,
    asked: Condvar,
    answered: Condvar,
}

#[derive(Debug, Default)]
struct State {
    messages: VecDeque<Message>,
    /// Messages that ever came, and those that were answered.
    came: u64,
    answered: u64,
    /// The worker has ended.
    is_over: bool,
}

impl Mailbox {
    /// Asks, and waits for the answer until `until`. Whether it came.
    pub(super) fn ask(&self, message: Message, until: Instant) -> bool {
        let mut state = self.state.lock();
        if state.is_over {
            return true;
        }
        state.came += 1;
        let ticket = state.came;
        state.messages.push_back(message);
        self.asked.notify_one();
        while state.answered < ticket && !state.is_over {
            if self.answered.wait_until(&mut state, until).timed_out() {
                return state.answered >= ticket || state.is_over;
            }
        }
        true
    }

    fn next(&self, until: Instant) -> Option<Message> {
        let mut state = self.state.lock();
        if state.messages.is_empty() {
            self.asked.wait_until(&mut state, until);
        }
        state.messages.pop_front()
    }

    fn answer(&self) {
        self.state.lock().answered += 1;
        self.answered.notify_all();
    }
}

/// Answers whoever waits when the worker ends, in whatever way.
struct Ending(Arc<Mailbox>);

impl Drop for Ending {
    fn drop(&mut self) {
        facade::close();
        self.0.state.lock().is_over = true;
        self.0.answered.notify_all();
    }
}

/// What the worker is given.
pub(super) struct Work {
    pub(super) mailbox: Arc<Mailbox>,
    pub(super) driver: Driver,
    pub(super) settings: GpuSettings,
    pub(super) table: u8,
    pub(super) mask: u32,
    pub(super) book: Book,
}

impl Work {
    /// The worker's life.
    pub(super) fn run(mut self) {
        let _ending = Ending(Arc::clone(&self.mailbox));
        // Refused by drivers before CUDA 10.1, which no NCCL that tells of launches runs on.
        let _old_driver = self.driver.relax_captures();
        let (way, timing) = self.begin();
        if let Some(timing) = &timing {
            facade::open(Arc::clone(timing));
        }
        let mut devices = Devices::default();
        let mut has_told = false;
        let mut counts_due = Instant::now() + COUNTS_INTERVAL;
        loop {
            let pace = timing
                .as_ref()
                .map_or(Duration::from_secs(3600), |timing| timing.pace());
            let book = &mut self.book;
            match (self.mailbox.next(Instant::now() + pace), &timing) {
                (None, Some(timing)) => timing.collect(book),
                (None, None) => {}
                (
                    Some(Message::Begins {
                        communicator,
                        place: Ok(place),
                    }),
                    timing,
                ) => {
                    devices.note(&self.driver, communicator, place.ordinal, book);
                    if let Some(timing) = timing {
                        timing.communicator_begins(communicator, place, book);
                    }
                    self.mailbox.answer();
                }
                (
                    Some(Message::Begins {
                        place: Err(refusal),
                        ..
                    }),
                    _,
                ) => {
                    if !std::mem::replace(&mut has_told, true) {
                        // CUPTI times launches wherever they are.
                        let then = match way {
                            Way::Events => ", and its launches are not timed",
                            Way::Off | Way::Cupti => "",
                        };
                        let text =
                            format!("the device of a communicator is not known{then}: {refusal}");
                        book.notice(way, &text);
                    }
                    self.mailbox.answer();
                }
                (
                    Some(Message::Ends {
                        communicator,
                        deadline,
                    }),
                    timing,
                ) => {
                    if let Some(timing) = timing {
                        timing.communicator_ends(communicator, book, deadline);
                    }
                    self.mailbox.answer();
                }
                (Some(Message::Finish { deadline }), timing) => {
                    facade::close();
                    if let Some(timing) = timing {
                        timing.finish(book, deadline);
                    }
                    book.put_counts();
                    self.mailbox.answer();
                    return;
                }
            }
            if Instant::now() >= counts_due {
                counts_due = Instant::now() + COUNTS_INTERVAL;
                self.book.put_counts();
            }
        }
    }

    /// Decides, says so, and begins what was decided: that way, and its timing.
    fn begin(&mut self) -> (Way, Option<Arc<dyn Timing>>) {
        let environment: Vec<(String, String)> = std::env::vars_os()
            .map(|(name, value)| {
                let text = |text: std::ffi::OsString| text.to_string_lossy().into_owned();
                (text(name), text(value))
            })
            .collect();
        let mapped = Mapped::now();
        let maps = mapped.files().map(|file| file.display().to_string());
        let Decision {
            way,
            line,
            is_fault,
        } = decide(
            self.settings.wish,
            &Surroundings {
                maps: &maps.collect::<Vec<_>>(),
                environment: &environment,
                driver: Some(self.driver.version()),
                table: self.table,
                mask: self.mask,
                is_cupti_ours: cupti::is_ours(),
            },
        );
        let events = || -> Arc<dyn Timing> { Arc::new(Events::new(self.driver)) };
        match way {
            Way::Off => {
                self.book.say(way, &line, is_fault);
                (way, None)
            }
            Way::Events => {
                self.book.say(way, &line, is_fault);
                (way, Some(events()))
            }
            Way::Cupti => match self.begin_cupti(&environment) {
                Ok(Opened { timing, which }) => {
                    self.book.notice(way, &format!("{line}: {which}"));
                    (way, Some(timing))
                }
                Err(why) => {
                    let text = format!("GPU work is timed by CUDA events, not by CUPTI: {why}");
                    let is_fault = self.settings.wish == Wish::Cupti;
                    self.book.say(Way::Events, &text, is_fault);
                    (Way::Events, Some(events()))
                }
            },
        }
    }

    fn begin_cupti(&self, environment: &[(String, String)]) -> Result<Opened, NotUsed> {
        let cuda_home = environment.iter().find(|(name, _)| name == "CUDA_HOME");
        let settings = cupti::Settings {
            library: self.settings.cupti_library.as_ref().map(PathBuf::from),
            cuda_home: cuda_home.map(|(_, folder)| PathBuf::from(folder)),
            all_kernels: self.settings.kernels == CuptiKernels::All,
            copies: self.table >= FIRST_WITH_COPIES && self.mask & Kind::CeColl.mask() != 0,
            yields: self.settings.wish == Wish::Auto,
        };
        cupti::open(settings, self.driver)
    }
}
