//! The program's own log: JSON Lines, one file per process, independent of any profiler.
//!
//! The line of a call is written, in one `write`, *before* the call is made: a killed process leaves whole
//! lines, and at most one line per rank of a call that NCCL never saw.

use anyhow::Context as _;
use parking_lot::Mutex;
use serde::Serialize;
use std::fs::File;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

/// A line of the log.
#[derive(Serialize, Debug)]
#[serde(tag = "kind", rename_all = "lowercase")]
pub(crate) enum Line<'a> {
    /// First line.
    Start {
        program: &'a str,
        version: &'a str,
        nccl_version: String,
        nccl_version_code: i32,
        pid: u32,
        process: u16,
        processes: u16,
        /// The ranks of this process.
        ranks: Vec<usize>,
        world_ranks: usize,
        fake_gpu: bool,
        /// Whether `proxy_ops` is given.
        exact: bool,
        time_unix_ns: u64,
    },
    /// A communicator exists now.
    Communicator {
        rank: usize,
        pid: u32,
        comm: &'a str,
        comm_rank: usize,
        comm_ranks: usize,
        time_unix_ns: u64,
    },
    /// One NCCL call.
    Call(CallLine<'a>),
    /// `--ops repeat`: what many calls, which have no lines of their own, came to.
    Pace(PaceLine),
    /// `--skip-last`: the call that is never made.
    Skipped {
        rank: usize,
        pid: u32,
        op: &'a str,
        round: u64,
    },
    /// Last line of a process that came to its end.
    End {
        pid: u32,
        calls: u64,
        results_checked: u64,
        results_wrong: u64,
        /// Sum over all calls of this process.
        proxy_ops: Option<u64>,
        ok: bool,
        time_unix_ns: u64,
    },
}

/// One NCCL call.
#[derive(Serialize, Debug)]
pub(crate) struct CallLine<'a> {
    /// Rank in the whole run.
    pub(crate) rank: usize,
    pub(crate) pid: u32,
    /// Name of the communicator, the same on all its ranks.
    pub(crate) comm: &'a str,
    pub(crate) comm_rank: usize,
    pub(crate) comm_ranks: usize,
    /// Name of the NCCL function.
    pub(crate) op: &'a str,
    /// Elements, as passed to NCCL.
    pub(crate) count: usize,
    /// NCCL's name of the data type.
    pub(crate) datatype: &'a str,
    /// `count` times the size of the data type.
    pub(crate) bytes: usize,
    /// Root, a rank of the communicator.
    pub(crate) root: Option<usize>,
    /// The other side of a send or receive, a rank of the communicator.
    pub(crate) peer: Option<usize>,
    /// Number of the ncclGroupStart…ncclGroupEnd the call is in, counted per rank.
    pub(crate) group: Option<u64>,
    /// Captured into a CUDA graph.
    pub(crate) captured: bool,
    /// How often the operation is executed: 1, or the number of launches of the graph.
    pub(crate) launches: u64,
    pub(crate) round: u64,
    /// Network proxy operations on this rank, all launches together; none where the settings leave it open.
    pub(crate) proxy_ops: Option<u64>,
    pub(crate) time_unix_ns: u64,
}

/// Many calls of ncclAllReduce, a batch at a time: all of a batch are enqueued, then all are waited for.
#[derive(Serialize, Debug, Clone)]
pub(crate) struct PaceLine {
    /// Rank in the whole run.
    pub(crate) rank: usize,
    pub(crate) pid: u32,
    pub(crate) bytes: usize,
    pub(crate) iterations: u64,
    pub(crate) batch: u64,
    /// From the call to its return: that of the quickest batch, and of half of the batches at most.
    pub(crate) call_ns: Quantiles,
    /// From the call until the device is through with it, when a batch is under way.
    pub(crate) each_ns: Quantiles,
    pub(crate) round: u64,
    pub(crate) time_unix_ns: u64,
}

/// Of the means of batches.
#[derive(Serialize, Debug, Clone, Copy)]
pub(crate) struct Quantiles {
    pub(crate) min: u64,
    pub(crate) median: u64,
    pub(crate) mean: u64,
}

/// The log of one process.
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
        let file = File::create(&path)
            .with_context(|| format!("--log: cannot create {}", path.display()))?;
        Ok(CallLog {
            file: Some((path, Mutex::new(file))),
        })
    }

    /// Appends a line.
    pub(crate) fn write(&self, line: &Line<'_>) -> anyhow::Result<()> {
        let Some((path, file)) = &self.file else {
            return Ok(());
        };
        let mut text = serde_json::to_string(line)?;
        text.push('\n');
        file.lock()
            .write_all(text.as_bytes())
            .with_context(|| format!("--log: cannot write {}", path.display()))
    }
}

/// Now, in nanoseconds since 1970.
pub(crate) fn now_unix_ns() -> u64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .ok()
        .and_then(|since| u64::try_from(since.as_nanos()).ok())
        .unwrap_or(0)
}
