//! Runs other programs, printing their command lines, with errors that name the program.

use std::ffi::OsStr;
use std::fs::File;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Output, Stdio};

use anyhow::{Context as _, Result, bail, ensure};

/// How a program ended, and its output.
pub(crate) struct Captured {
    pub(crate) status: ExitStatus,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Captured {
    /// The first line that begins with these words, without them.
    pub(crate) fn after(&self, words: &str) -> Option<&str> {
        self.out.lines().chain(self.err.lines()).find_map(|line| line.strip_prefix(words))
    }

    pub(crate) fn last(&self) -> &str {
        last(&self.err)
    }
}

pub(crate) fn last(text: &str) -> &str {
    text.lines().last().unwrap_or("it said nothing")
}

pub(crate) fn heading(title: &str) {
    println!("\n== {title}");
}

/// Prints `command` and runs it with inherited output.
pub(crate) fn run(command: &mut Command) -> Result<()> {
    println!("   $ {}", shown(command));
    let status = command.stdin(Stdio::null()).status().with_context(|| format!("start {}", shown(command)))?;
    if !status.success() {
        bail!("{} ended with {status}", shown(command));
    }
    Ok(())
}

/// Runs `command` and returns its output; the caller checks the status.
pub(crate) fn capture(command: &mut Command) -> Result<Captured> {
    let Output { status, stdout, stderr } =
        command.stdin(Stdio::null()).output().with_context(|| format!("start {}", shown(command)))?;
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    Ok(Captured { status, out: text(stdout), err: text(stderr) })
}

/// Runs `command` and keeps its output in a file; shows it only if the command fails.
pub(crate) fn logged(command: &mut Command, log: &Path) -> Result<Captured> {
    let captured = capture(command)?;
    let text = format!("$ {}\n{}{}\n", shown(command), captured.out, captured.err);
    let file = File::options().create(true).append(true).open(log);
    let written = file.and_then(|mut file| file.write_all(text.as_bytes()));
    written.with_context(|| format!("write {}", log.display()))?;
    if !captured.status.success() {
        eprint!("{text}");
        bail!("{} ended with {}", shown(command), captured.status);
    }
    Ok(captured)
}

/// Runs `command` and returns its stdout; `what` names it in the error.
pub(crate) fn output(command: &mut Command, what: &str) -> Result<String> {
    let output = capture(command)?;
    ensure!(output.status.success(), "{what}: {}", output.last());
    Ok(output.out)
}

/// Removes inherited variables with these prefixes.
pub(crate) fn without<'a>(command: &'a mut Command, prefixes: &[&str]) -> &'a mut Command {
    for (name, _) in std::env::vars_os() {
        if prefixes.iter().any(|prefix| name.to_string_lossy().starts_with(prefix)) {
            command.env_remove(name);
        }
    }
    command
}

/// Whether `command` can be started and succeeds; its output is discarded.
pub(crate) fn succeeds(command: &mut Command) -> bool {
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}

pub(crate) fn find(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|folder| folder.join(name)).find(|file| is_executable(file))
}

fn is_executable(file: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt as _;
    file.metadata().is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
}

/// The command as a person would type it, with the variables that were set for it.
pub(crate) fn shown(command: &Command) -> String {
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
