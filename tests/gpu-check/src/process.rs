//! Other programs, which are ended with all they started when their time is over.

use std::ffi::OsStr;
use std::fs::File;
use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};
use std::time::Duration;

use crate::outcome::Outcome;

#[derive(Debug)]
pub(crate) struct ProcessOutput {
    status: ExitStatus,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl ProcessOutput {
    pub(crate) fn succeeded(&self) -> bool {
        self.status.success()
    }

    pub(crate) fn signal(&self) -> Option<i32> {
        self.status.signal()
    }

    /// In words, with the last informative line, cut to the width of the table.
    pub(crate) fn how_it_ended(&self) -> String {
        const MOST: usize = 240;
        let how = match self.signal() {
            Some(libc::SIGKILL) => "killed: it did not end".to_owned(),
            _ => self.status.to_string(),
        };
        let says_why = |line: &&str| line.to_ascii_lowercase().contains("error") || line.contains("WARN");
        let last = self.stderr.lines().chain(self.stdout.lines()).rfind(says_why);
        match last.or_else(|| self.stderr.lines().rfind(|line| !line.trim().is_empty())) {
            Some(line) => format!("{how} ({})", line.trim().chars().take(MOST).collect::<String>()),
            None => how,
        }
    }
}

/// A program that `timeout` kills with all it started when its time is over.
pub(crate) fn program(program: impl AsRef<OsStr>, limit: Duration) -> Command {
    let mut command = Command::new("timeout");
    command.args(["-s", "KILL", &limit.as_secs_f64().to_string()]).arg(program);
    command
}

/// Runs a program; what it and its children print goes to `OUT.stdout` and `OUT.stderr`.
pub(crate) fn run(command: &mut Command, out: &Path) -> Result<ProcessOutput, Outcome> {
    let (stdout, stderr) = (out.with_extension("stdout"), out.with_extension("stderr"));
    let files = File::create(&stdout).and_then(|file| Ok((file, File::create(&stderr)?)));
    let status = files.and_then(|(stdout, stderr)| {
        c_double::end_with_parent(command);
        command.stdin(Stdio::null()).stdout(stdout).stderr(stderr).status()
    });
    let status = status.map_err(|error| Outcome::failed(format!("cannot run {command:?}: {error}")))?;
    let text = |path: &Path| String::from_utf8_lossy(&std::fs::read(path).unwrap_or_default()).into_owned();
    Ok(ProcessOutput { status, stdout: text(&stdout), stderr: text(&stderr) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_hangs_is_killed_with_what_it_started() {
        let out = tempfile::tempdir().unwrap();
        let mut shell = program("sh", Duration::from_millis(300));
        shell.args(["-c", "sleep 60 & echo $!; wait"]);
        let ran = run(&mut shell, &out.path().join("sh")).unwrap();
        assert!(ran.how_it_ended().starts_with("killed"), "{ran:?}");
        let stat = Path::new("/proc").join(ran.stdout.trim()).join("stat");
        // It may be there for a moment, as a zombie that nobody has waited for too.
        let is_gone = || std::fs::read_to_string(&stat).map_or(true, |stat| stat.contains(") Z"));
        let mut looks = (0..1000).map(|_| std::thread::sleep(Duration::from_millis(10)));
        assert!(looks.any(|()| is_gone()), "the grandchild still runs");
    }
}
