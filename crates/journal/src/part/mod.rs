//! The directory of one process, its part: its name, and the files next to the journal. These are the description of
//! the process (`process.json`), the reports of the bridge to Score-P and of chained plugins, the counts of late
//! callbacks, and the names of NCCL's dumps, which are in the job's directory. The folder also has the job's directory
//! and the owner of a journal.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::{fs, io};

use crate::host;
use crate::host::{ProcessKey, ProcessStatus};
use crate::part::environment::{JobEnvironment, Level};
use regular_files::{FNV_SEED, MOST_DESCRIPTION_BYTES, fnv};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;

pub mod environment;
pub mod job;
pub mod owner;

/// Name of the directory of parts in a job's directory.
pub const PARTS: &str = "parts";
/// Name of the journal's directory (or a link to it) in a part.
pub const JOURNAL: &str = "journal";
/// Name of the description of the process in a part.
pub const PROCESS: &str = "process.json";
/// Name of the completion mark in a part.
pub const DONE: &str = "done";

/// Whether the process described itself, which it does when its journal has a segment.
pub fn has_begun(part: &Path) -> bool {
    part.join(PROCESS).symlink_metadata().is_ok()
}

/// Whether the part has a journal, or may have one: where the system does not say, reading it gives the reason.
pub fn has_journal(part: &Path) -> bool {
    !matches!(part.join(JOURNAL).try_exists(), Ok(false))
}

/// The parts in a job's directory, in the order of their names.
pub fn part_directories(out: &Path) -> io::Result<Vec<PathBuf>> {
    let mut directories = Vec::new();
    for entry in fs::read_dir(out.join(PARTS))? {
        let entry = entry?;
        // Most file systems have the kind in the directory; a link needs a look at what it leads to.
        let is_directory = match entry.file_type() {
            Ok(kind) if !kind.is_symlink() => kind.is_dir(),
            _ => entry.path().is_dir(),
        };
        if is_directory {
            directories.push(entry.path());
        }
    }
    nccl_events::sort::sort(&mut directories);
    Ok(directories)
}

/// Whether a part is written and can go into an archive. A symbolic link is not a part: it may lead to other files.
pub fn is_done(part: &Path) -> bool {
    !part.is_symlink() && part.join(DONE).exists()
}

/// Writes a JSON file of a part.
fn write_json(path: &Path, value: &impl Serialize) -> io::Result<()> {
    host::write(path, &serde_json::to_vec(value).map_err(io::Error::other)?)
}

/// Reads a JSON file of a part; `None` if it is missing or malformed. An error if the system does not read it.
pub fn read_json<T: DeserializeOwned>(path: &Path, most_bytes: u64) -> io::Result<Option<T>> {
    match regular_files::read(path, most_bytes) {
        Ok(bytes) => Ok(serde_json::from_slice(&bytes).ok()),
        Err(error) if regular_files::is_refused_by_system(&error) => Err(error),
        Err(_) => Ok(None),
    }
}

/// The name of a part, which is the name of its directory.
pub fn part_name(part: &Path) -> String {
    let name = part.file_name().unwrap_or(part.as_os_str());
    name.to_string_lossy().into_owned()
}

/// Reads the process that recorded a part. The string lists fields that cannot be read and why; empty if all can.
pub fn read_process(part: &Path) -> (ProcessInfo, String) {
    let read = try_read_process(part);
    read.unwrap_or_else(|error| (ProcessInfo::default(), format!("{PROCESS}: {error}")))
}

/// [`read_process`], with an error if the file is there and the system does not read it: another attempt may.
pub fn try_read_process(part: &Path) -> io::Result<(ProcessInfo, String)> {
    let bytes = match regular_files::read(&part.join(PROCESS), MOST_DESCRIPTION_BYTES) {
        Ok(bytes) => bytes,
        Err(error) if regular_files::is_refused_by_system(&error) => return Err(error),
        Err(error) => return Ok((ProcessInfo::default(), format!("{PROCESS}: {error}"))),
    };
    Ok(match (serde_json::from_slice(&bytes), serde_json::from_slice::<Fields>(&bytes)) {
        (Ok(process), _) => (process, String::new()),
        (Err(_), Ok(fields)) => good_fields(fields),
        (Err(error), Err(_)) => (ProcessInfo::default(), format!("{PROCESS}: {error}")),
    })
}

type Fields = serde_json::Map<String, Value>;

/// Converts to text and back: deserialising from values as well would add 40 KB of code.
fn process_from_fields(fields: &Fields) -> Result<ProcessInfo, String> {
    let read = serde_json::to_vec(fields).and_then(|json| serde_json::from_slice(&json));
    read.map_err(|error| error.to_string().split(" at line ").next().unwrap_or_default().to_owned())
}

/// Takes all fields that can be read, including nested ones, and names those that cannot.
fn good_fields(fields: Fields) -> (ProcessInfo, String) {
    let check = |name: &str, value: &Value| process_from_fields(&Fields::from_iter([(name.to_owned(), value.clone())]));
    let (mut good, mut bad) = (Fields::new(), Vec::new());
    for (name, value) in fields {
        let Err(error) = check(&name, &value) else {
            good.insert(name, value);
            continue;
        };
        let Value::Object(mut inner) = value else {
            bad.push(format!("{name}: {error}"));
            continue;
        };
        inner.retain(|field, value| {
            let single = Fields::from_iter([(field.clone(), value.clone())]);
            let checked = check(&name, &single.into());
            bad.extend(checked.as_ref().err().map(|error| format!("{name}.{field}: {error}")));
            checked.is_ok()
        });
        good.insert(name, inner.into());
    }
    let process = process_from_fields(&good).unwrap_or_default();
    (process, format!("{PROCESS}: left out {}", bad.join(", ")))
}

/// Version of `process.json`.
pub const PROCESS_FORMAT: u32 = 1;

/// The process of a part: `process.json`, written when recording begins. Every field has a default, so that a torn file
/// still yields an archive.
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
    /// How much of the recording the archive is to show.
    pub level: Level,
    /// When this copy of a running process's part was made, CLOCK_REALTIME ns; 0 for the part itself.
    #[serde(skip_serializing_if = "is_zero")]
    pub snapshot_realtime_ns: u64,
}

impl ProcessInfo {
    /// Whether the process runs, as far as this process can tell.
    pub fn life(&self) -> ProcessStatus {
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
    let bytes = fs::read("/proc/self/cmdline").unwrap_or_default();
    let text = String::from_utf8_lossy(&bytes).into_owned();
    text.split_terminator('\0').map(str::to_owned).collect()
}

/// NCCL's version number in the usual notation.
pub fn nccl_version_text(version: u32) -> String {
    // Up to 2.8 the minor version has one digit less, but those releases have no profiler.
    if version == 0 { String::new() } else { format!("{}.{}.{}", version / 10_000, version / 100 % 100, version % 100) }
}

// `nccl-otf2 run` gives all processes one name for NCCL's dump of the topology and one for that of the graphs, and NCCL
// expands nothing in it. So each process that has the plugin puts its own key into the name, and a new number for each
// communicator.

/// Name of the directory of dumps in a job's directory.
pub const DUMPS: &str = "topology";
/// Dumps with this number are overwritten by those of later communicators.
const LAST: u32 = 99;
/// `-`, 16 digits of the key, `-`, two digits of the number, `.xml`
const TAIL: usize = 24;

/// What a file has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Dump {
    /// The host: `NCCL_TOPO_DUMP_FILE`.
    System,
    /// The channels of a communicator: `NCCL_GRAPH_DUMP_FILE`.
    Graphs,
}

impl Dump {
    /// Both.
    pub const ALL: [Self; 2] = [Self::System, Self::Graphs];

    /// The variable that names the file.
    pub const fn variable(self) -> &'static str {
        match self {
            Self::System => "NCCL_TOPO_DUMP_FILE",
            Self::Graphs => "NCCL_GRAPH_DUMP_FILE",
        }
    }

    /// The variable with the rank of a communicator that writes it.
    pub const fn rank_variable(self) -> &'static str {
        match self {
            Self::System => "NCCL_TOPO_DUMP_FILE_RANK",
            Self::Graphs => "NCCL_GRAPH_DUMP_FILE_RANK",
        }
    }

    const fn stem(self) -> &'static str {
        match self {
            Self::System => "system",
            Self::Graphs => "graphs",
        }
    }

    /// The name of a process's file, of its communicator of this number. The key 0 is any process's.
    pub fn file_name(self, key: u64, number: u32) -> String {
        format!("{}-{key:016x}-{:02}.xml", self.stem(), number.min(LAST))
    }

    /// Reads [`Self::file_name`]: what it is, of which process, with which number.
    pub fn parse_file_name(name: &str) -> Option<(Self, u64, u32)> {
        let dump = Self::ALL.into_iter().find(|dump| name.starts_with(dump.stem()))?;
        let (key, number) = name.strip_prefix(dump.stem())?.strip_prefix('-')?.strip_suffix(".xml")?.split_once('-')?;
        let key = u64::from_str_radix(key, 16).ok()?;
        let number = number.parse().ok()?;
        (dump.file_name(key, number) == name).then_some((dump, key, number))
    }

    /// The path with another key and number; `None` if its file was not named by [`Self::file_name`].
    pub fn renamed(self, path: &str, key: u64, number: u32) -> Option<String> {
        let at = path.len().checked_sub(self.stem().len() + TAIL)?;
        let (directory, name) = path.split_at_checked(at)?;
        Self::parse_file_name(name).filter(|(dump, ..)| *dump == self)?;
        Some(format!("{directory}{}", self.file_name(key, number)))
    }
}

/// The key of a part, by its name.
pub fn key(part: &str) -> u64 {
    fnv(FNV_SEED, part.as_bytes()).max(1)
}

/// Length of the value of a variable for a rank, so that every rank fits.
const RANK_DIGITS: usize = 10;

/// The value of a variable for a rank; `None` for a rank that no communicator has. NCCL skips spaces before a number.
pub fn rank(rank: Option<u32>) -> String {
    match rank {
        Some(rank) => format!("{rank:RANK_DIGITS$}"),
        None => format!("{:RANK_DIGITS$}", -9),
    }
}

/// What a session forwarded to Score-P: `scorep.json` in its part.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ScorepReport {
    /// The Score-P library, its functions and the threads.
    pub target: String,
    /// Counts by name; zero counts are omitted.
    pub counts: BTreeMap<String, u64>,
}

impl ScorepReport {
    /// Path of the file in a part.
    pub fn path(part: &Path) -> PathBuf {
        part.join("scorep.json")
    }

    /// Writes the report into a part.
    pub fn write(&self, part: &Path) -> io::Result<()> {
        write_json(&Self::path(part), self)
    }

    /// Reads the report from a part; `None` if nothing was forwarded or the file is malformed.
    /// An error if the system does not read it.
    pub fn read(part: &Path) -> io::Result<Option<Self>> {
        read_json(&Self::path(part), MOST_DESCRIPTION_BYTES)
    }

    /// Text for the closing line, for example `Score-P got 24 calls and 8 operations, not 2 operations`.
    pub fn summary(&self) -> String {
        let number = |name: &str| self.counts.get(name).copied().unwrap_or(0);
        let sum =
            |of: &str, reasons: &[&str]| reasons.iter().map(|reason| number(&format!("{of}_{reason}"))).sum::<u64>();
        let calls_left_out = sum("CALLS", &["UNKNOWN_THREAD", "OUTSIDE", "NOT_RECORDED", "FILTERED"]);
        let operations_left_out =
            sum("OPERATIONS", &["DROPPED", "OVERLAPPING", "NOT_PLACED", "FILTERED", "CALLS_ONLY"]);
        let mut line = format!("Score-P got {} calls and {} operations", number("CALLS"), number("OPERATIONS"));
        if calls_left_out + operations_left_out > 0 {
            line.push_str(&format!(
                ", not {calls_left_out} calls and {operations_left_out} operations (NCCL::SCOREP in the archive says why)"
            ));
        }
        let waiting = number("OPERATIONS_WAITING");
        if waiting > 0 {
            line.push_str(&format!("; {waiting} operations follow at the end of its measurement"));
        }
        line
    }
}

/// The chained plugins, and the calls that did not reach them: `chain.json` in the part.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ChainReport {
    /// The plugins, for example `inspector (v5)`.
    pub plugins: Vec<String>,
    /// Plugins that were not loaded, with the reason.
    pub left_out: Vec<String>,
    /// Calls that were not passed on, by name; zero counts are omitted.
    pub counts: BTreeMap<String, u64>,
}

impl ChainReport {
    /// Whether no plugins were requested.
    pub const fn is_empty(&self) -> bool {
        self.plugins.is_empty() && self.left_out.is_empty()
    }

    /// Path of the file in a part.
    pub fn path(part: &Path) -> PathBuf {
        part.join("chain.json")
    }

    /// Writes the report into a part, unless no plugins were requested.
    pub fn write(&self, part: &Path) -> io::Result<()> {
        if self.is_empty() {
            return Ok(());
        }
        write_json(&Self::path(part), self)
    }

    /// Reads the report from a part; `None` if no plugin was requested or the file is malformed.
    /// An error if the system does not read it.
    pub fn read(part: &Path) -> io::Result<Option<Self>> {
        read_json(&Self::path(part), MOST_DESCRIPTION_BYTES)
    }
}

/// Numbers of callbacks and communicators after the end of the recording, in `late.json` in the part.
///
/// A proxy shared by communicators, or a kernel that took too long to wait for, can still report after the last
/// `finalize`, when the trace is being or has been written; and a later recording may fail to begin. No trace contains
/// these: the next archive made from the part reports the numbers.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
#[expect(missing_docs, reason = "fields that say it themselves")]
pub struct LateCallbacks {
    /// Starts, by the name of the kind.
    pub starts: BTreeMap<String, u64>,
    pub stops: u64,
    pub states: u64,
    /// Communicators of which nothing is recorded, because no recording could begin for them.
    pub communicators: u64,
}

impl LateCallbacks {
    /// Number of late callbacks and communicators.
    pub fn total(&self) -> u64 {
        let others = [&self.stops, &self.states, &self.communicators];
        self.starts.values().chain(others).fold(0, |sum, count| sum.saturating_add(*count))
    }

    /// Adds what came later.
    pub fn add(&mut self, later: &Self) {
        for (kind, count) in &later.starts {
            *self.starts.entry(kind.clone()).or_default() += count;
        }
        self.stops += later.stops;
        self.states += later.states;
        self.communicators += later.communicators;
    }

    /// Path of the file in a part.
    pub fn path(part: &Path) -> PathBuf {
        part.join("late.json")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_changed_in_place() {
        for dump in Dump::ALL {
            let path = format!("/job/topology/{}", dump.file_name(0, 0));
            let renamed = dump.renamed(&path, key("host-1-2"), 7).expect("named by us");
            assert_eq!(renamed.len(), path.len());
            let name = renamed.rsplit('/').next().expect("a name");
            assert_eq!(Dump::parse_file_name(name), Some((dump, key("host-1-2"), 7)));
            assert_eq!(dump.renamed(&renamed, 0, 0), Some(path), "a child process has its parent's");
        }
        for foreign in ["", "topo.xml", "/x/graphs-1-2.xml", "/x/ä-0000000000000000-00.xml"] {
            assert_eq!(Dump::Graphs.renamed(foreign, 1, 1), None, "{foreign}");
        }
        assert_eq!((rank(Some(0)).len(), rank(Some(u32::MAX)).len(), rank(None).len()), (10, 10, 10));
        assert_eq!(Dump::Graphs.file_name(1, 100), Dump::Graphs.file_name(1, 99));
    }
}
