//! Starting other programs, with the command line shown and a failure that names it.

use std::ffi::OsStr;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};

use anyhow::{Context as _, Result, bail, ensure};

/// More than this is not kept of what a program says.
const MOST_BYTES: u64 = 256 << 20;

/// How a program ended, and what it said.
pub(crate) struct Said {
    pub(crate) status: ExitStatus,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Said {
    /// The last line on stderr.
    pub(crate) fn last(&self) -> &str {
        last(&self.err)
    }
}

/// The last line of a text.
pub(crate) fn last(text: &str) -> &str {
    text.lines().last().unwrap_or("it said nothing")
}

pub(crate) fn heading(title: &str) {
    println!("\n== {title}");
}

/// Runs `command` with its output on ours, after showing it.
pub(crate) fn run(command: &mut Command) -> Result<()> {
    println!("   $ {}", shown(command));
    let status = command.stdin(Stdio::null()).status().with_context(|| start(command))?;
    if !status.success() {
        bail!("{} ended with {status}", shown(command));
    }
    Ok(())
}

/// Runs `command` and returns what it said; the caller looks at the status.
pub(crate) fn capture(command: &mut Command) -> Result<Said> {
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().with_context(|| start(command))?;
    let (out, err) = (child.stdout.take(), child.stderr.take());
    let (out, err) = std::thread::scope(|scope| {
        let err = scope.spawn(|| keep(err, MOST_BYTES));
        (keep(out, MOST_BYTES), err.join())
    });
    let status = child.wait().with_context(|| start(command))?;
    let (Some(out), Ok(Some(err))) = (out.with_context(|| start(command))?, err.unwrap_or(Ok(None))) else {
        bail!("{} says more than {} MiB", shown(command), MOST_BYTES >> 20);
    };
    Ok(Said { status, out, err })
}

/// What a program writes, or nothing where it is more than `most`; the program is let run on.
fn keep(pipe: Option<impl Read>, most: u64) -> io::Result<Option<String>> {
    let Some(mut pipe) = pipe else {
        return Ok(Some(String::new()));
    };
    let mut bytes = Vec::new();
    pipe.by_ref().take(most).read_to_end(&mut bytes)?;
    let rest = io::copy(&mut pipe, &mut io::sink())?;
    Ok((rest == 0).then(|| String::from_utf8_lossy(&bytes).into_owned()))
}

/// Runs `command` and returns what it printed; `what` names it where it fails.
pub(crate) fn output(command: &mut Command, what: &str) -> Result<String> {
    let said = capture(command)?;
    ensure!(said.status.success(), "{what}: {}", said.last());
    Ok(said.out)
}

/// True when `command` can be started and succeeds; its output is dropped.
pub(crate) fn succeeds(command: &mut Command) -> bool {
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}

/// Where `name` is on `PATH`.
pub(crate) fn find(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|folder| folder.join(name)).find(|file| is_executable(file))
}

fn is_executable(file: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt as _;
    file.metadata().is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
}

fn start(command: &Command) -> String {
    format!("start {}", command.get_program().to_string_lossy())
}

/// The command as a person would type it, with the variables that were set for it.
fn shown(command: &Command) -> String {
    let variables =
        command.get_envs().filter_map(|(name, value)| Some(format!("{}={}", name.to_string_lossy(), quoted(value?))));
    let words = std::iter::once(command.get_program()).chain(command.get_args()).map(quoted);
    variables.chain(words).collect::<Vec<_>>().join(" ")
}

fn quoted(word: &OsStr) -> String {
    let word = word.to_string_lossy();
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./=:+,@%".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        word.into_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shown_command_can_be_pasted_into_a_shell() {
        let mut command = Command::new("env");
        command.env("A", "1 2").args(["it's", "plain-word", ""]);
        assert_eq!(shown(&command), r"A='1 2' env 'it'\''s' plain-word ''");
    }

    #[test]
    fn a_failing_program_is_a_failure_that_names_it() {
        let error = run(Command::new("false").arg("x")).unwrap_err();
        assert!(error.to_string().starts_with("false x ended with"), "{error}");
        assert!(!succeeds(&mut Command::new("false")));
        assert!(succeeds(&mut Command::new("true")));
    }

    #[test]
    fn what_a_program_says_is_kept_up_to_a_bound() {
        assert_eq!(keep(Some(&b"four"[..]), 4).unwrap().as_deref(), Some("four"));
        assert_eq!(keep(Some(&b"four"[..]), 3).unwrap(), None);
        let said = capture(Command::new("sh").args(["-c", "echo out; echo a >&2; echo b >&2"])).unwrap();
        assert_eq!((said.out.as_str(), said.last()), ("out\n", "b"));
    }
}
