//! The manifest of a part: what an archive needs from a process besides its events. JSON, versioned.
//!
//! ```text
//! parts/<part>/manifest            this
//! parts/<part>/collectives         the collective calls of every rank, see `calls`
//! parts/<part>/remote-transfers    what the process did for ranks of others (PXN), if anything
//! parts/<part>/traces/<n>.evt      the events of location n, in the part's own numbers, CLOCK_MONOTONIC ns
//! parts/<part>/done                exists when all of these are complete
//! ```
//!
//! Numbers are indices into the lists here: string 3 of an event is `strings[3]`. The file does not record when or by
//! whom it was written, so that writing twice gives the same bytes.

use std::io::ErrorKind;
use std::path::Path;

use crate::error::{Error, io_error};
use crate::part::calls::RankDigest;
use crate::part::files::{MANIFEST, event_file, write_json};
use crate::part::manifest_locations::Pool;
use crate::part::traffic::Traffic;
use clocks::gpu::GpuQuality;
use clocks::ticks::ClockQuality;
use journal::part::environment::Level;
use journal::part::{ChainReport, LateCallbacks, ProcessInfo, ScorepReport};
use model::communicators::Gpu;
use model::job::{Claim, CommDefinition};
use model::links::transfers::{ExportedRank, RemoteWork};
use model::tables::add_late;
use nccl_events::ids::index;
use nccl_events::schema::Counts;
use nccl_events::schema::attribute::Anchor;
use otf2::{EVENT_CHUNK_BYTES, check_event_file};
use regular_files::{MOST_DESCRIPTION_BYTES, MOST_MANIFEST_BYTES};
use serde::{Deserialize, Serialize};
use timeline::definitions::GpuWorkDefinition;

pub(crate) use crate::part::manifest_locations::{ChannelEnd, LocationDefinition, LocationKind, Shared, TransferOwner};

/// Version of the file. A newer version is rejected; a part of an older one is written again from its journal.
const FORMAT: u32 = 4;

/// The version in a manifest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Format(u32);

impl Default for Format {
    fn default() -> Self {
        Self(FORMAT)
    }
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Manifest {
    pub format: Format,
    pub part: String,
    pub process: ProcessInfo,
    /// Why the process description is incomplete; empty if it is complete.
    pub process_problem: String,
    /// What the part shows.
    pub level: Level,
    pub clock: ClockQuality,
    /// Simultaneous readings of several clocks.
    pub anchors: Vec<Anchor>,
    /// First and last time in the event files, CLOCK_MONOTONIC ns; equal without events.
    pub span_ns: (u64, u64),
    pub strings: Shared<String>,
    pub attributes: Shared<AttributeDefinition>,
    pub regions: Shared<RegionDefinition>,
    /// The regions of which something is a record, ascending: parameter n has the name of the n-th.
    pub parameters: Vec<u32>,
    pub comms: Vec<CommDefinition>,
    /// Rank and number of ranks of the communicators for which NCCL stated impossible ones.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub impossible_ranks: Vec<(i32, i32)>,
    /// Communicators that were split from or grown of another, and that one: indices into `comms`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub parents: Vec<(u32, u32)>,
    /// The process's GPUs, as far as its events distinguish them.
    pub gpus: Vec<Gpu>,
    pub locations: Vec<LocationDefinition>,
    /// The channels on which the process did network transfers, ascending.
    pub channel_ends: Vec<ChannelEnd>,
    /// Whether steps put data into the memory of peers.
    pub has_puts: bool,
    pub gpu_work: GpuWorkDefinition,
    pub gpu_clocks: Vec<GpuClockDefinition>,
    /// Digests of each rank's calls; the calls are in the file `collectives`.
    pub collectives: Vec<RankDigest>,
    /// Bounds on the differences between the clocks of hosts.
    pub traffic: Traffic,
    /// The ranks that other processes can refer to (PXN).
    pub exported_ranks: Vec<ExportedRank>,
    /// What the process did for ranks of other processes (PXN).
    pub remote_work: Vec<RemoteWork>,
    /// Parts of processes that did transfers for this one, as far as counted here.
    pub remote_workers: Vec<String>,
    pub remote_operations: u64,
    /// Whether each call has its operation, so that no communication can be missing.
    pub has_all_communication: bool,
    pub counts: Counts,
    /// For a flight recording: the time from which all threads' records are complete, CLOCK_MONOTONIC ns.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub complete_since_ns: Option<u64>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub switches: Vec<SwitchDefinition>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scorep: Option<ScorepReport>,
    /// The profiler plugins behind the recording one, if any were asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub chain: Option<ChainReport>,
    pub records: u64,
    /// How many events got an id, seen and lost, if the journal records it.
    pub started: Option<u64>,
    pub problems: Vec<String>,
    /// Whether event files are missing or damaged. Determined when reading, not stored.
    #[serde(skip)]
    pub has_lost_events: bool,
    /// Why the number of callbacks after the end of recording is unknown. Not stored.
    #[serde(skip)]
    pub late_problem: Option<String>,
}

/// The late callbacks that a part counts, zero if it has no such file, and why the file cannot be read.
pub(super) fn read_late(part: &Path) -> (LateCallbacks, Option<String>) {
    let read = match regular_files::read(&LateCallbacks::path(part), MOST_DESCRIPTION_BYTES) {
        Err(error) if error.kind() == ErrorKind::NotFound => return (LateCallbacks::default(), None),
        read => read.and_then(|json| Ok(serde_json::from_slice(&json)?)),
    };
    let problem = |error| {
        format!(
            "late.json: {error}; it is unknown how many callbacks came after recording had \
        ended"
        )
    };
    read.map_or_else(|error| (LateCallbacks::default(), Some(problem(error))), |late| (late, None))
}

/// What the parts of a job have alike.
#[derive(Debug, Default)]
pub(crate) struct Pools {
    strings: Pool<String>,
    attributes: Pool<AttributeDefinition>,
    regions: Pool<RegionDefinition>,
}

#[derive(Deserialize)]
struct Version {
    format: Format,
}

/// How many processes the job was launched with; `None` if no process was told.
pub(crate) fn launched<'a>(manifests: impl IntoIterator<Item = &'a Manifest>) -> Option<u32> {
    manifests.into_iter().filter_map(|manifest| manifest.process.environment.size).max()
}

impl Manifest {
    /// Reads a part's manifest, with the callbacks that came after the end of recording.
    pub(crate) fn read(part: &Path) -> Result<Self, Error> {
        let mut manifest = Self::without_late_callbacks(part)?;
        let (late, problem) = read_late(part);
        add_late(&mut manifest.counts, &late);
        manifest.late_problem = problem;
        Ok(manifest)
    }

    fn without_late_callbacks(part: &Path) -> Result<Self, Error> {
        let path = part.join(MANIFEST);
        let bytes = regular_files::read(&path, MOST_MANIFEST_BYTES).map_err(io_error("read", &path))?;
        let unreadable = |error: serde_json::Error| Error::Manifest {
            path: path.clone(),
            reason: format!("not a part's manifest: {error}"),
        };
        let read = serde_json::from_slice(&bytes);
        if let Ok(Self { format: Format(FORMAT), .. }) = &read {
            return read.map_err(unreadable);
        }
        // Another version may not parse, but its number does.
        let Version { format: Format(format) } = serde_json::from_slice(&bytes).map_err(unreadable)?;
        if format != FORMAT {
            return Err(Error::ManifestFormat { path, found: format, known: FORMAT });
        }
        read.map_err(unreadable)
    }

    /// Everything that is unknown because of damage, starting with damage outside the journal.
    pub(crate) fn all_problems(&self) -> Vec<String> {
        let process = (!self.process_problem.is_empty())
            .then(|| format!("{}; host, rank, NCCL release and events are not known", self.process_problem));
        process.iter().chain(&self.late_problem).chain(&self.problems).cloned().collect()
    }

    /// Shares with the parts that were read before what they have alike.
    pub(crate) fn share(&mut self, pools: &Pools) {
        pools.strings.share(&mut self.strings);
        pools.attributes.share(&mut self.attributes);
        pools.regions.share(&mut self.regions);
    }

    /// [`Self::read`] with the event files checked: a location without a sound file has no events, and a problem.
    pub(crate) fn read_with_events(part: &Path) -> Result<Self, Error> {
        let mut manifest = Self::read(part)?;
        for (number, location) in manifest.locations.iter_mut().enumerate() {
            let path = event_file(part, number);
            let lost = match check_event_file(&path, EVENT_CHUNK_BYTES) {
                Ok(events) if events == location.events => continue,
                Ok(events) => format!("{} has {events} events instead of {}", path.display(), location.events),
                // The system did not read it: another attempt may.
                Err(otf2::Error::Io { path, source, .. }) if regular_files::is_refused_by_system(&source) => {
                    return Err(Error::Io { operation: "read", path, source });
                }
                Err(error) => error.to_string(),
            };
            if location.events > 0 {
                let what = location.kind.describe();
                let events = std::mem::take(&mut location.events);
                manifest.problems.push(format!("{lost}: the {events} events of {what} are not in the archive"));
                manifest.has_lost_events = true;
            }
        }
        Ok(manifest)
    }

    pub(crate) fn write(&self, path: &Path) -> Result<(), Error> {
        write_json(path, self)
    }

    pub(crate) fn has_step_ranges(&self) -> bool {
        self.switches.iter().any(|switch| switch.steps.is_some())
    }

    /// Whether recording was switched in a way that makes the order of operations meaningless.
    pub(crate) fn breaks_order(&self) -> bool {
        self.switches.iter().any(|switch| switch.breaks_order)
    }

    /// The communicators, each with the process's ranks in it; `of` makes the value to keep for a rank, from the index
    /// of its location and its GPU.
    pub(crate) fn claims<M>(&self, of: impl Fn(usize, u32, &LocationDefinition) -> M) -> Vec<Claim<M>> {
        let claims = self.comms.iter().map(|comm| Claim { comm: comm.clone(), members: Vec::new() });
        let mut claims: Vec<Claim<M>> = claims.collect();
        for (at, location) in self.locations.iter().enumerate() {
            if let LocationKind::Communicator { comm, rank, gpu } = &location.kind
                && let Some(claim) = claims.get_mut(index(*comm))
            {
                claim.members.push((*rank, of(at, *gpu, location)));
            }
        }
        claims
    }

    pub(crate) fn events(&self) -> u64 {
        self.locations.iter().map(|location| location.events).sum()
    }
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) struct AttributeDefinition {
    pub name: String,
    /// OTF2's number of the value type.
    pub value_type: u8,
    pub description: String,
    /// Whether an event of the part has it.
    pub is_used: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) struct RegionDefinition {
    pub name: String,
    /// The kind of region; distinguishes regions with the same name.
    pub description: String,
    /// OTF2's number of the role.
    pub role: u8,
    /// OTF2's number of the paradigm.
    pub paradigm: u8,
    pub group: String,
    /// What the region shows, see [`nccl_events::archive`]; for a kernel, its mangled name.
    pub canonical_name: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct GpuClockDefinition {
    /// An index into [`Manifest::comms`].
    pub comm: u32,
    pub rank: u32,
    #[serde(flatten)]
    pub clock: GpuQuality,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct SwitchDefinition {
    /// CLOCK_MONOTONIC ns.
    pub ns: u64,
    pub is_on: bool,
    /// The kinds of events that were switched: NCCL's mask.
    pub events: u32,
    /// Whether a signal switched recording; else a step range or the control file did.
    pub by_signal: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub steps: Option<StepRangeDefinition>,
    pub breaks_order: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct StepRangeDefinition {
    pub first: u32,
    pub last: u32,
    /// The rank, −1 if unknown.
    pub rank: i32,
    /// Whether the program names its steps; the range is of collectives that were in one.
    #[serde(default)]
    pub is_named: bool,
}

/// The ranks of a written part, for readers without its journal.
#[derive(Clone, Debug)]
pub struct WrittenPart {
    /// The recorded events, as NCCL's activation mask.
    pub event_mask: u32,
    /// Events whose start a flight recording did not keep.
    pub removed: u64,
    /// For each rank, its GPU by the process's own numbers, and the number of its collectives.
    pub claims: Vec<Claim<(u32, u64)>>,
    /// Rank and number of ranks of the communicators for which NCCL stated impossible ones.
    pub impossible_ranks: Vec<(i32, i32)>,
}

impl WrittenPart {
    pub fn read(part: &Path) -> Result<Self, Error> {
        let manifest = Manifest::read(part)?;
        let claims = manifest.claims(|_, gpu, location| (gpu, location.collectives));
        Ok(Self {
            event_mask: manifest.process.event_mask,
            removed: manifest.counts.removed,
            claims,
            impossible_ranks: manifest.impossible_ranks,
        })
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn a_manifest_of_another_version_is_refused() {
        let part = tempfile::tempdir().expect("a directory");
        fs::write(part.path().join(MANIFEST), r#"{"format": 5, "strings": 7}"#).expect("written");
        let error = Manifest::read(part.path()).expect_err("refused").to_string();
        assert!(error.contains("format 5, but this version reads 4"), "{error}");
    }
}
