//! The parts of a report as plain data: what was recorded, the job's time, the hosts' devices, links, ranks, ranges of
//! the program, the critical path, and what delays a late rank.
//!
//! [`Completeness`] and [`Matching`] are the archive's own statements, see `docs/MAPPING.md` §6.

use std::collections::BTreeMap;
use std::ops::AddAssign;

use nccl_events::archive::path_of_ranges;
use nccl_events::schema::{Listed, Statements, is_written};
use schemars::JsonSchema;
use serde::Serialize;

#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct Completeness {
    /// By kind of event: `seen`, `written`, `left_out`, `not_shown`, `duplicate`, `unfinished`, `orphan`, `lost`,
    /// `stops_lost`, `late` …
    pub kinds: BTreeMap<String, BTreeMap<String, u64>>,
    /// Counts that belong to no kind of event.
    pub other: BTreeMap<String, u64>,
    /// Callbacks that could not be recorded, all kinds.
    pub callbacks_lost: u64,
    /// Callbacks that arrived after recording had ended, all kinds.
    pub callbacks_late: u64,
    pub problems: Vec<String>,
    /// How many problems there are; long lists are cut.
    pub problem_count: u64,
    /// How often the recording of a process was switched off or on.
    pub switches: u64,
    /// Processes whose part could not be merged.
    pub parts_left_out: Vec<String>,
    /// NCCL's dumps of its topology that could not be used, and why.
    pub topology_unused: Vec<String>,
    pub ranks_missing: u64,
    /// Communicators for which NCCL stated a rank or a number of ranks that cannot be.
    pub ranks_impossible: Statement,
    pub collectives_unmatched: u64,
    /// The archive's statements on ranks that do not call the same.
    pub matching: Matching,
}

impl Completeness {
    /// OTF2 property names are in upper case; the keys here are in lower case.
    pub fn from_statements(statements: &Statements) -> Self {
        let counts = &statements.counts;
        let lower = |(name, number): (&str, u64)| (name.to_ascii_lowercase(), number);
        let kinds = counts.kinds.iter().map(|(kind, counts)| {
            let counts = counts.named().filter(|(name, number)| is_written(name, *number));
            (kind.name().to_ascii_lowercase(), counts.map(lower).collect())
        });
        let started = statements.started.0.map(|number| ("STARTED", number));
        let late = [counts.kinds.sum(|kind| kind.late), counts.stops_late, counts.states_late];
        Self {
            kinds: kinds.collect(),
            other: counts.others.named().filter(|(_, number)| *number > 0).chain(started).map(lower).collect(),
            callbacks_lost: counts.lost(),
            callbacks_late: late.into_iter().fold(0, u64::saturating_add),
            problems: statements.problems.lines.shown(),
            problem_count: statements.problems.number.get(),
            switches: statements.measurement_list.len(),
            parts_left_out: statements.parts_left_out.shown(),
            topology_unused: statements.unused_dumps(),
            ranks_missing: statements.ranks_missing.get(),
            ranks_impossible: Statement::from_listed(&statements.ranks_impossible),
            collectives_unmatched: statements.collectives_unmatched.get(),
            matching: Matching::from_statements(statements),
        }
    }
}

/// Some lines of the archive, and their total number.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct Statement {
    /// Total number; for ranks that stopped earlier, the number of ranks.
    pub number: u64,
    /// The lines, at most 100.
    pub lines: Vec<String>,
}

impl Statement {
    fn from_listed(listed: &Listed) -> Self {
        Self { number: listed.number.get(), lines: listed.lines.shown() }
    }
}

#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct Matching {
    /// Differing calls, by kind of difference.
    pub mismatches: Vec<(&'static str, Statement)>,
    /// Ranks that stopped before the others.
    pub ranks_behind: Statement,
    /// Communicators whose matching is unknown.
    pub unknown: Statement,
}

impl Matching {
    pub fn from_statements(statements: &Statements) -> Self {
        let mismatches = statements.mismatches().into_iter().filter(|(_, listed)| listed.number.get() > 0);
        Self {
            mismatches: mismatches.map(|(kind, listed)| (kind, Statement::from_listed(listed))).collect(),
            ranks_behind: Statement::from_listed(&statements.ranks_behind),
            unknown: Statement::from_listed(&statements.matching_unknown),
        }
    }

    pub fn number(&self) -> u64 {
        self.mismatches.iter().fold(0, |sum, (_, one)| sum.saturating_add(one.number))
    }

    pub fn lines(&self) -> impl Iterator<Item = String> {
        self.mismatches
            .iter()
            .flat_map(|(kind, statement)| statement.lines.iter().map(move |line| format!("{kind}: {line}")))
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Overlap {
    pub rank: u32,
    /// Time with at least one kernel of NCCL.
    pub communication_ns: u64,
    /// Time with at least one other kernel.
    pub computation_ns: u64,
    pub overlap_ns: u64,
    /// Time with kernels of NCCL only.
    pub exposed_ns: u64,
}

#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct Run {
    pub anchor: String,
    pub nccl_versions: Vec<String>,
    /// Kinds of recorded events, named as in `NCCL_OTF2_EVENTS`.
    pub recorded: Vec<String>,
    pub commands: Vec<String>,
    /// Start, in ns since 1970, beyond the exact range of a double; null if the archive does not state it.
    pub start_ns: Option<u64>,
    pub duration_ns: u64,
    pub hosts: Vec<String>,
    pub processes: u64,
    pub events: u64,
    pub operations: u64,
    /// Collectives matched across their ranks.
    pub instances: u64,
    /// Instances whose arrivals can be compared.
    pub comparable: u64,
    pub has_kernels: bool,
    /// Whether kernels that are not NCCL's were recorded.
    pub has_other_kernels: bool,
    pub has_transfers: bool,
    pub has_steps: bool,
}

impl Run {
    /// Printed in place of links if a run has no steps.
    pub const LINKS_NOT_MEASURED: &str =
        "links were not measured: that needs a network and NCCL_OTF2_EVENTS=standard,ProxyStep";
}

/// How all ranks spent their time in operations that pass the filter, were measured and had ended. The parts add up to
/// `operations_ns`. Every share of lost time refers to that of the run, without warm-up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct Budget {
    /// Time in operations, summed over ranks: for each rank, the length of the union of its operations' intervals.
    pub operations_ns: u64,
    pub waiting_ns: u64,
    /// The part from the arrival of the last rank to the end.
    pub transfer_ns: u64,
    /// The part that the clocks or the kind of timing do not allow to split.
    pub unclear_ns: u64,
    /// The part in operations that are not compared across ranks: of a single rank, or unmatched.
    pub not_compared_ns: u64,
}

impl AddAssign for Budget {
    fn add_assign(&mut self, more: Self) {
        self.operations_ns += more.operations_ns;
        self.waiting_ns += more.waiting_ns;
        self.transfer_ns += more.transfer_ns;
        self.unclear_ns += more.unclear_ns;
        self.not_compared_ns += more.not_compared_ns;
    }
}

/// The bus bandwidth of another measurement, in bytes per second.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct Baseline {
    /// At the size of the class, interpolated between the measured sizes.
    pub busbw: f64,
    /// The class's median, and that of its transfer alone where arrivals are comparable, divided by `busbw`.
    pub share: f64,
    /// Whether `share` is that of the transfer alone.
    pub is_transfer: bool,
}

/// Quantiles of a sample, linearly interpolated between the two nearest values, as numpy does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct Quantiles {
    pub count: u64,
    pub min: f64,
    pub median: f64,
    pub p95: f64,
    pub p99: f64,
    pub max: f64,
    pub total: f64,
}

#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct Topology {
    /// Hosts of which NCCL dumped the topology.
    pub hosts: Vec<TopologyHost>,
    /// The graphs of the largest communicator that has some, of at most 64 hosts.
    pub graphs: Vec<Graph>,
    /// How many communicators have graphs.
    pub communicators: u32,
    /// Bytes that were sent over the network, where it is unknown over which interface.
    pub bytes_elsewhere: u64,
    /// Dumps that could not be used, and why.
    pub unused: Vec<String>,
}

#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct TopologyHost {
    pub name: String,
    pub gpus: Vec<TopologyGpu>,
}

#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct TopologyGpu {
    /// Address on the PCI bus.
    pub pci: String,
    /// Number of the processor, and the bridges from there, separated by `/`.
    pub path: String,
    /// Compute capability times ten; 0 if unknown.
    pub capability: u32,
    pub nvlinks: u32,
    /// The rank that uses it: index in [`super::Report::ranks`].
    pub rank: Option<u32>,
}

/// A network interface and what it moved.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct Nic {
    /// Index in [`Topology::hosts`].
    pub host: u32,
    pub name: String,
    /// Address on the PCI bus; empty if it is virtual.
    pub pci: String,
    /// Number of the processor, and the bridges from there, separated by `/`.
    pub path: String,
    /// Whether it can reach the memory of GPUs.
    pub gdr: bool,
    /// In bytes per second; null if its driver does not know.
    pub speed: Option<f64>,
    /// Steps that it sent.
    pub steps: u64,
    /// Null, as what follows, if steps were not recorded, or NCCL reported no sizes of them (before 2.27).
    pub sent_bytes: Option<u64>,
    pub received_bytes: Option<u64>,
    /// Time during which at least one sent step was in flight.
    pub busy_ns: Option<u64>,
    /// `sent_bytes` ÷ `busy_ns`, in bytes per second.
    pub rate: Option<f64>,
    /// `rate` ÷ `speed`; null if `rate` is far above `speed`, which NCCL assumes where the system states none.
    pub share: Option<f64>,
    /// Time of its steps ÷ that of as many of the better links that do the same; null if there are no others.
    pub slowdown: Option<f64>,
}

/// The channels of an algorithm on a host.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct Graph {
    pub communicator: u32,
    /// Index in [`Topology::hosts`].
    pub host: u32,
    /// `RING`, `TREE`, `COLLNET_CHAIN`, `COLLNET_DIRECT` or `NVLS`.
    pub kind: String,
    /// Bandwidth of a channel between GPUs of a host, in bytes per second.
    pub speed_intra: f64,
    /// Bandwidth of a channel between hosts, in bytes per second.
    pub speed_inter: f64,
    /// NCCL's name of the longest way between GPUs; null if this version does not know it.
    pub type_intra: Option<String>,
    /// The longest way from a GPU to a network interface.
    pub type_inter: Option<String>,
    pub channels: Vec<GraphChannel>,
}

#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct GraphChannel {
    /// The interface of the first rank: index in [`super::Report::nics`].
    pub nic_in: Option<u32>,
    /// In the order of the channel: indices in [`super::Report::ranks`].
    pub ranks: Vec<Option<u32>>,
    /// The interface of all other ranks.
    pub nic_out: Option<u32>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
pub struct LinkKey {
    pub communicator: u32,
    /// The sender: index in [`super::Report::ranks`]; `None` for channels.
    pub from: Option<u32>,
    /// The receiver; `None` for channels and if it was not recorded.
    pub to: Option<u32>,
    /// The receiver's rank in the communicator; `None` for channels.
    pub peer: Option<u32>,
    pub channel: Option<u32>,
}

/// A regression of the time of a step on its bytes, t = latency + bytes ÷ rate, weighted with 1/t².
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct Fit {
    pub points: u64,
    /// Time of a step of 0 bytes, in ns; `None` if negative, with fewer than three points, if all sizes are equal, or
    /// if the line explains less than half of the variance (`r_squared` below 0.5).
    pub latency_ns: Option<f64>,
    /// Bytes per second; `None` in the last three cases, and if time does not grow with size.
    pub rate: Option<f64>,
    /// Weighted coefficient of determination; `None` if all sizes are equal.
    pub r_squared: Option<f64>,
}

/// What the network did for a pair of ranks or a channel. Times are of sends, from handing a step to the network
/// (`SendWait`) to its completion.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct Link {
    #[serde(flatten)]
    pub key: LinkKey,
    pub steps: u64,
    pub bytes: u64,
    /// Time during which at least one step was in flight.
    pub busy_ns: u64,
    /// `bytes` ÷ `busy_ns`, in bytes per second.
    pub rate: Option<f64>,
    pub all: Option<Fit>,
    /// Regression over the minimum time for each size: noise only makes steps longer.
    pub least: Option<Fit>,
    /// Steps for a scatter plot, evenly over time, at most 500: `[start_ns, bytes, duration_ns]`.
    pub points: Vec<[u64; 3]>,
    /// Time of its steps ÷ that of as many of the better links that do the same; null if there are no others.
    pub slowdown: Option<f64>,
    /// The same of its typical step: the median.
    pub typical_slowdown: Option<f64>,
    /// Steps that take far longer than nearly all of the better links; null if there are no others.
    pub slow_steps: Option<u64>,
    /// The probability that chance alone makes a link this slow; null if there are no others to compare.
    pub chance: Option<f64>,
    /// Set if the slowdown changed while the job ran.
    pub change: Option<Change>,
    /// Time sends and receives spent waiting, by what they waited for, in ns.
    pub waits: Waits,
    /// Network interfaces of senders: indices in [`super::Report::nics`]. Empty without topology.
    pub from_nics: Vec<u32>,
    /// Network interfaces of receivers: indices in [`super::Report::nics`]. Empty without topology.
    pub to_nics: Vec<u32>,
    /// How far senders' GPUs are from them: NCCL's `PIX`, `PXB`, `PHB` or `SYS`.
    pub nic_paths: Vec<String>,
    /// Time that all ranks lose because it is slow, in ns; null if it is not.
    pub lost_ns: Option<u64>,
}

/// How long proxies waited, by what they waited for, in ns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Waits {
    /// The sender's GPU had not produced the data (`SendGPUWait`).
    pub send_gpu_ns: u64,
    /// The receiver had no free buffer (`SendPeerWait`).
    pub send_peer_ns: u64,
    /// The network (`SendWait`).
    pub send_ns: u64,
    /// Data that had not arrived (`RecvWait`).
    pub recv_ns: u64,
    /// Flushing to the receiver's memory (`RecvFlushWait`).
    pub recv_flush_ns: u64,
    /// The receiver's GPU had not taken the data (`RecvGPUWait`).
    pub recv_gpu_ns: u64,
}

impl AddAssign for Waits {
    fn add_assign(&mut self, other: Self) {
        self.send_gpu_ns += other.send_gpu_ns;
        self.send_peer_ns += other.send_peer_ns;
        self.send_ns += other.send_ns;
        self.recv_ns += other.recv_ns;
        self.recv_flush_ns += other.recv_flush_ns;
        self.recv_gpu_ns += other.recv_gpu_ns;
    }
}

/// A rank of the job: what runs on one GPU of one process, under all its communicators.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct Rank {
    /// The rank in the communicator that contains all ranks, else the launcher's rank, else the group's name.
    pub name: String,
    pub number: Option<u32>,
    pub process: String,
    pub host: String,
    pub members: Vec<Member>,
    /// Error of its arrivals relative to ranks on the same host; null if unknown.
    pub uncertainty_ns: Option<u64>,
    pub budget: Budget,
    /// Comparable collectives in which it took part.
    pub instances: u64,
    /// How often it was last by more than the clocks' uncertainty, not counting first collectives.
    pub last: u64,
    /// How long others waited in collectives to which it came last, summed over them, in ns.
    pub caused_ns: u64,
    /// The same with messages: how long others waited while it was the last to come. It may have waited itself.
    pub awaited_ns: u64,
    /// Its own time between meetings with its peers, summed over all comparisons, in ns; null if there is none.
    pub own_ns: Option<u64>,
    /// What its own time exceeds the median of its peers by: median over comparisons, in ns.
    pub typical_ns: Option<f64>,
    /// Upper bound on the probability that chance alone gives any rank such times. Below 0.001 the rank is late, if it
    /// costs the others 2 %; null: chance easily does, or the others lose nothing by it.
    pub p_value: Option<f64>,
    /// If it is late: how much longer it takes than its peers, beyond chance, in ns.
    pub longer_ns: Option<u64>,
    /// If it is late: the share of comparisons in which it takes longer.
    pub late_in: Option<f64>,
    /// If it is late: its part of what the others would spend less in operations if no rank was late, in ns.
    pub lost_ns: Option<u64>,
    /// If it is late: what the others would spend less if only this rank was not late, in ns.
    pub alone_ns: Option<u64>,
    /// Trend of the lateness: median of the slopes between parts of the run, in ns per second.
    pub trend_ns_per_s: Option<f64>,
    pub change: Option<Change>,
    /// What delayed it; null if it is not late.
    pub why: Option<Why>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Member {
    pub communicator: u32,
    pub rank: u32,
    pub location: u64,
}

/// A value that changed once while the job ran.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct Change {
    pub at_ns: u64,
    pub before: f64,
    pub after: f64,
}

#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct Heat {
    /// Start of the first bin.
    pub from_ns: u64,
    pub bin_ns: u64,
    /// By rank and bin: mean lateness relative to the median rank, in ns, over nearby operations where a bin has fewer
    /// than 21; null without comparable operations.
    pub ranks: Vec<Vec<Option<f64>>>,
}

/// The ranges of one name within the same ranges, and what was called in them, not in ranges inside them.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct Phase {
    /// The names of the ranges around it and its own, outermost first; empty: outside of ranges.
    pub path: Vec<String>,
    /// How often the range was recorded, on all threads.
    pub ranges: u64,
    /// Its time summed over threads, ranges inside included.
    pub ranges_ns: u64,
    /// Operations of its calls, counted on every rank.
    pub operations: u64,
    /// Bytes of these operations.
    pub bytes: u64,
    /// How ranks spent their time in these operations.
    pub budget: Budget,
    /// The rank that spent most time in the range; null unless it is 2 % more than the median of several others.
    pub longest: Option<PhaseRank>,
}

/// A rank's time in a range of the program, beside that of the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct PhaseRank {
    /// Index in [`super::Report::ranks`].
    pub rank: u32,
    /// Its time in the range in the whole run, ranges inside included.
    pub ns: u64,
    /// The median of the other ranks.
    pub others_ns: u64,
}

#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct Steps {
    /// The name of the range that is a step.
    pub name: String,
    pub processes: u64,
    /// Durations of the steps: of each that of the slowest thread, in ns.
    pub duration_ns: Option<Quantiles>,
    /// By how much a step is longer than the one before, in ns: the median of slopes; null for fewer than 30 steps.
    pub trend_ns_per_step: Option<f64>,
    pub steps: Vec<Step>,
}

#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct Step {
    /// The number in the range's name; its place if the name has none.
    pub number: u64,
    /// When the first thread began it.
    pub start_ns: u64,
    /// How long the slowest thread took; a process may have several threads that take steps, each for a rank.
    pub duration_ns: u64,
    /// How long the fastest thread took.
    pub shortest_ns: u64,
    /// The rank of the slowest thread: index in [`super::Report::ranks`]; null if unknown.
    pub slowest: Option<u32>,
    /// The step's time, summed over the ranks whose thread is known.
    pub ranks_ns: u64,
    /// How ranks spent their time in operations that were enqueued in the step.
    pub budget: Budget,
}

/// A call on all ranks of a communicator that makes or ends it.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct CommunicatorCall {
    pub function: String,
    /// The communicator's name, or its id; empty if it is unknown.
    pub communicator: String,
    pub ranks: u64,
    /// When the first rank called.
    pub start_ns: u64,
    /// How many of the calls had not returned when the recording ended.
    pub unfinished: u64,
    /// How long the longest call took.
    pub duration_ns: u64,
    /// From the first call to the last.
    pub skew_ns: u64,
    /// The rank, in that communicator, that called last; null if it is unknown.
    pub last_rank: Option<u32>,
    /// The process of that rank.
    pub last_process: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum PathKind {
    /// Outside of operations, other than launching.
    Computing,
    /// From a call to the beginning of its operation.
    Launching,
    /// In an operation, after the last rank had arrived.
    Transfer,
    /// In a first collective, in which NCCL connects ranks.
    WarmUp,
    /// In an operation whose waiting the recording or the clocks do not show.
    Unclear,
}

/// From the end of the last operation back through what each operation waited for. The parts add up to its length.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct CriticalPath {
    pub from_ns: u64,
    pub to_ns: u64,
    /// Operations on the path.
    pub operations: u64,
    pub computing_ns: u64,
    pub launching_ns: u64,
    pub transfer_ns: u64,
    pub warm_up_ns: u64,
    pub unclear_ns: u64,
    /// The longest first.
    pub parts: Vec<PathPart>,
    pub sentence: String,
}

#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct PathPart {
    pub kind: PathKind,
    /// Null for transfer.
    pub rank: Option<u32>,
    /// Null outside of operations.
    pub function: Option<String>,
    pub communicator: Option<u32>,
    /// Of transfer: the ends of a message, or the link that was found to be slow.
    pub link: Option<LinkKey>,
    /// The range of the program that the rank was in for most of the time.
    pub phase: Option<CausePhase>,
    /// Length of this part: the job would be shorter by at most this much if the part took no time.
    pub ns: u64,
    pub share: f64,
    /// Of computing of a late rank: what the others lose by this rank alone, in ns; see `alone_ns` of the rank.
    pub lost_ns: Option<u64>,
    /// How often the path goes through it.
    pub times: u64,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct CausePhase {
    /// The names of the ranges around it and its own, outermost first.
    pub path: Vec<String>,
    /// Its share of the time in which others waited.
    pub share: f64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Delay {
    /// It calls late.
    Call,
    /// It calls in time, and launches late.
    Launch,
    /// It launches in time, and its GPU begins late.
    Gpu,
}

/// What delays a late rank. The times `…_ns` but `later_ns` add up to the time by which its operations come later.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct Why {
    /// What delayed it for at least half of the time; null if nothing did, or if it is not known.
    pub reason: Option<Delay>,
    /// By how much more than its peers: the median of the operations that this delays, weighted by how late they come.
    pub later_ns: Option<u64>,
    /// If its calls came late: the range of the program that it was in before them.
    pub phase: Option<CausePhase>,
    pub call_ns: u64,
    pub launch_ns: u64,
    pub gpu_ns: u64,
    pub unknown_ns: u64,
    /// Why most of the time is unknown; null if it is not.
    pub missing: Option<String>,
}

impl CausePhase {
    /// For example " Meanwhile it was in `step # > load`, 97 % of the time."
    pub fn sentence(&self) -> String {
        let path = path_of_ranges(&self.path);
        format!(" Meanwhile it was in `{path}`, {:.0} % of the time.", self.share * 100.0)
    }
}
