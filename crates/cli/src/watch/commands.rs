//! Runs a command for each event, with the report as stdin and a time limit.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{Seek as _, Write as _};
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use rustix::fs::{MemfdFlags, memfd_create};
use rustix::process::{Pid, Signal, kill_process, kill_process_group};

use crate::print;

/// How often signals and commands are checked.
pub(super) const STEP: Duration = Duration::from_millis(50);

/// A variable in the environment of a command and of everything it starts. Processes that create their own group or
/// session, or whose parent has ended, still have it.
const MARK: &str = "OTF2_WATCH_COMMAND";

pub(super) struct Commands {
    running: Vec<Running>,
    limit: Duration,
    started: u64,
}

struct Running {
    child: Child,
    mark: String,
    event: &'static str,
    began: Instant,
    is_killed: bool,
}

impl Commands {
    pub(super) const fn new(limit: Duration) -> Self {
        Self { running: Vec::new(), limit, started: 0 }
    }

    pub(super) fn start(&mut self, event: &'static str, command: &str, report: &str) -> Result<()> {
        let cannot = || format!("cannot run the command for `{event}`");
        // A file instead of a pipe: a command that does not read it neither blocks nor kills the writer.
        let mut stdin = File::from(memfd_create("report", MemfdFlags::CLOEXEC).with_context(cannot)?);
        stdin.write_all(report.as_bytes()).and_then(|()| stdin.rewind()).with_context(cannot)?;
        let mut shell = Command::new("/bin/sh");
        self.started += 1;
        let mark = format!("{MARK}={}-{}", std::process::id(), self.started);
        // In its own process group, so that the shell's children are killed with it.
        shell.args(["-c", command]).stdin(stdin).process_group(0);
        shell.envs(mark.split_once('='));
        let child = shell.spawn().with_context(cannot)?;
        self.running.push(Running { child, mark, event, began: Instant::now(), is_killed: false });
        Ok(())
    }

    /// Reports commands that have ended, and kills those over the time limit. Returns whether any is still running.
    pub(super) fn attend(&mut self) -> bool {
        let limit = self.limit;
        self.running.retain_mut(|running| !running.has_ended(limit));
        !self.running.is_empty()
    }

    /// Asks all commands to end, and kills those that do not within two seconds.
    pub(super) fn end(&mut self) {
        let marks: Vec<String> = self.running.iter().map(|running| running.mark.clone()).collect();
        for running in &self.running {
            running.signal(Signal::TERM);
        }
        self.limit = self.running.iter().map(|running| running.began.elapsed()).max().unwrap_or_default();
        self.limit += Duration::from_secs(2);
        while self.attend() {
            std::thread::sleep(STEP);
        }
        // A shell may end before the processes it started.
        for mark in marks {
            signal_marked(&mark, Signal::KILL);
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
        // The process may have just ended.
        let _already_over = kill_process_group(Pid::from_child(&self.child), signal);
        signal_marked(&self.mark, signal);
    }
}

/// Signals all processes with a mark; repeats if they start others meanwhile.
fn signal_marked(mark: &str, signal: Signal) {
    let mut signalled = BTreeSet::new();
    for _round in 0..10 {
        let found: Vec<i32> = marked(mark).filter(|process| signalled.insert(*process)).collect();
        if found.is_empty() {
            return;
        }
        for process in found.into_iter().filter_map(Pid::from_raw) {
            let _already_over = kill_process(process, signal);
        }
    }
}

/// The processes of this host with a mark. Other users' environments cannot be read.
fn marked(mark: &str) -> impl Iterator<Item = i32> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).filter(move |process: &i32| {
        let environment = fs::read(format!("/proc/{process}/environ")).unwrap_or_default();
        environment.split(|byte| *byte == 0).any(|variable| variable == mark.as_bytes())
    })
}
