//! The recording process: `process.json` in every part, written when recording begins.

use serde::{Deserialize, Serialize};

use crate::host::{Life, ProcessKey};
use crate::part::environment::JobEnvironment;
use crate::part::options::ArchiveOptions;

/// Version of `process.json`.
pub const PROCESS_FORMAT: u32 = 1;

/// The process of a part. Every field has a default, so that a torn file still yields an archive.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
#[expect(missing_docs, reason = "fields that say it themselves")]
pub struct ProcessInfo {
    /// [`PROCESS_FORMAT`] of the plugin that wrote the file.
    pub format: u32,
    pub host: String,
    /// The kernel's boot id. Processes with the same boot id share a clock.
    pub boot_id: String,
    pub pid: u32,
    /// The process id namespace as in `/proc/self/ns/pid`. Each container numbers its processes from 1.
    pub pid_namespace: String,
    /// When the process started, in clock ticks since the host's boot; 0 if unknown. The kernel reuses process ids, but
    /// not with the same start time.
    pub start_ticks: u64,
    /// When recording began, CLOCK_REALTIME ns.
    pub session_start_realtime_ns: u64,
    /// The tag in the process's event ids and in the headers of its segments; 0 if unknown.
    #[serde(skip_serializing_if = "is_no_tag")]
    pub tag: u16,
    /// The journal's directory if it is outside the part (`NCCL_OTF2_JOURNAL_DIR`); else empty.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub journal: String,
    /// Where the part was made, if its journal is outside: a copy of the part is elsewhere. Else empty.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub part: String,
    /// The part's job, as named by the claim of its directory; empty if there is no claim.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub job: String,
    /// NCCL's id of the first communicator; 0 if NCCL gives none. Processes with the same id belong to the same job.
    #[serde(skip_serializing_if = "is_zero")]
    pub first_comm: u64,
    /// The launcher's environment variables.
    pub environment: JobEnvironment,
    /// The version of the running NCCL (`2.28.9`); empty if unknown.
    pub nccl_version: String,
    /// `RCCL` if NCCL is RCCL; otherwise empty.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub library: String,
    /// N of the `ncclProfiler_v<N>` table that NCCL called first.
    pub table: u8,
    pub plugin_version: String,
    pub tick_source: String,
    /// The requested activation mask, restricted to the events of the table.
    pub event_mask: u32,
    /// The events in `event_mask`, by name.
    pub events: Vec<String>,
    /// The steps that are recorded, in the form of `NCCL_OTF2_STEPS`; empty for all.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub steps: String,
    /// `NCCL_ALLGATHERV_ENABLE` is 0 when recording begins: NCCL 2.29 and later report broadcasts below the call.
    #[serde(skip_serializing_if = "is_false")]
    pub allgatherv_off: bool,
    /// Where the user has NCCL dump the topology, if not `nccl-otf2 run`; else empty.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub system_dump: String,
    /// The same for graphs.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub graphs_dump: String,
    pub command: Vec<String>,
    pub working_directory: String,
    /// How the part is to be written to an archive.
    pub archive: ArchiveOptions,
    /// When this copy of a running process's part was made, CLOCK_REALTIME ns; 0 for the part itself.
    #[serde(skip_serializing_if = "is_zero")]
    pub snapshot_realtime_ns: u64,
}

impl ProcessInfo {
    /// Whether the process runs, as far as this process can tell.
    pub fn life(&self) -> Life {
        let key = ProcessKey {
            boot_id: self.boot_id.clone(),
            pid_namespace: self.pid_namespace.clone(),
            pid: self.pid,
            start_ticks: self.start_ticks,
        };
        key.life()
    }

    /// Whether a process other than this one still records into the part. A process of another host counts as dead:
    /// whoever finalizes a part from another host knows better.
    pub fn is_recording(&self) -> bool {
        let is_other = self.pid != 0 && self.pid != std::process::id();
        is_other && self.snapshot_realtime_ns == 0 && self.life().is_there()
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde's signature")]
const fn is_zero(number: &u64) -> bool {
    *number == 0
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde's signature")]
const fn is_no_tag(tag: &u16) -> bool {
    *tag == 0
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde's signature")]
const fn is_false(is_so: &bool) -> bool {
    !*is_so
}

/// The command line of this process.
pub fn command() -> Vec<String> {
    let bytes = std::fs::read("/proc/self/cmdline").unwrap_or_default();
    let text = String::from_utf8_lossy(&bytes).into_owned();
    text.split_terminator('\0').map(str::to_owned).collect()
}

/// NCCL's version number in the usual notation.
pub fn nccl_version_text(version: u32) -> String {
    // Up to 2.8 the minor version has one digit less, but those releases have no profiler.
    if version == 0 { String::new() } else { format!("{}.{}.{}", version / 10_000, version / 100 % 100, version % 100) }
}
