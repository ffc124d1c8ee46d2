//! One run of the program.

use serde_json::Value;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;
use whole_plugin::built;
use whole_plugin::process::{Ended, run_within};
use whole_plugin::scratch::Scratch;

pub(crate) struct Run {
    scratch: Scratch,
    command: Command,
}

impl Run {
    pub(crate) fn new(nccl: &Path, options: &[&str]) -> Run {
        let scratch = Scratch::new();
        let mut command = scratch.plain(built::nccl_host());
        command.arg(format!("--fake-gpu={}", built::fake_gpu().display())).arg("--lib").arg(nccl);
        command.args(["--log", "calls"]).args(options);
        Run { scratch, command }
    }

    pub(crate) fn env(&mut self, name: &str, value: impl AsRef<OsStr>) {
        self.command.env(name, value);
    }

    pub(crate) fn args(&mut self, more: &[&str]) -> &mut Run {
        self.command.args(more);
        self
    }

    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.scratch.path().join(name)
    }

    pub(crate) fn ends_with(&mut self, code: i32) -> Ended {
        run_within(Duration::from_secs(120), &mut self.command).with_code(code)
    }

    pub(crate) fn log(&self, process: usize) -> Vec<Value> {
        let path = self.file(&format!("calls.{process}.jsonl"));
        let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        assert!(text.ends_with('\n'), "the last line of {} is not whole", path.display());
        text.lines().map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{line}: {error}"))).collect()
    }
}

pub(crate) fn of_kind<'a>(log: &'a [Value], kind: &str) -> impl Iterator<Item = &'a Value> {
    log.iter().filter(move |line| line["kind"] == kind)
}
