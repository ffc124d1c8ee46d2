//! Other programs: started in a group of their own, and ended with all they started when their time is over.

use std::fs::File;
use std::io;
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

#[derive(Debug)]
pub(crate) struct Ran {
    /// None: it was killed when its time was over.
    pub(crate) status: Option<ExitStatus>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
    took: Duration,
}

impl Ran {
    pub(crate) fn succeeded(&self) -> bool {
        self.status.is_some_and(|status| status.success())
    }

    pub(crate) fn signal(&self) -> Option<i32> {
        self.status?.signal()
    }

    /// In words, with the last line that says something, as much of it as a table has room for.
    pub(crate) fn how_it_ended(&self) -> String {
        const MOST: usize = 240;
        let how = match self.status {
            None => format!("killed after {} s: it did not end", self.took.as_secs()),
            Some(status) => status.to_string(),
        };
        let says_why = |line: &&str| line.to_ascii_lowercase().contains("error") || line.contains("WARN");
        let last = self.stderr.lines().chain(self.stdout.lines()).rfind(says_why);
        match last.or_else(|| self.stderr.lines().rfind(|line| !line.trim().is_empty())) {
            Some(line) => format!("{how} ({})", line.trim().chars().take(MOST).collect::<String>()),
            None => how,
        }
    }
}

/// Runs a program; what it and its children print goes to `OUT.stdout` and `OUT.stderr`.
pub(crate) fn run(command: &mut Command, limit: Duration, out: &Path) -> io::Result<Ran> {
    let (stdout, stderr) = (out.with_extension("stdout"), out.with_extension("stderr"));
    let began = Instant::now();
    command.stdin(Stdio::null()).stdout(File::create(&stdout)?).stderr(File::create(&stderr)?);
    command.process_group(0);
    c_double::end_with_parent(command);
    let mut child = command.spawn()?;
    let status = loop {
        match child.try_wait()? {
            None if began.elapsed() < limit => std::thread::sleep(Duration::from_millis(5)),
            status => break status,
        }
    };
    // SAFETY: sends a signal and touches no memory. The group is the child's own, made before it began; while it is
    // empty, no other process can have its number but by the numbers having gone all around since.
    unsafe { libc::kill(-child.id().cast_signed(), libc::SIGKILL) };
    if status.is_none() {
        child.wait()?;
    }
    let text = |path: &Path| -> io::Result<String> { Ok(String::from_utf8_lossy(&std::fs::read(path)?).into_owned()) };
    Ok(Ran { status, stdout: text(&stdout)?, stderr: text(&stderr)?, took: began.elapsed() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_hangs_is_killed_with_what_it_started() {
        let out = tempfile::tempdir().unwrap();
        let mut shell = Command::new("sh");
        shell.args(["-c", "sleep 60 & echo $!; wait"]);
        let ran = run(&mut shell, Duration::from_millis(300), &out.path().join("sh")).unwrap();
        assert!(ran.how_it_ended().starts_with("killed after"), "{ran:?}");
        let stat = Path::new("/proc").join(ran.stdout.trim()).join("stat");
        let until = Instant::now() + Duration::from_secs(10);
        // It may be there for a moment as a zombie that nobody has waited for.
        while std::fs::read_to_string(&stat).is_ok_and(|stat| !stat.contains(") Z")) {
            assert!(Instant::now() < until, "the grandchild still runs");
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}
