//! The file `definitions` of a part: everything unify needs to know beside the events. JSON, versioned.
//!
//! ```text
//! parts/<part>/definitions   this
//! parts/<part>/collectives   every rank's collectives, see [`crate::archive::matching`]
//! parts/<part>/done          empty; there when definitions and traces/ are whole
//! parts/<part>/traces/<lane>.evt   OTF2 events in the part's own numbers, CLOCK_MONOTONIC ns
//! ```
//!
//! Numbers are places in the lists here: string 3 of an event is `strings[3]`. The file says nothing
//! about when or by whom it was written, so that writing twice gives the same bytes.

use serde::{Deserialize, Serialize};

use crate::archive::matching::RankDigest;
use crate::clocks::alignment::rows::Traffic;
use crate::clocks::anchors::Anchor;
use crate::clocks::gpu_clock::GpuClock;
use crate::clocks::ticks::ClockQuality;
use crate::links::gpu_work::definition::GpuWorkDefinition;
use crate::links::pxn::{Offered, Work};
use crate::tables::counts::Counts;
use crate::timeline::measurement::SwitchDefinition;
use journal::part::options::ArchiveOptions;
use journal::part::process::ProcessInfo;
use journal::part::scorep::ScorepReport;

/// Version of the file. Unify refuses a higher one.
pub const SIDECAR_FORMAT: u32 = 2;

/// A part's definitions.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Sidecar {
    /// [`SIDECAR_FORMAT`].
    pub format: u32,
    /// Name of the part.
    pub part: String,
    /// The process, from `process.json`.
    pub process: ProcessInfo,
    /// Why the process is not known better; empty when it is.
    pub process_problem: String,
    /// How the part was written. Metric 0 of an event is the first of its metrics. Format 1 had no choice: the
    /// defaults.
    #[serde(default)]
    pub options: ArchiveOptions,
    /// Bytes of an OTF2 event chunk: the archive must say the same.
    pub event_chunk_bytes: u64,
    /// How ticks became time.
    pub clock: ClockQuality,
    /// What several clocks showed at the same moments. Parts of before do not say.
    #[serde(default)]
    pub anchors: Vec<Anchor>,
    /// First and last time in the event files, CLOCK_MONOTONIC ns; equal without events.
    pub span_ns: (u64, u64),
    /// Strings.
    pub strings: Vec<String>,
    /// Attributes.
    pub attributes: Vec<AttributeDefinition>,
    /// Regions.
    pub regions: Vec<RegionDefinition>,
    /// Communicators.
    pub comms: Vec<CommDefinition>,
    /// The process's GPUs, as far as its events tell them apart.
    pub gpus: Vec<GpuDefinition>,
    /// Lanes: each has an event file.
    pub lanes: Vec<LaneDefinition>,
    /// What was found out about GPUs. Parts of before, and without GPUs, have nothing.
    #[serde(default)]
    pub gpu_work: GpuWorkDefinition,
    /// Clocks of the GPUs, by communicator rank.
    pub gpu_clocks: Vec<GpuClockDefinition>,
    /// What each rank called, in short; the calls are in the file `collectives`. Parts of before do not say.
    #[serde(default)]
    pub collectives: Vec<RankDigest>,
    /// What tells how far the clocks of hosts are apart. Parts that were written before there was any have none.
    #[serde(default)]
    pub traffic: Traffic,
    /// The ranks that other processes may refer to (PXN).
    #[serde(default)]
    pub offered: Vec<Offered>,
    /// What the process did for ranks of others (PXN).
    #[serde(default)]
    pub work_for_others: Vec<Work>,
    /// Parts of processes that did the network's work for this one, as far as it is counted here.
    #[serde(default)]
    pub helped_by: Vec<String>,
    /// Their proxy operations.
    #[serde(default)]
    pub help_counted: u64,
    /// What became of everything.
    pub counts: Counts,
    /// Of a flight recording: from when on the records of all threads are there, CLOCK_MONOTONIC ns.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kept_since_ns: Option<u64>,
    /// What was switched while the process recorded.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub switches: Vec<SwitchDefinition>,
    /// What Score-P was shown meanwhile, where it was there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scorep: Option<ScorepReport>,
    /// Records read.
    pub records: u64,
    /// How many events were given an id, where the journal tells: those seen and those lost.
    #[serde(default)]
    pub started: Option<u64>,
    /// What was wrong with the journal.
    pub problems: Vec<String>,
}

impl Sidecar {
    /// Whether only windows of steps were recorded.
    #[must_use]
    pub fn has_windows(&self) -> bool {
        self.switches.iter().any(|switch| switch.window.is_some())
    }

    /// Whether recording was switched so that the order of operations says nothing.
    #[must_use]
    pub fn breaks_order(&self) -> bool {
        self.switches.iter().any(|switch| switch.breaks_order)
    }
}

/// An attribute.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct AttributeDefinition {
    /// Its name.
    pub name: String,
    /// OTF2's number of its type.
    pub value_type: u8,
    /// What it means.
    pub description: String,
}

/// A region.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct RegionDefinition {
    /// Its name.
    pub name: String,
    /// What kind of region; regions of one name differ in it.
    pub description: String,
    /// OTF2's number of its role.
    pub role: u8,
    /// OTF2's number of its paradigm.
    pub paradigm: u8,
    /// The region group it is in.
    pub group: String,
    /// What compilers call a kernel; empty where it is the name.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub canonical_name: String,
}

/// How a communicator is identified across processes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CommIdentity {
    /// By NCCL's id and the number of ranks.
    Id,
    /// By the hash its operations carry (v1–v3).
    Hash,
    /// Not at all: it is this part's own.
    Part,
}

/// A communicator.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CommDefinition {
    /// How it is identified.
    pub identity: CommIdentity,
    /// NCCL's id, the hash, or the context.
    pub id: u64,
    /// Number of ranks; 0 if this process does not know.
    pub ranks: u32,
    /// The how-manieth of this id and size.
    pub repetition: u32,
    /// One more than the highest rank this process saw in it.
    pub ranks_seen: u32,
    /// The user's name; may be empty.
    pub name: String,
    /// Number of hosts; 0 where not given.
    pub nodes: u32,
}

/// What a lane is about.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "kind")]
pub enum LaneKind {
    /// A thread that called NCCL.
    Thread {
        /// The system's id; 0 if not known.
        thread_id: u32,
        /// Its name.
        name: String,
        /// Whether it is one of CUDA's, which calls host functions.
        #[serde(default)]
        is_callback: bool,
    },
    /// A proxy thread between transfers.
    Proxy {
        /// The system's id; 0 if not known.
        thread_id: u32,
    },
    /// A rank of a communicator.
    Communicator {
        /// A place in [`Sidecar::comms`].
        comm: u32,
        /// Its rank.
        rank: u32,
        /// Its GPU: a place in [`Sidecar::gpus`].
        gpu: u32,
    },
    /// A CUDA stream.
    Stream {
        /// Its GPU: a place in [`Sidecar::gpus`].
        gpu: u32,
        /// CUPTI's number of the CUDA context.
        context: u32,
        /// CUPTI's number of the stream in it.
        stream: u32,
        /// Whether another context on the GPU has a stream of this number.
        #[serde(default)]
        is_ambiguous: bool,
    },
    /// A channel of a communicator's rank.
    Channel {
        /// Whose.
        owner: LaneOwner,
        /// Which.
        channel: u8,
    },
    /// A network connection of a communicator's rank.
    Net {
        /// Whose.
        owner: LaneOwner,
        /// Which channel.
        channel: u8,
        /// Whether it sends.
        send: bool,
        /// The rank at the other end.
        peer: i32,
    },
    /// A slot of a network connection, where one step after the other is under way.
    Step {
        /// Whose.
        owner: LaneOwner,
        /// Which channel.
        channel: u8,
        /// Whether it sends.
        send: bool,
        /// The rank at the other end.
        peer: i32,
        /// Which slot: 0 … 7.
        slot: u8,
    },
    /// What the network plugin does for that slot.
    Plugin {
        /// Whose.
        owner: LaneOwner,
        /// Which channel.
        channel: u8,
        /// Whether it sends.
        send: bool,
        /// The rank at the other end.
        peer: i32,
        /// Which slot: 0 … 7.
        slot: u8,
    },
}

/// Whose lane it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "of")]
pub enum LaneOwner {
    /// A rank of a communicator of this process.
    Rank {
        /// A place in [`Sidecar::comms`].
        comm: u32,
        /// Its rank.
        rank: u32,
        /// Its GPU: a place in [`Sidecar::gpus`].
        gpu: u32,
    },
    /// A communicator without a beginning in the journal: of another process, worked for here (PXN), or one of this
    /// process's whose beginning could not be recorded.
    Foreign {
        /// The context as the process handed it out.
        context: u64,
        /// Whether that was this process.
        #[serde(default)]
        own: bool,
    },
}

/// A lane.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LaneDefinition {
    /// What it is about.
    #[serde(flatten)]
    pub kind: LaneKind,
    /// 0 for the lane itself, 1 for its sibling `#2`.
    pub sibling: u32,
    /// Events in its file.
    pub events: u64,
    /// Its first event, CLOCK_MONOTONIC ns.
    pub first_ns: u64,
    /// Its last event.
    pub last_ns: u64,
    /// Collective records in it.
    pub collectives: u64,
}

/// A GPU of the process, called after a communicator rank on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GpuDefinition {
    /// A place in [`Sidecar::comms`]; past its end where no rank is on it.
    pub comm: u32,
    /// The rank there.
    pub rank: u32,
    /// Whether the communicator is the process's largest, which names its GPUs where it can.
    pub in_largest: bool,
    /// CUDA's number of it in this process, where it is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ordinal: Option<u32>,
}

/// The clock of a communicator rank's GPU.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GpuClockDefinition {
    /// A place in [`Sidecar::comms`].
    pub comm: u32,
    /// The rank.
    pub rank: u32,
    /// Its clock.
    #[serde(flatten)]
    pub clock: GpuClock,
}
