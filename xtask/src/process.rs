//! Starting other programs, with the command line shown and a failure that names it.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use crate::failure::{Context as _, Failure, Result};

/// Runs `command` with its output on ours, after showing it.
pub(crate) fn run(command: &mut Command) -> Result<()> {
    println!("   $ {}", shown(command));
    let status = command
        .stdin(Stdio::null())
        .status()
        .or_fail(|| format!("start {}", program(command)))?;
    if status.success() {
        Ok(())
    } else {
        Err(Failure::wrong(format!(
            "{} ended with {status}",
            shown(command)
        )))
    }
}

/// Runs `command` and returns what it printed; the caller looks at the status.
pub(crate) fn capture(command: &mut Command) -> Result<Output> {
    command
        .stdin(Stdio::null())
        .output()
        .or_fail(|| format!("start {}", program(command)))
}

/// True when `command` can be started and succeeds; its output is dropped.
pub(crate) fn succeeds(command: &mut Command) -> bool {
    command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success())
}

/// Where `name` is on `PATH`.
pub(crate) fn find(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path)
        .map(|folder| folder.join(name))
        .find(|file| is_executable(file))
}

fn is_executable(file: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt as _;
    file.metadata()
        .is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
}

fn program(command: &Command) -> String {
    command.get_program().to_string_lossy().into_owned()
}

/// The command as a person would type it, with the variables that were set for it.
fn shown(command: &Command) -> String {
    let variables = command
        .get_envs()
        .filter_map(|(name, value)| Some(format!("{}={}", name.to_string_lossy(), quoted(value?))));
    let words = std::iter::once(command.get_program())
        .chain(command.get_args())
        .map(quoted);
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
        let failure = run(Command::new("false").arg("x")).unwrap_err();
        assert!(
            failure.message().starts_with("false x ended with"),
            "{}",
            failure.message()
        );
        assert!(!succeeds(&mut Command::new("false")));
        assert!(succeeds(&mut Command::new("true")));
    }
}
