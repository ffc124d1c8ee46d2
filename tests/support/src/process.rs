//! Processes with a time limit: their output, and how they ended.

use std::fs::File;
use std::io::{Read as _, Seek as _, SeekFrom};
use std::os::unix::process::ExitStatusExt as _;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// A running process. Its output goes to files, so that no pipe can fill up and no child can hold one open.
#[derive(Debug)]
pub struct Running {
    child: Child,
    stdout: File,
    stderr: File,
    called: String,
}

#[derive(Debug)]
pub struct FinishedProcess {
    pub status: ExitStatus,
    pub stdout: String,
    pub stderr: String,
    called: String,
}

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
    Running { child, stdout, stderr, called }
}

/// Time limit for everything that does not depend on time. It only stops what would never end: a busy machine slows
/// down work of minutes by a factor of ten.
pub const LIMIT: Duration = Duration::from_secs(1800);

/// Polls until `look` returns something; between polls it leaves the processors to the processes under test.
pub fn wait_for<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let began = Instant::now();
    loop {
        let looked = Instant::now();
        if let Some(found) = look() {
            return found;
        }
        assert!(began.elapsed() < LIMIT, "no {what} within {LIMIT:?}");
        std::thread::sleep(Duration::from_millis(20).max(3 * looked.elapsed()));
    }
}

/// The command `inner`, run by another one: under a limit, as another user, in a shell.
pub fn through(mut outer: Command, inner: &Command) -> Command {
    outer.arg(inner.get_program()).args(inner.get_args());
    for (name, value) in inner.get_envs() {
        match value {
            Some(value) => outer.env(name, value),
            None => outer.env_remove(name),
        };
    }
    if let Some(directory) = inner.get_current_dir() {
        outer.current_dir(directory);
    }
    outer
}

pub fn run_within(limit: Duration, command: &mut Command) -> FinishedProcess {
    start(command).wait(limit)
}

pub fn run(command: &mut Command) -> FinishedProcess {
    run_within(LIMIT, command)
}

impl Running {
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    pub fn signal(&self, name: &str) {
        let mut kill = Command::new("kill");
        let _sent = run(kill.args(["-s", name, &self.id().to_string()])).with_code(0);
    }

    /// Kills the process; asserts that it was still running.
    pub fn kill(self) {
        self.signal("KILL");
        let _killed = self.wait(LIMIT).by_signal(libc::SIGKILL);
    }

    /// Waits for the process to end; kills it and fails after `limit`.
    pub fn wait(mut self, limit: Duration) -> FinishedProcess {
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

    fn ended(self, status: ExitStatus) -> FinishedProcess {
        FinishedProcess { status, stdout: all_of(self.stdout), stderr: all_of(self.stderr), called: self.called }
    }
}

impl FinishedProcess {
    /// Fails unless the process ended with this exit code.
    pub fn with_code(self, code: i32) -> Self {
        assert_eq!(self.status.code(), Some(code), "{self}");
        self
    }

    /// Fails unless a signal ended the process.
    pub fn by_signal(self, signal: i32) -> Self {
        assert_eq!(self.status.signal(), Some(signal), "{self}");
        self
    }

    /// The plugin's own lines on standard error: all lines except NCCL's log, and except the advice printed to everyone
    /// who records kernel channels.
    pub fn our_lines(&self) -> Vec<&str> {
        let lines = self.stderr.lines();
        lines
            .filter(|line| !line.starts_with("NCCL INFO nccl-otf2: "))
            .filter(|line| !line.starts_with("nccl-otf2: kernel channels are recorded"))
            .collect()
    }

    /// Fails unless `plugin-host script` ended well, and the plugin wrote nothing except to NCCL's log and, for each of
    /// `words`, one line with these words to standard error.
    pub fn undisturbed(self, words: &[&str]) -> Self {
        assert_eq!(self.status.code(), Some(0), "{self}");
        // The host's own closing line; the plugin must not write to stdout.
        let own = self.stdout.strip_suffix(" calls, 0 problems\n");
        assert!(own.is_some_and(|line| !line.contains('\n')), "{self}");
        let said = self.our_lines();
        let as_expected = said.len() == words.len()
            && said.iter().zip(words).all(|(line, words)| line.starts_with("nccl-otf2: ") && line.contains(words));
        assert!(as_expected, "expected {words:?}\n{self}");
        self
    }
}

impl std::fmt::Display for FinishedProcess {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { status, stdout, stderr, called } = self;
        write!(out, "{called}\nended: {status}\n--- stdout\n{}--- stderr\n{}", shown(stdout), shown(stderr))
    }
}

/// How much of an output is kept: half from its start and half from its end.
const MOST_KEPT: u64 = 256 << 20;
const MOST_SHOWN: usize = 256 << 10;

fn all_of(mut file: File) -> String {
    let length = file.metadata().expect("a length").len();
    let half = if length > MOST_KEPT { MOST_KEPT / 2 } else { length };
    let mut read = |from, bytes| {
        let mut part = Vec::new();
        file.seek(SeekFrom::Start(from)).expect("seek");
        let taken = (&file).take(bytes).read_to_end(&mut part);
        taken.expect("read");
        String::from_utf8_lossy(&part).into_owned()
    };
    let head = read(0, half);
    if half == length {
        return head;
    }
    let cut = length - 2 * half;
    head + &format!("\n[{cut} bytes left out]\n") + &read(length - half, half)
}

fn shown(text: &str) -> String {
    if text.len() <= MOST_SHOWN {
        return text.to_owned();
    }
    let head = &text[..text.floor_char_boundary(MOST_SHOWN / 2)];
    let tail = &text[text.ceil_char_boundary(text.len() - MOST_SHOWN / 2)..];
    let cut = text.len() - head.len() - tail.len();
    format!("{head}\n[{cut} bytes left out]\n{tail}")
}
