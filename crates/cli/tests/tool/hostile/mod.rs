//! Files and numbers from elsewhere: every verb ends soon, uses little memory, and reports what is wrong.

mod archives;
mod files;
mod followers;
mod outputs;

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use assert_cmd::Command;

use super::recording::{NO_PROCESS, record};
use super::support::{Scratch, ToolOutput};

/// Long for bounded work, short for unbounded work.
const PATIENCE: Duration = Duration::from_secs(30);
/// Limit on address space in KiB: threads and mapped libraries take some hundred MiB.
const MOST_KIB: u32 = 3 << 20;

/// Runs the tool with bounded time and memory.
fn bounded(scratch: &Scratch, arguments: &[&str]) -> ToolOutput {
    let tool = scratch.tool();
    let mut command = Command::new("sh");
    command.args(["-c", &format!("umask 022; ulimit -v {MOST_KIB}; exec \"$0\" \"$@\"")]);
    command.arg(tool.get_program()).args(arguments).current_dir(scratch.path()).timeout(PATIENCE);
    for (name, value) in tool.get_envs() {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    ToolOutput::run(&mut command)
}

/// A job of two processes: an archive and its journals.
fn archive(scratch: &Scratch) -> PathBuf {
    let out = scratch.join("trace");
    for rank in 0..2 {
        record(&out, rank, NO_PROCESS, 3);
    }
    let ended = bounded(scratch, &["finalize", "trace", "--keep-journal"]);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    out
}

/// The files of a directory with this extension, sorted.
fn files_of(directory: &Path, extension: &str) -> Vec<PathBuf> {
    let files = fs::read_dir(directory).expect("a directory").flatten().map(|file| file.path());
    let mut files: Vec<PathBuf> =
        files.filter(|file| file.extension().is_some_and(|ending| ending == extension)).collect();
    files.sort();
    files
}

/// Changes a file in place.
fn patch(path: &Path, change: impl FnOnce(&mut Vec<u8>)) {
    let mut bytes = fs::read(path).expect("it is there");
    change(&mut bytes);
    fs::write(path, bytes).expect("it can be written");
}
