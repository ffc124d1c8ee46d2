//! The commands of events: each gets its report as stdin, and a limited time.

use std::fs::File;
use std::io::{Seek as _, Write as _};
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use rustix::fs::{MemfdFlags, memfd_create};
use rustix::process::{Pid, Signal, kill_process_group};

use crate::print;

/// How long signals and commands wait to be looked at.
pub(super) const STEP: Duration = Duration::from_millis(50);

/// The commands that run.
pub(super) struct Commands {
    running: Vec<Running>,
    limit: Duration,
}

struct Running {
    child: Child,
    event: &'static str,
    began: Instant,
    is_killed: bool,
}

impl Commands {
    /// None yet. Each may take `limit`.
    pub(super) const fn new(limit: Duration) -> Self {
        Self { running: Vec::new(), limit }
    }

    /// Starts a command.
    ///
    /// # Errors
    ///
    /// When it cannot be started.
    pub(super) fn start(&mut self, event: &'static str, command: &str, report: &str) -> Result<()> {
        let cannot = || format!("cannot run the command for `{event}`");
        // A file, not a pipe: who does not read it neither blocks nor ends the writer.
        let mut stdin = File::from(memfd_create("report", MemfdFlags::CLOEXEC).with_context(cannot)?);
        stdin.write_all(report.as_bytes()).and_then(|()| stdin.rewind()).with_context(cannot)?;
        let mut shell = Command::new("/bin/sh");
        // A group of its own: with the shell ends what it has started.
        shell.args(["-c", command]).stdin(stdin).process_group(0);
        let child = shell.spawn().with_context(cannot)?;
        self.running.push(Running { child, event, began: Instant::now(), is_killed: false });
        Ok(())
    }

    /// Says how commands have ended, and kills those that take too long. Whether some run.
    pub(super) fn attend(&mut self) -> bool {
        let limit = self.limit;
        self.running.retain_mut(|running| !running.has_ended(limit));
        !self.running.is_empty()
    }

    /// Asks all commands to end, and kills those that do not within two seconds.
    pub(super) fn end(&mut self) {
        for running in &self.running {
            running.signal(Signal::TERM);
        }
        self.limit = self.running.iter().map(|running| running.began.elapsed()).max().unwrap_or_default();
        self.limit += Duration::from_secs(2);
        while self.attend() {
            std::thread::sleep(STEP);
        }
    }
}

impl Running {
    fn has_ended(&mut self, limit: Duration) -> bool {
        let took = self.began.elapsed();
        match self.child.try_wait() {
            Ok(None) if took < limit || self.is_killed => false,
            Ok(None) => {
                print::note(format_args!("the command for `{}` is killed: its time is over", self.event));
                self.signal(Signal::KILL);
                self.is_killed = true;
                false
            }
            Ok(Some(status)) => {
                print::note(format_args!("the command for `{}` ended after {took:.1?}: {status}", self.event));
                true
            }
            Err(error) => {
                print::note(format_args!("the command for `{}` is lost: {error}", self.event));
                true
            }
        }
    }

    fn signal(&self, signal: Signal) {
        if let Some(group) = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw) {
            // It may have ended just now.
            let _already_over = kill_process_group(group, signal);
        }
    }
}
