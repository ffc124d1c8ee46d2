//! The worker thread, which makes all CUDA calls except those around launches.
//!
//! A hanging driver must not delay the program's communicators or its exit for longer than the program's own calls
//! hang. So other threads send messages to the worker ([`Mailbox`]).

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use cupti_sys::load::Mapped;

use super::backend::{Backend, Output};
use super::cupti::{self, NotUsed, Opened};
use super::decide::{Decision, Surroundings, decide};
use super::devices::Devices;
use super::driver::Driver;
use super::events::Events;
use super::facade;
use super::mailbox::{Mailbox, Message};
use super::output::JournalOutput;
use nccl_events::gpu::Backend as BackendKind;
use nccl_events::{Kind, Table, event};
use settings::config::{BackendChoice, CuptiKernels, GpuSettings, without_all_kernels};

/// How often counts are written, in case the process is killed.
const COUNTS_INTERVAL: Duration = Duration::from_secs(1);

/// Answers all waiting threads when the worker ends, even if it panics.
struct Ending {
    mailbox: Arc<Mailbox<Message>>,
    is_closed: Arc<AtomicBool>,
}

impl Drop for Ending {
    fn drop(&mut self) {
        facade::close_own(&self.is_closed);
        self.mailbox.close();
    }
}

pub(super) struct Worker {
    pub(super) mailbox: Arc<Mailbox<Message>>,
    pub(super) driver: Driver,
    pub(super) settings: GpuSettings,
    pub(super) table: Table,
    pub(super) mask: u32,
    pub(super) output: JournalOutput,
    /// Set when the session has ended, perhaps without waiting for the worker.
    pub(super) is_closed: Arc<AtomicBool>,
}

struct Running {
    kind: BackendKind,
    backend: Option<Arc<dyn Backend>>,
    devices: Devices,
    has_reported_unknown_device: bool,
}

impl Worker {
    pub(super) fn run(mut self) {
        let _ending = Ending { mailbox: Arc::clone(&self.mailbox), is_closed: Arc::clone(&self.is_closed) };
        // Missing before CUDA 10.1, on which no NCCL that reports launches runs.
        let _old_driver = self.driver.relax_captures();
        let (kind, backend) = self.begin();
        if let Some(line) = without_all_kernels(self.settings.kernels, kind) {
            self.output.say(kind, line, true);
        }
        if let Some(backend) = &backend {
            facade::open(Arc::clone(backend), &self.is_closed);
        }
        let mut running = Running { kind, backend, devices: Devices::default(), has_reported_unknown_device: false };
        let mut counts_due = Instant::now() + COUNTS_INTERVAL;
        loop {
            let pace = match &running.backend {
                Some(backend) => backend.pace(),
                None => Duration::from_secs(3600),
            };
            match self.mailbox.next(Instant::now() + pace) {
                Some(message) => {
                    let is_last = matches!(message, Message::Finish { .. });
                    self.handle(&mut running, message);
                    self.mailbox.answer();
                    if is_last {
                        return;
                    }
                }
                None => {
                    if let Some(backend) = &running.backend {
                        backend.collect(&mut self.output);
                    }
                }
            }
            if Instant::now() >= counts_due {
                counts_due = Instant::now() + COUNTS_INTERVAL;
                self.output.put_counts();
            }
        }
    }

    fn handle(&mut self, running: &mut Running, message: Message) {
        let output = &mut self.output;
        match message {
            Message::Begins { communicator, device: Ok(device) } => {
                let ordinal = device.ordinal;
                running.devices.note(&self.driver, communicator, ordinal, output);
                if let Some(backend) = &running.backend {
                    backend.communicator_begins(communicator, device, output);
                }
            }
            Message::Begins { device: Err(error), .. } => {
                if !std::mem::replace(&mut running.has_reported_unknown_device, true) {
                    // CUPTI times launches on every device.
                    let effect = match running.kind {
                        BackendKind::Events => ", and its launches are not timed",
                        BackendKind::Off | BackendKind::Cupti => "",
                    };
                    let text = format!("the device of a communicator is not known{effect}: {error}");
                    output.notice(running.kind, &text);
                }
            }
            Message::Ends { communicator, deadline } => {
                if let Some(backend) = &running.backend {
                    backend.communicator_ends(communicator, output, deadline);
                }
            }
            Message::Finish { deadline } => {
                facade::close_own(&self.is_closed);
                if let Some(backend) = &running.backend {
                    backend.finish(output, deadline);
                }
                output.put_counts();
            }
        }
    }

    fn begin(&mut self) -> (BackendKind, Option<Arc<dyn Backend>>) {
        let environment: Vec<(String, String)> = std::env::vars_os()
            .map(|(name, value)| {
                let text = |text: std::ffi::OsString| text.to_string_lossy().into_owned();
                (text(name), text(value))
            })
            .collect();
        let mapped = Mapped::now();
        let maps = mapped.files().map(|file| file.display().to_string());
        let Decision { backend: kind, line, is_fault } = decide(
            self.settings.backend,
            &Surroundings {
                maps: &maps.collect::<Vec<_>>(),
                environment: &environment,
                driver: Some(self.driver.version()),
                table: self.table,
                mask: self.mask,
                is_cupti_ours: cupti::is_ours(),
            },
        );
        let events = || -> Arc<dyn Backend> { Arc::new(Events::new(self.driver)) };
        match kind {
            BackendKind::Off => {
                self.output.say(kind, &line, is_fault);
                (kind, None)
            }
            BackendKind::Events => {
                self.output.say(kind, &line, is_fault);
                (kind, Some(events()))
            }
            BackendKind::Cupti => match self.begin_cupti(&environment) {
                Ok(Opened { backend, description }) => {
                    self.output.notice(kind, &format!("{line}: {description}"));
                    (kind, Some(backend))
                }
                Err(why) => {
                    let text = format!("GPU work is timed by CUDA events, not by CUPTI: {why}");
                    let is_fault = self.settings.backend == BackendChoice::Cupti;
                    self.output.say(BackendKind::Events, &text, is_fault);
                    (BackendKind::Events, Some(events()))
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
            copies: event::has(self.table, Kind::CeColl) && self.mask & Kind::CeColl.mask() != 0,
            yields: self.settings.backend == BackendChoice::Auto,
        };
        cupti::open(settings, self.driver)
    }
}
