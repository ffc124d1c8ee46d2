//! Describes the GPUs, and times on them what NCCL launches (`docs/GPU.md`).
//!
//! ```text
//!   launching thread   callbacks ── backend: cupti/ (CUPTI's records) or events/ (CUDA events)
//!   worker thread      chooses the backend, collects from it, writes its records (output)
//!   init, finalize     send messages to the worker, and wait for a bounded time
//! ```
//!
//! The plugin calls CUDA without holding a lock, and never in a forked child or on one of CUDA's own threads. It makes
//! no CUDA calls with `NCCL_OTF2_GPU=off` or if no driver is loaded.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::gpu::cupti::{NotUsed, OpenedCupti};
use crate::gpu::driver::{CudaError, Driver};
use crate::gpu::events::Events;
use crate::gpu::output::{Backend, Devices, JournalOutput, Launch, Mailbox, Message, Output};
use crate::host::threads::{Current, Shares, ThreadShare};
use crate::host::{process, threads};
use cupti_sys::mapped::Mapped;
use cupti_sys::other_user;
use journal::clock::ticks;
use journal::writer::{JournalWriter, SharedSlotWriter};
use nccl_events::gpu::{Backend as BackendKind, GpuRecord};
use nccl_events::ids::EventId;
use nccl_events::{Kind, Name, Table, event};
use parking_lot::Mutex;
use settings::Verbosity;
use settings::config::{BackendChoice, CuptiKernels, GpuSettings, without_all_kernels};

mod cupti;
mod driver;
mod events;
mod output;

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
        let Some(driver) = Driver::find_loaded() else {
            let without_driver =
                GpuEnvironment { maps: &[], environment: &[], driver: None, table, mask, is_cupti_ours: false };
            let Decision { backend, line, is_fault } = choose_backend(settings.backend, &without_driver);
            output.log_notice(backend, &line, is_fault);
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
                process::warn(&format!("GPU work is not timed: cannot start a thread: {error}"));
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
        close();
        let thread = self.thread.lock().take();
        if has_ended {
            let _panicked = thread.map(JoinHandle::join);
        } else {
            let text = c"the CUDA driver did not answer at the end: times of the last launches are missing";
            let notice = GpuRecord::Notice { backend: BackendKind::Off, text: Name::from_cstr(text) };
            let _has_room = self.notes.put(ticks(), 0, &notice);
            process::warn(&text.to_string_lossy());
        }
    }
}

// The worker thread makes all CUDA calls except those around launches. A hanging driver must not delay the program's
// communicators or its exit for longer than the program's own calls hang. So other threads send messages to the worker
// ([`Mailbox`]).

/// How often counts are written, in case the process is killed.
const COUNTS_INTERVAL: Duration = Duration::from_secs(1);

/// Answers all waiting threads when the worker ends, even if it panics.
struct WorkerEnd {
    mailbox: Arc<Mailbox<Message>>,
    is_closed: Arc<AtomicBool>,
}

impl Drop for WorkerEnd {
    fn drop(&mut self) {
        close_own(&self.is_closed);
        self.mailbox.close();
    }
}

pub(crate) struct Worker {
    pub(crate) mailbox: Arc<Mailbox<Message>>,
    pub(crate) driver: Driver,
    pub(crate) settings: GpuSettings,
    pub(crate) table: Table,
    pub(crate) mask: u32,
    pub(crate) output: JournalOutput,
    /// Set when the session has ended, perhaps without waiting for the worker.
    pub(crate) is_closed: Arc<AtomicBool>,
}

struct RunningBackend {
    kind: BackendKind,
    backend: Option<Arc<dyn Backend>>,
    devices: Devices,
    has_reported_unknown_device: bool,
}

impl Worker {
    pub(crate) fn run(mut self) {
        let _ending = WorkerEnd { mailbox: Arc::clone(&self.mailbox), is_closed: Arc::clone(&self.is_closed) };
        // Missing before CUDA 10.1, on which no NCCL that reports launches runs.
        let _old_driver = self.driver.relax_captures();
        let (kind, backend) = self.begin();
        if let Some(line) = without_all_kernels(self.settings.kernels, kind) {
            self.output.log_notice(kind, line, true);
        }
        if let Some(backend) = &backend {
            open(Arc::clone(backend), &self.is_closed);
        }
        let mut running =
            RunningBackend { kind, backend, devices: Devices::default(), has_reported_unknown_device: false };
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

    fn handle(&mut self, running: &mut RunningBackend, message: Message) {
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
                close_own(&self.is_closed);
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
        let Decision { backend: kind, line, is_fault } = choose_backend(
            self.settings.backend,
            &GpuEnvironment {
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
                self.output.log_notice(kind, &line, is_fault);
                (kind, None)
            }
            BackendKind::Events => {
                self.output.log_notice(kind, &line, is_fault);
                (kind, Some(events()))
            }
            BackendKind::Cupti => match self.begin_cupti(&environment) {
                Ok(OpenedCupti { backend, description }) => {
                    self.output.notice(kind, &format!("{line}: {description}"));
                    (kind, Some(backend))
                }
                Err(why) => {
                    let text = format!("GPU work is timed by CUDA events, not by CUPTI: {why}");
                    let is_fault = self.settings.backend == BackendChoice::Cupti;
                    self.output.log_notice(BackendKind::Events, &text, is_fault);
                    (BackendKind::Events, Some(events()))
                }
            },
        }
    }

    fn begin_cupti(&self, environment: &[(String, String)]) -> Result<OpenedCupti, NotUsed> {
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

// CUPTI reports most, but in most releases it serves one tool at a time, and a second tool can lose its records without
// an error. So the plugin does not use CUPTI if another tool uses it or may use it later. CUDA events do not disturb
// other tools.

#[derive(Clone, Copy, Debug)]
pub(crate) struct GpuEnvironment<'a> {
    pub(crate) maps: &'a [String],
    pub(crate) environment: &'a [(String, String)],
    /// The result of asking for the driver's version; `None` without a driver.
    pub(crate) driver: Option<Result<u32, CudaError>>,
    pub(crate) table: Table,
    pub(crate) mask: u32,
    /// Whether an earlier session of the plugin loaded CUPTI.
    pub(crate) is_cupti_ours: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Decision {
    /// The backend. If CUPTI is chosen but cannot be opened, the worker uses events.
    pub(crate) backend: BackendKind,
    pub(crate) line: String,
    /// Whether every user must read it.
    pub(crate) is_fault: bool,
}

pub(crate) fn choose_backend(choice: BackendChoice, process: &GpuEnvironment<'_>) -> Decision {
    if let Some((why, is_fault)) = obstacle(choice, process) {
        return Decision { backend: BackendKind::Off, line: format!("GPU work is not timed: {why}"), is_fault };
    }
    let (backend, line) = match (choice, other_user(process.maps, process.environment, process.is_cupti_ours)) {
        (BackendChoice::Events, _) => {
            (BackendKind::Events, "GPU work is timed by CUDA events, as NCCL_OTF2_GPU=events says".to_owned())
        }
        (BackendChoice::Auto, Some((who, sign))) => (
            BackendKind::Events,
            format!(
                "GPU work is timed by CUDA events and not by CUPTI, which {who} may use ({sign}); \
                NCCL_OTF2_GPU=cupti uses CUPTI regardless"
            ),
        ),
        (BackendChoice::Cupti, Some((who, sign))) => (
            BackendKind::Cupti,
            format!(
                "GPU work is timed by CUPTI, as NCCL_OTF2_GPU=cupti says; {who} ({sign}) may now get nothing from CUPTI"
            ),
        ),
        _ => (BackendKind::Cupti, "GPU work is timed by CUPTI (NCCL_OTF2_GPU=events does without)".to_owned()),
    };
    Decision { backend, line, is_fault: false }
}

/// The reason why nothing can be timed, and whether every user must read it.
fn obstacle(choice: BackendChoice, process: &GpuEnvironment<'_>) -> Option<(String, bool)> {
    let launches = Kind::KernelLaunch.mask() | Kind::CeColl.mask();
    let is_wanted = matches!(choice, BackendChoice::Cupti | BackendChoice::Events);
    let (why, is_fault) = match process.driver {
        _ if choice == BackendChoice::Off => ("NCCL_OTF2_GPU=off", false),
        None => ("no libcuda.so.1 is loaded in this process", is_wanted),
        Some(Err(CudaError::STUB_LIBRARY)) => (
            "the loaded libcuda.so.1 is a CUDA toolkit's stub for linking; remove its directory from LD_LIBRARY_PATH, \
            or set NCCL_OTF2_GPU=off",
            true,
        ),
        Some(Err(refusal)) => {
            return Some((format!("libcuda.so.1 does not answer: {refusal}; NCCL_OTF2_GPU=off silences this"), true));
        }
        Some(Ok(_)) if !event::has(process.table, Kind::KernelLaunch) => {
            ("this NCCL does not report its launches; 2.28 and later does", is_wanted)
        }
        Some(Ok(_)) if process.mask & launches == 0 => ("NCCL_OTF2_EVENTS leaves out KernelLaunch", is_wanted),
        Some(Ok(_)) => return None,
    };
    Some((why.to_owned(), is_fault))
}

#[unsafe(link_section = ".data.hot")]
static BACKEND: Current<Arc<dyn Backend>> = Current::none();

struct BackendShare(Arc<dyn Backend>);

impl ThreadShare for BackendShare {
    type Instance = Arc<dyn Backend>;
    type ThreadState = ();
    const CURRENT: &'static Current<Self::Instance> = &BACKEND;

    fn new(backend: Self::Instance, _kept: &()) -> Self {
        Self(backend)
    }
}

static BACKEND_SHARES: Shares<BackendShare> = Shares::new();

const LAUNCHES: u32 = Kind::KernelLaunch.mask() | Kind::CeColl.mask();

/// NCCL is about to launch work under this event.
#[inline]
pub(crate) fn launch_begins(id: EventId, stream: u64) {
    if BACKEND.is_on() && !id.is_none() && !id.is_unrecorded() {
        with_backend(|backend| backend.begins(Launch { id, stream }));
    }
}

/// An event has ended; if it was a launch event, NCCL has launched the work.
#[inline]
pub(crate) fn event_ends(id: EventId) {
    if id.is_of(LAUNCHES) && BACKEND.is_on() {
        with_backend(|backend| backend.ends(id));
    }
}

#[inline(never)]
fn with_backend(action: impl FnOnce(&dyn Backend)) {
    let _done = threads::with(&BACKEND_SHARES, |held| action(&*held.0));
}

/// The worker's backend is on from now on, unless the session has ended without waiting for the worker.
pub(crate) fn open(backend: Arc<dyn Backend>, is_closed: &AtomicBool) {
    BACKEND.begin_if(backend, || !is_closed.load(Ordering::Acquire));
}

/// The worker ends. If the session has ended without waiting for it, the backend that is on is another worker's.
pub(crate) fn close_own(is_closed: &AtomicBool) {
    drop(BACKEND.end_if(|| !is_closed.load(Ordering::Acquire)));
}

/// The session ends.
pub(crate) fn close() {
    drop(BACKEND.end());
}

/// Turns the backend off without taking a lock: for a forked child.
pub(crate) fn disable() {
    BACKEND.disable();
}

#[cfg(test)]
mod tests {
    use super::*;
    use settings::STANDARD;

    const PLAIN: GpuEnvironment<'_> = GpuEnvironment {
        maps: &[],
        environment: &[],
        driver: Some(Ok(12080)),
        table: Table::V5,
        mask: STANDARD,
        is_cupti_ours: false,
    };

    fn decided(choice: BackendChoice, file: &str, (name, value): (&str, &str), is_cupti_ours: bool) -> Decision {
        let maps = ["/usr/lib/libcuda.so.1", "/usr/lib/libcudart.so.12", file].map(str::to_owned);
        let environment = [("PATH", "/opt/nsys/bin"), (name, value)].map(|(name, value)| (name.into(), value.into()));
        choose_backend(choice, &GpuEnvironment { maps: &maps, environment: &environment, is_cupti_ours, ..PLAIN })
    }

    #[test]
    fn cupti_is_left_to_another_tool_unless_the_user_wants_it() {
        let file = |file, who| (file, ("", ""), who);
        let variable = |name, value| ("", (name, value), name);
        for (file, variable, who) in [
            file("/opt/torch/lib/libtorch_cuda.so", "PyTorch"),
            file("/opt/torch/lib/libtorch_cpu.so", "PyTorch"),
            file("/usr/lib/libcupti.so.12", "loaded libcupti"),
            file("/usr/lib/libcupti.so.2025.1.0", "loaded libcupti"),
            file("/usr/lib/libscorep_adapter_cuda_event_with_a_long_name.so.12.34.56", "Score-P"),
            file("/opt/tau/libTAU.so", "TAU"),
            file("/opt/nsys/libToolsInjection64.so", "Nsight Systems"),
            file("/opt/cuda/libsanitizer-collection.so", "Sanitizer"),
            variable("CUDA_INJECTION64_PATH", "/opt/nsys/libToolsInjection64.so"),
            variable("NSYS_PROFILING_SESSION_ID", "4711"),
            variable("LD_PRELOAD", "/opt/nsys/libToolsInjectionProxy64.so"),
            variable("SCOREP_CUDA_ENABLE", "yes"),
            variable("KINETO_USE_DAEMON", "1"),
            variable("TAU_CUPTI_API", "runtime"),
            variable("NV_COMPUTE_PROFILER_PERFWORKS_DIR", "/opt/ncu"),
        ] {
            let sign = if file.is_empty() { variable.0 } else { file.rsplit('/').next().unwrap() };
            let auto = decided(BackendChoice::Auto, file, variable, false);
            assert_eq!((auto.backend, auto.is_fault), (BackendKind::Events, false), "{sign}");
            let wanted = decided(BackendChoice::Cupti, file, variable, false);
            assert_eq!(wanted.backend, BackendKind::Cupti, "{sign}");
            for line in [auto.line, wanted.line] {
                assert!([who, sign, "NCCL_OTF2_GPU=cupti"].iter().all(|text| line.contains(text)), "{line}");
                assert!(line.len() <= Name::MAX_BYTES, "it fits into the journal: {line}");
            }
            assert_eq!(decided(BackendChoice::Off, file, variable, false).backend, BackendKind::Off);
        }
        for (file, variable, is_cupti_ours) in [
            ("/opt/torch/nvidia/nccl/lib/libnccl.so.2", ("CUDA_INJECTION64_PATH", "none"), false),
            ("/home/user/libcupti.so.d/liba.so", ("CUDA_INJECTION64_PATH", ""), false),
            ("", ("SCOREP_CUDA_ENABLE", "no"), false),
            ("", ("KINETO_USE_DAEMON", "0"), false),
            ("", ("LD_PRELOAD", "/usr/lib/libjemalloc.so.2"), false),
            ("", ("MY_NSYS_PATH", "/opt/nsys"), false),
            ("/usr/lib/libcupti.so.13", ("", ""), true),
        ] {
            let decision = decided(BackendChoice::Auto, file, variable, is_cupti_ours);
            let expected = (BackendKind::Cupti, false);
            assert_eq!((decision.backend, decision.is_fault), expected, "{file} {variable:?}");
            let events = decided(BackendChoice::Events, file, variable, is_cupti_ours);
            assert_eq!(events.backend, BackendKind::Events, "{file} {variable:?}");
        }
    }

    #[test]
    fn what_cannot_be_timed_is_not_and_the_line_says_why() {
        let no_driver = GpuEnvironment { driver: None, ..PLAIN };
        let stub = GpuEnvironment { driver: Some(Err(CudaError::STUB_LIBRARY)), ..PLAIN };
        let mismatch = GpuEnvironment { driver: Some(Err(CudaError(803))), ..PLAIN };
        let old = GpuEnvironment { table: Table::V4, ..PLAIN };
        let few = GpuEnvironment { mask: Kind::Coll.mask(), ..PLAIN };
        // A user who asked for timing gets a warning; others only if something is wrong.
        for (process, text, is_fault) in [
            (no_driver, "no libcuda.so.1 is loaded", false),
            (stub, "LD_LIBRARY_PATH", true),
            (mismatch, "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH (803)", true),
            (old, "2.28", false),
            (few, "NCCL_OTF2_EVENTS", false),
        ] {
            for choice in [BackendChoice::Auto, BackendChoice::Cupti, BackendChoice::Events] {
                let decision = choose_backend(choice, &process);
                assert_eq!(decision.backend, BackendKind::Off, "{text}");
                assert!(decision.line.contains(text), "{}", decision.line);
                let is_asked_for = choice != BackendChoice::Auto;
                assert_eq!(decision.is_fault, is_fault || is_asked_for, "{text}");
            }
        }
    }
}
