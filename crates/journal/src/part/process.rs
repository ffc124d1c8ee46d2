//! Who recorded: `process.json` in every part, written when recording begins.

use serde::{Deserialize, Serialize};

use crate::host::{Life, ProcessKey};
use crate::part::environment::JobEnvironment;
use crate::part::options::ArchiveOptions;

/// Version of `process.json`.
pub const PROCESS_FORMAT: u32 = 1;

/// The process of a part. Every field has a default: a torn file still gives an archive.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
#[expect(missing_docs, reason = "fields that say it themselves")]
pub struct ProcessInfo {
    /// [`PROCESS_FORMAT`] when it was written.
    pub format: u32,
    pub host: String,
    /// The kernel's boot id: processes with the same one share a clock.
    pub boot_id: String,
    pub pid: u32,
    /// The process id namespace, as `/proc/self/ns/pid` names it: a container counts its processes from 1 again.
    pub pid_namespace: String,
    /// When the process started, in clock ticks since the host's boot; 0 where not known. Process ids are used again,
    /// ids with a start are not.
    pub start_ticks: u64,
    /// When recording began, CLOCK_REALTIME ns.
    pub session_start_realtime_ns: u64,
    /// The job that the part is of, as the claim of its directory names it; empty where there is none.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub job: String,
    /// NCCL's id of the first communicator; 0 where it has none. Processes that share one are of one job.
    #[serde(skip_serializing_if = "is_zero")]
    pub first_comm: u64,
    /// What the launcher's variables say.
    pub environment: JobEnvironment,
    /// The running NCCL (`2.28.9`); empty where it cannot be asked.
    pub nccl_version: String,
    /// `RCCL` where that is the library; else empty.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub library: String,
    /// Which `ncclProfiler_v<N>` table NCCL called first.
    pub table: u8,
    pub plugin_version: String,
    pub tick_source: String,
    /// The activation mask asked for, cut to what the table has.
    pub event_mask: u32,
    /// The same by name.
    pub events: Vec<String>,
    pub command: Vec<String>,
    pub working_directory: String,
    /// How its part of the archive is to be written.
    pub archive: ArchiveOptions,
    /// When this copy of a running process's part was made, CLOCK_REALTIME ns; 0 for the part itself.
    #[serde(skip_serializing_if = "is_zero")]
    pub snapshot_realtime_ns: u64,
}

impl ProcessInfo {
    /// Whether the process runs, as far as can be told from here.
    pub fn life(&self) -> Life {
        let key = ProcessKey {
            boot_id: self.boot_id.clone(),
            pid_namespace: self.pid_namespace.clone(),
            pid: self.pid,
            start_ticks: self.start_ticks,
        };
        key.life()
    }

    /// Whether another process than this one still records into the part. One of another host is taken for dead: who
    /// finalizes there knows better.
    pub fn is_recording(&self) -> bool {
        let is_other = self.pid != 0 && self.pid != std::process::id();
        is_other && self.snapshot_realtime_ns == 0 && self.life().is_there()
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde's signature")]
const fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// The command line of this process.
pub fn command() -> Vec<String> {
    let bytes = std::fs::read("/proc/self/cmdline").unwrap_or_default();
    let text = String::from_utf8_lossy(&bytes).into_owned();
    text.split_terminator('\0').map(str::to_owned).collect()
}

/// NCCL's version number as people write it.
pub fn nccl_version_text(version: u32) -> String {
    // Up to 2.8 one digit less for the minor version: no profiler there.
    if version == 0 { String::new() } else { format!("{}.{}.{}", version / 10_000, version / 100 % 100, version % 100) }
}
