//! What killed processes leave: journals by the recorder's own writer, without written parts.

use std::path::{Path, PathBuf};

use journal::clock;
use journal::part::ProcessInfo;
pub(crate) use journal::testing::NO_PROCESS;
use journal::testing::{Process, ProcessIdentity};

/// A part of a process that was killed after `all_reduces` collectives. Its process id is `pid` plus the rank.
pub(crate) fn record(out: &Path, rank: u32, pid: u32, all_reduces: u64) -> PathBuf {
    record_in(out, rank, pid, all_reduces, |_| {})
}

/// Like [`record`]; `describe` changes the description of the process.
pub(crate) fn record_in(
    out: &Path,
    rank: u32,
    pid: u32,
    all_reduces: u64,
    describe: impl FnOnce(&mut ProcessInfo),
) -> PathBuf {
    let mut process = begin(&out.join("parts").join(format!("host-{rank}")), rank, pid, describe);
    for sequence in 0..all_reduces {
        process.collective(sequence);
    }
    process.leave()
}

/// Starts recording in a part.
pub(crate) fn begin(part: &Path, rank: u32, pid: u32, describe: impl FnOnce(&mut ProcessInfo)) -> Process {
    let mut info = ProcessInfo {
        format: 1,
        host: "host".to_owned(),
        boot_id: journal::host::boot_id(),
        pid,
        session_start_realtime_ns: clock::realtime_ns(),
        nccl_version: "2.28.9".to_owned(),
        table: 5,
        ..ProcessInfo::default()
    };
    describe(&mut info);
    Process::begin_as(part, ProcessIdentity { rank, ranks: 2, in_environment: false }, &info)
}
