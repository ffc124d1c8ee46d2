//! Handles signals while the command runs: the command gets them, and this tool stays to make the archive.
//!
//! A terminal sends a signal to the whole foreground process group, so the command gets it directly. A signal that a
//! process sent to this tool (`kill`, `timeout`, a batch system) is passed on. Once the command has ended, a signal
//! ends the wait for its last processes; after that, signals act on this tool again.

use std::fs;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};

use rustix::process::{Pid, Signal, kill_process};
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2};
use signal_hook::flag;
use signal_hook::iterator::SignalsInfo;
use signal_hook::iterator::backend::Handle;
use signal_hook::iterator::exfiltrator::origin::WithOrigin;
use signal_hook::low_level::siginfo::Cause;

/// Includes SIGUSR1 and SIGUSR2, with which batch systems announce the end of the time limit.
const SIGNALS: [i32; 6] = [SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2];

/// Catches signals from its creation on, and passes them on once the command's process is known.
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
