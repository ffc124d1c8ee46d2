//! The program's own log: JSON Lines, one file per process, independent of any profiler. The README says what is in it.
//!
//! The line of a call is written, in one `write`, *before* the call is made: a killed process leaves whole lines, and
//! at most one line per rank of a call that NCCL never saw.

use anyhow::Context as _;
use parking_lot::Mutex;
use serde_json::Value;
use std::fs::File;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

#[derive(Debug)]
pub(crate) struct CallLog {
    file: Option<(PathBuf, Mutex<File>)>,
}

impl CallLog {
    /// Creates `PREFIX.<process>.jsonl`, or a log that keeps nothing.
    pub(crate) fn create(prefix: Option<&Path>, process: u16) -> anyhow::Result<CallLog> {
        let Some(prefix) = prefix else {
            return Ok(CallLog { file: None });
        };
        let mut path = prefix.as_os_str().to_owned();
        path.push(format!(".{process}.jsonl"));
        let path = PathBuf::from(path);
        let file = File::create(&path).with_context(|| format!("--log: cannot create {}", path.display()))?;
        Ok(CallLog { file: Some((path, Mutex::new(file))) })
    }

    /// Writes a line of this kind; every line has the process and the time, too.
    pub(crate) fn write(&self, kind: &str, line: impl FnOnce() -> Value) -> anyhow::Result<()> {
        let Some((path, file)) = &self.file else {
            return Ok(());
        };
        let now = SystemTime::now().duration_since(UNIX_EPOCH)?;
        let mut line = line();
        line["kind"] = kind.into();
        line["pid"] = std::process::id().into();
        line["time_unix_ns"] = u64::try_from(now.as_nanos())?.into();
        let written = file.lock().write_all(format!("{line}\n").as_bytes());
        written.with_context(|| format!("--log: cannot write {}", path.display()))
    }
}
