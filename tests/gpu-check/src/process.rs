//! Other programs: started in a group of their own, and ended with all they started when their time is over.

use std::fs::File;
use std::io;
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// How a program ended, and what it said.
#[derive(Debug)]
pub(crate) struct Ran {
    /// None: it was killed when its time was over.
    pub(crate) status: Option<ExitStatus>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
    pub(crate) took: Duration,
}

impl Ran {
    pub(crate) fn succeeded(&self) -> bool {
        self.status.is_some_and(|status| status.success())
    }

    /// Signal that ended it.
    pub(crate) fn signal(&self) -> Option<i32> {
        self.status?.signal()
    }

    /// In words, with the last line that says something.
    pub(crate) fn how_it_ended(&self) -> String {
        let how = match self.status {
            None => format!("killed after {} s: it did not end", self.took.as_secs()),
            Some(status) => status.to_string(),
        };
        let last = self
            .stderr
            .lines()
            .chain(self.stdout.lines())
            .rfind(|line| line.to_ascii_lowercase().contains("error") || line.contains("WARN"))
            .or_else(|| self.stderr.lines().rfind(|line| !line.trim().is_empty()));
        match last {
            Some(line) => format!("{how} ({})", shortened(line.trim())),
            None => how,
        }
    }
}

/// Enough of a line for a table.
fn shortened(line: &str) -> String {
    const MOST: usize = 240;
    let mut text: String = line.chars().take(MOST).collect();
    if text.len() < line.len() {
        text.push('…');
    }
    text
}

/// Runs a program; what it and its children print goes to `OUT.stdout` and `OUT.stderr`.
pub(crate) fn run(command: &mut Command, limit: Duration, out: &Path) -> io::Result<Ran> {
    let (stdout, stderr) = (out.with_extension("stdout"), out.with_extension("stderr"));
    let began = Instant::now();
    command
        .stdin(Stdio::null())
        .stdout(File::create(&stdout)?)
        .stderr(File::create(&stderr)?)
        .process_group(0);
    // SAFETY: the closure runs in the child between fork and exec; it makes one system call that touches no memory.
    unsafe {
        command.pre_exec(|| {
            die_with_parent();
            Ok(())
        });
    }
    let mut child = command.spawn()?;
    let status = wait(&mut child, began + limit)?;
    end_group(&child);
    if status.is_none() {
        child.wait()?;
    }
    let text = |path: &Path| -> io::Result<String> {
        Ok(String::from_utf8_lossy(&std::fs::read(path)?).into_owned())
    };
    Ok(Ran {
        status,
        stdout: text(&stdout)?,
        stderr: text(&stderr)?,
        took: began.elapsed(),
    })
}

fn wait(child: &mut Child, until: Instant) -> io::Result<Option<ExitStatus>> {
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status));
        }
        if Instant::now() >= until {
            return Ok(None);
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// A check that is killed takes along what it started.
fn die_with_parent() {
    // SAFETY: PR_SET_PDEATHSIG reads its one argument, a signal number, and touches no memory.
    unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) };
}

/// Ends whoever is left of the child's group.
fn end_group(child: &Child) {
    if let Ok(group) = i32::try_from(child.id()) {
        // SAFETY: sends a signal and touches no memory. The group is the child's own, made before it began; while it is
        // empty, no other process can have its number but by the numbers having gone all around since.
        unsafe { libc::kill(-group, libc::SIGKILL) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sh(script: &str, limit: Duration) -> Ran {
        let name = format!("gpu-check-process-{}", std::process::id());
        let out = std::env::temp_dir().join(format!("{name}-{script:.0}-{}", script.len()));
        let ran = run(Command::new("sh").args(["-c", script]), limit, &out).unwrap();
        for end in ["stdout", "stderr"] {
            std::fs::remove_file(out.with_extension(end)).unwrap();
        }
        ran
    }

    #[test]
    fn what_hangs_is_killed_with_what_it_started() {
        let ran = sh("sleep 60 & echo $!; wait", Duration::from_millis(300));
        assert!(ran.status.is_none(), "{ran:?}");
        assert!(ran.how_it_ended().starts_with("killed after"), "{ran:?}");
        let grandchild = Path::new("/proc").join(ran.stdout.trim());
        let until = Instant::now() + Duration::from_secs(10);
        // It may be there for a moment as a zombie that nobody has waited for.
        let alive = || {
            std::fs::read_to_string(grandchild.join("stat")).is_ok_and(|stat| !stat.contains(") Z"))
        };
        while alive() {
            assert!(Instant::now() < until, "the grandchild still runs");
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    #[test]
    fn an_end_is_told_with_the_line_that_says_why() {
        let ran = sh(
            "echo 'x: error: no such thing' >&2; echo bye >&2; exit 3",
            Duration::from_secs(10),
        );
        assert!(!ran.succeeded());
        assert_eq!(
            ran.how_it_ended(),
            "exit status: 3 (x: error: no such thing)"
        );
        let ran = sh("kill -SEGV $$", Duration::from_secs(10));
        assert_eq!(ran.signal(), Some(11));
    }
}
