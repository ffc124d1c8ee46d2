//! Looks at the command's processes until one records, because an entrypoint, a container or the program may have set
//! the plugin's variable anew, and handles signals while the command runs. /proc shows the variables with which a
//! process began, and the files that it has mapped.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use std::{fs, io, thread};

use crate::plugin_slot::{CHAIN, Variables};
use archive::part_directories;
use rustix::process::{Pid, Signal, kill_process};
use settings::PLUGIN;
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2};
use signal_hook::flag;
use signal_hook::iterator::SignalsInfo;
use signal_hook::iterator::backend::Handle;
use signal_hook::iterator::exfiltrator::origin::WithOrigin;
use signal_hook::low_level::siginfo::Cause;

/// Limits on the pause between two looks at the processes, which is a tenth of the time that has passed.
const SHORTEST: Duration = Duration::from_millis(50);
const LONGEST: Duration = Duration::from_secs(10);

/// The variables that the command's processes should have.
pub(super) struct ExpectedVariables {
    plugin: OsString,
    /// Whether this project's plugin loads other profiler plugins.
    is_chained: bool,
    out: PathBuf,
}

pub(super) struct ProcessWatch {
    is_over: Arc<AtomicBool>,
    thread: JoinHandle<Option<StrayProcess>>,
}

/// A process that did not have the variables or the plugin that were set for it.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct StrayProcess {
    process: i32,
    program: String,
    /// How the process differs. Values are ordered by certainty, the most certain one last.
    how: Difference,
}

#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Difference {
    /// The variable has another value, and NCCL is not seen in the process.
    Set(String),
    SetForNccl(String),
    RemovedForNccl,
    Loaded(PathBuf),
}

impl ExpectedVariables {
    pub(super) fn new(command: &Command, out: &Path) -> Self {
        let given = |name: &str| command.get_envs().find(|(known, _)| *known == name).and_then(|(_, value)| value);
        let is_chained = given(CHAIN).is_some() || Variables::from_environment().get(CHAIN).is_some();
        Self { plugin: given(PLUGIN).unwrap_or_default().to_owned(), is_chained, out: out.to_owned() }
    }

    /// Starts to look at the processes on a new thread. Returns `None` if no thread can be started.
    pub(super) fn begin(self, process: Pid) -> Option<ProcessWatch> {
        let is_over = Arc::new(AtomicBool::new(false));
        let ends = Arc::clone(&is_over);
        let looks = move || self.look_until(process.as_raw_nonzero().get(), &ends);
        let thread = thread::Builder::new().name("processes".to_owned()).spawn(looks).ok()?;
        Some(ProcessWatch { is_over, thread })
    }

    fn look_until(&self, root: i32, is_over: &AtomicBool) -> Option<StrayProcess> {
        let began = Instant::now();
        let mut strayed = None;
        while !is_over.load(Ordering::Relaxed) {
            let is_recorded = part_directories(&self.out).is_ok_and(|parts| !parts.is_empty());
            self.look(root, &mut strayed);
            if is_recorded {
                break;
            }
            thread::park_timeout((began.elapsed() / 10).clamp(SHORTEST, LONGEST));
        }
        strayed
    }

    /// Looks at a process and all below it.
    fn look(&self, root: i32, strayed: &mut Option<StrayProcess>) {
        let mut left = vec![root];
        while let Some(process) = left.pop() {
            left.extend(children(process));
            let Some(how) = self.find_difference(process) else { continue };
            if strayed.as_ref().is_none_or(|known| known.how < how) {
                let program = fs::read_to_string(format!("/proc/{process}/comm")).unwrap_or_default();
                *strayed = Some(StrayProcess { process, program: program.trim_end().to_owned(), how });
            }
        }
    }

    fn find_difference(&self, process: i32) -> Option<Difference> {
        let environment = fs::read(format!("/proc/{process}/environ")).ok().filter(|bytes| !bytes.is_empty())?;
        let maps = fs::read(format!("/proc/{process}/maps")).unwrap_or_default();
        let maps = String::from_utf8_lossy(&maps);
        let files = || maps.lines().filter_map(|line| line.split_once('/')).map(|(_, path)| Path::new(path));
        let is_named = |file: &&Path, names: [&str; 2]| {
            let name = file.file_name().map(OsStr::to_string_lossy);
            name.is_some_and(|name| names.iter().any(|prefix| name.starts_with(prefix)))
        };
        let ours = Path::new(&self.plugin).file_name().unwrap_or_default().to_string_lossy();
        let is_other = |file: &&Path| !is_named(file, [&ours; 2]) && !self.is_chained;
        let mut profilers = files().filter(|file| is_named(file, ["libnccl-profiler", "librccl-profiler"]));
        if let Some(file) = profilers.find(is_other) {
            return Some(Difference::Loaded(Path::new("/").join(file)));
        }
        let mut variables = environment.split(|byte| *byte == 0).map(OsStr::from_bytes);
        let value = variables.find_map(|variable| {
            variable.as_bytes().strip_prefix(PLUGIN.as_bytes())?.strip_prefix(b"=").map(OsStr::from_bytes)
        });
        let has_nccl = || files().any(|file| is_named(&file, ["libnccl.so", "librccl.so"]));
        match value {
            Some(value) if value == self.plugin => None,
            None => has_nccl().then_some(Difference::RemovedForNccl),
            Some(value) if has_nccl() => Some(Difference::SetForNccl(value.to_string_lossy().into_owned())),
            Some(value) => Some(Difference::Set(value.to_string_lossy().into_owned())),
        }
    }
}

impl ProcessWatch {
    pub(super) fn end(self) -> Option<StrayProcess> {
        self.is_over.store(true, Ordering::Relaxed);
        self.thread.thread().unpark();
        self.thread.join().ok().flatten()
    }
}

impl StrayProcess {
    /// Whether the process used NCCL, so that the difference explains why nothing was recorded.
    pub(super) fn used_nccl(&self) -> bool {
        !matches!(self.how, Difference::Set(_))
    }
}

impl std::fmt::Display for StrayProcess {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let who = format!("process {} ({})", self.process, self.program);
        match &self.how {
            Difference::Set(value) | Difference::SetForNccl(value) => {
                write!(out, "{PLUGIN} was changed to {value} in the {who}")
            }
            Difference::RemovedForNccl => write!(out, "{PLUGIN} was removed from the environment of the {who}"),
            Difference::Loaded(file) => {
                write!(out, "NCCL in the {who} has loaded another profiler, {}", file.display())
            }
        }
    }
}

fn children(process: i32) -> Vec<i32> {
    let threads = fs::read_dir(format!("/proc/{process}/task")).into_iter().flatten().flatten();
    let lists = threads.filter_map(|thread| fs::read_to_string(thread.path().join("children")).ok());
    lists.flat_map(|list| list.split_whitespace().filter_map(|id| id.parse().ok()).collect::<Vec<_>>()).collect()
}

/// Includes SIGUSR1 and SIGUSR2, with which batch systems announce the end of the time limit.
const SIGNALS: [i32; 6] = [SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2];

/// Handles signals while the command runs: the command gets them, and this tool stays to make the archive. Signals are
/// caught from the creation on, and passed on once the command's process is known.
///
/// A terminal sends a signal to the whole foreground process group, so the command gets it directly. A signal that a
/// process sent to this tool (`kill`, `timeout`, a batch system) is passed on. Once the command has ended, a signal
/// ends the wait for its last processes; after that, signals act on this tool again.
pub(crate) struct Signals {
    signals: SignalsInfo<WithOrigin>,
    command_is_over: Arc<AtomicBool>,
}

pub(crate) struct Interrupted {
    command_is_over: Arc<AtomicBool>,
    is_signalled: Arc<AtomicBool>,
}

pub(crate) struct Forwarding {
    handle: Handle,
    thread: Option<JoinHandle<()>>,
    command_is_over: Arc<AtomicBool>,
}

impl Signals {
    /// Catches all signals that are not ignored: `nohup` ignores one, for the command too.
    pub(crate) fn catch() -> io::Result<Self> {
        let ignored = ignored_signals();
        let caught: Vec<i32> = SIGNALS.into_iter().filter(|signal| ignored >> (signal - 1) & 1 == 0).collect();
        let command_is_over = Arc::new(AtomicBool::new(false));
        for signal in &caught {
            flag::register_conditional_default(*signal, Arc::clone(&command_is_over))?;
        }
        Ok(Self { signals: SignalsInfo::new(&caught)?, command_is_over })
    }

    /// Passes signals on to a process that exists until [`Forwarding::end`].
    pub(crate) fn forward_to(self, process: Pid) -> io::Result<Forwarding> {
        let Self { mut signals, command_is_over } = self;
        let handle = signals.handle();
        let thread = thread::Builder::new().name("signals".to_owned()).spawn(move || {
            for origin in signals.forever() {
                let from_terminal = matches!(origin.cause, Cause::Kernel);
                if let (false, Some(signal)) = (from_terminal, Signal::from_named_raw(origin.signal)) {
                    // The process may have just ended; then it needs no signal.
                    let _already_over = kill_process(process, signal);
                }
            }
        })?;
        Ok(Forwarding { handle, thread: Some(thread), command_is_over })
    }
}

impl Forwarding {
    /// Stops forwarding. Later signals are recorded until the returned value is dropped.
    pub(crate) fn end(mut self) -> Interrupted {
        let is_signalled = Arc::new(AtomicBool::new(false));
        let ignored = ignored_signals();
        for signal in [SIGHUP, SIGINT, SIGTERM].into_iter().filter(|signal| ignored >> (signal - 1) & 1 == 0) {
            // If registering fails, the wait is not cut short.
            let _not_noticed = flag::register(signal, Arc::clone(&is_signalled));
        }
        self.handle.close();
        if let Some(thread) = self.thread.take() {
            let _panicked = thread.join();
        }
        Interrupted { command_is_over: self.command_is_over, is_signalled }
    }
}

impl Interrupted {
    pub(crate) fn is_signalled(&self) -> bool {
        self.is_signalled.load(Ordering::SeqCst)
    }
}

impl Drop for Interrupted {
    fn drop(&mut self) {
        self.command_is_over.store(true, Ordering::SeqCst);
    }
}

/// The signals that this process ignores; bit 0 is signal 1.
fn ignored_signals() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0)
}
