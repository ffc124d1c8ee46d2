//! Processes with an end: what they wrote, how they ended, and never longer than they may take.

use std::fs::File;
use std::io::{Read as _, Seek as _};
use std::os::unix::process::ExitStatusExt as _;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// A process that runs. What it writes goes to files, so that no pipe can fill up and no child of it can hold one
/// open.
#[derive(Debug)]
pub struct Running {
    child: Child,
    stdout: File,
    stderr: File,
    called: String,
}

/// A process that has ended.
#[derive(Debug)]
pub struct Ended {
    /// How.
    pub status: ExitStatus,
    /// What it wrote to standard output.
    pub stdout: String,
    /// What it wrote to standard error.
    pub stderr: String,
    called: String,
}

/// Starts a process.
#[must_use]
pub fn start(command: &mut Command) -> Running {
    let stdout = tempfile::tempfile().expect("a temporary file");
    let stderr = tempfile::tempfile().expect("a temporary file");
    let called = format!("{command:?}");
    let child = command
        .stdin(Stdio::null())
        .stdout(stdout.try_clone().expect("another handle"))
        .stderr(stderr.try_clone().expect("another handle"))
        .spawn()
        .unwrap_or_else(|error| panic!("{called}: {error}"));
    Running {
        child,
        stdout,
        stderr,
        called,
    }
}

/// Runs a process to its end, at most `limit`.
#[must_use]
pub fn run_within(limit: Duration, command: &mut Command) -> Ended {
    start(command).wait(limit)
}

/// Runs a process to its end.
#[must_use]
pub fn run(command: &mut Command) -> Ended {
    run_within(Duration::from_secs(60), command)
}

impl Running {
    /// The process's id.
    #[must_use]
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Waits for its end; kills it and fails after `limit`.
    #[must_use]
    pub fn wait(mut self, limit: Duration) -> Ended {
        let began = Instant::now();
        let status = loop {
            if let Some(status) = self.child.try_wait().expect("wait") {
                break status;
            }
            if began.elapsed() > limit {
                let _gone = self.child.kill();
                let _status = self.child.wait();
                let ended = self.ended(ExitStatus::from_raw(libc::SIGKILL));
                panic!("still running after {limit:?}\n{ended}");
            }
            std::thread::sleep(Duration::from_millis(2));
        };
        self.ended(status)
    }

    fn ended(self, status: ExitStatus) -> Ended {
        Ended {
            status,
            stdout: all_of(self.stdout),
            stderr: all_of(self.stderr),
            called: self.called,
        }
    }
}

impl Ended {
    /// Fails unless the process ended with this exit code.
    #[must_use]
    pub fn with_code(self, code: i32) -> Self {
        assert_eq!(self.status.code(), Some(code), "{self}");
        self
    }

    /// Fails unless a signal ended the process.
    #[must_use]
    pub fn by_signal(self, signal: i32) -> Self {
        assert_eq!(self.status.signal(), Some(signal), "{self}");
        self
    }

    /// The lines on standard error that are ours.
    #[must_use]
    pub fn our_lines(&self) -> Vec<&str> {
        let lines = self.stderr.lines();
        lines
            .filter(|line| line.starts_with("nccl-otf2: "))
            .collect()
    }
}

impl std::fmt::Display for Ended {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self {
            status,
            stdout,
            stderr,
            called,
        } = self;
        write!(
            out,
            "{called}\nended: {status}\n--- stdout\n{stdout}--- stderr\n{stderr}"
        )
    }
}

fn all_of(mut file: File) -> String {
    let mut bytes = Vec::new();
    file.rewind().expect("rewind");
    file.read_to_end(&mut bytes).expect("read");
    String::from_utf8_lossy(&bytes).into_owned()
}
