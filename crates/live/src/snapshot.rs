//! The known state at one moment, as plain data: `metrics` turns it into families, `top` shows it, `watch` judges it.
//! Also the families, which exporters write, and the options for following processes.
//!
//! Sums and histograms cover everything since each process began. [`Window`]s cover the last interval only. Times are
//! nanoseconds, moments are CLOCK_REALTIME nanoseconds, sizes are bytes, rates are bytes per second.

use std::borrow::Cow;
use std::time::Duration;

use schemars::JsonSchema;
use serde::Serialize;

pub(crate) use analysis::units::real;

/// What differs from the finished archive, because less is known while a process runs: subject and explanation.
pub const DIFFERENCES: [(&str, &str); 11] = [
    (
        "Other hosts",
        "which rank is last, what others waited for it, and skew are known for communicators whose ranks are all on \
         this host. Without two clock readings of a process, nothing of it is compared.",
    ),
    (
        "Caused waiting",
        "what others waited in the collectives to which the rank came last (`caused_ns` of `stats --json`). The \
         verdict of `stats` goes by what ranks take longer between operations than their peers.",
    ),
    (
        "Clocks",
        "ticks are placed by the clock readings before them, the GPU's timer by the last 64 bounds of each rank.",
    ),
    (
        "API groups",
        "a group counts when all of its operations, transfers and steps have ended; after a minute if a call has no \
         operation, or an operation no transfers and kernel channels although others of the communicator have.",
    ),
    (
        "Operations without an end",
        "such an operation and the rest of its group are not counted. If CUPTI or CUDA events report that its kernel \
         ended, it counts when nothing came for a minute.",
    ),
    (
        "A rank that two processes have",
        "the process that is identified later gets its own communicator; in an archive it is the later part.",
    ),
    ("Arrivals", "not compared for collectives that are made of sends and receives."),
    (
        "Kernels that overlap",
        "where a rank waits in kernels of two communicators at the same time, both count; an archive counts that \
         time once.",
    ),
    (
        "NCCL before 2.27",
        "reports no sizes of transfers: there are no pairs and channels. What proxies waited for counts here, not in \
         `stats`.",
    ),
    (
        "Late reports",
        "times by CUPTI or CUDA events count if they come within three seconds. Captured sends and receives count as \
         a collective until a replay shows that they are none.",
    ),
    (
        "Graphs and PXN",
        "kernels that graphs replay, and transfers that another process does for an operation, are not used.",
    ),
];

#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct Snapshot {
    pub at_ns: u64,
    /// Length of the last interval; 0 in the first snapshot, whose windows cover everything since each process began.
    pub interval_ns: u64,
    pub job: JobLabels,
    pub processes: Vec<Process>,
    pub communicators: Vec<Communicator>,
    pub ranks: Vec<Rank>,
    /// Collectives and point-to-point operations, by communicator, rank, function, size class, and timing.
    pub operations: Vec<Operation>,
    pub pairs: Vec<Pair>,
    pub channels: Vec<Channel>,
    pub proxies: Vec<Proxy>,
    /// Skew of collectives whose ranks are all on this node, by communicator.
    pub skews: Vec<CollectiveSkew>,
    /// Number of series folded to bound the total: into communicator, function and algorithm `other` of rank 0.
    pub folded: u64,
    /// Processes of this node that ended before they could be read: their journals are gone.
    pub processes_missed: u64,
    /// Processes that record on other nodes, where they can be followed.
    pub processes_elsewhere: u64,
    /// Why parts cannot be read, one reason for each.
    pub unreadable: Vec<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct JobLabels {
    pub host: String,
    /// The job's id, such as Slurm's; empty if there is none.
    pub job: String,
    /// The launcher, such as `slurm`; empty if there is none.
    pub launcher: String,
    pub cluster: String,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ProcessState {
    #[default]
    Running,
    Stopped,
    /// The process finalized its communicators, or its part is written.
    Finished,
    /// The process is gone without having ended its recording.
    Gone,
    /// The process cannot be seen from here, and has no recent record.
    Unknown,
}

#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct Process {
    pub part: String,
    pub pid: u32,
    pub state: ProcessState,
    /// Time of the last record, CLOCK_REALTIME ns; `None` before the first one is read.
    pub last_record_ns: Option<u64>,
    pub records: u64,
    pub behind_bytes: u64,
    /// Age of the oldest unread record; 0 if all are read.
    pub behind_ns: u64,
    /// Bytes removed before they were read (flight recordings, segments over the limit, ended processes).
    pub discarded_bytes: u64,
    pub lost_events: u64,
    /// Number of places in the journal with unreadable records.
    pub damaged: u64,
    /// Unreadable bytes, including those skipped behind damaged records.
    pub damaged_bytes: u64,
    /// The first thing that cannot be read.
    pub problem: Option<String>,
    /// Events that came after their operation had entered the sums, or whose start is unknown.
    pub late_events: u64,
}

#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct Communicator {
    pub name: String,
    pub ranks: u32,
    pub here: u32,
    /// Number of nodes, if NCCL reports it.
    pub nodes: Option<u32>,
}

#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct Rank {
    pub communicator: usize,
    pub rank: u32,
    pub process: usize,
    pub is_finalized: bool,
    /// When the rank last recorded an event of this communicator; `None` before the first.
    pub last_event_ns: Option<u64>,
    pub open: u64,
    /// Function and start of the oldest open operation.
    pub oldest: Option<(String, u64)>,
    /// How many collectives the rank was last to reach. Counts if all ranks are on this node and the difference exceeds
    /// the clocks' uncertainty; the first collective of each function is warm-up and does not count.
    pub last: u64,
    /// How long the other ranks waited then, in total.
    pub caused_waiting_ns: u64,
}

/// A rank's operations in a communicator with the same function, size class and timing.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct Operation {
    pub communicator: usize,
    pub rank: u32,
    pub function: String,
    pub is_point_to_point: bool,
    pub peer: Option<i32>,
    /// Smallest size of the class: a power of two, or 0. The largest is twice that minus 1.
    pub size_class: u64,
    /// How durations are measured: `kernelch`, `proxy`, `enqueue`, …, as in `nccl.timing`.
    pub timing: &'static str,
    /// Algorithm and protocol, such as `RING_LL`; empty if NCCL does not report them.
    pub algorithm: String,
    pub count: u64,
    /// Bytes of the operations, counted as in `stats`.
    pub bytes: u64,
    pub duration: Histogram,
    /// The last interval, with bandwidths.
    pub window: Window,
}

#[derive(Clone, Copy, Debug, Default, Serialize, JsonSchema)]
pub struct Window {
    pub count: u64,
    pub bytes: u64,
    pub duration_ns: u64,
    /// Median algorithm bandwidth; `None` if the timing does not allow one.
    pub algbw: Option<f64>,
    pub busbw: Option<f64>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct Histogram {
    /// Upper bounds in seconds, rising, without `+Inf`.
    pub bounds: &'static [f64],
    /// For each bound, the number of values up to it and above the previous bound; the last count has no bound.
    pub counts: Vec<u64>,
    /// Sum in ns: an integer, because it does not depend on the order of addition.
    pub sum_ns: u64,
}

impl Histogram {
    pub(crate) fn new(bounds: &'static [f64]) -> Self {
        Self { bounds, counts: vec![0; bounds.len() + 1], sum_ns: 0 }
    }

    pub(crate) fn add(&mut self, ns: u64) {
        let class = self.bounds.partition_point(|bound| *bound < seconds(ns));
        if let Some(count) = self.counts.get_mut(class) {
            *count += 1;
        }
        self.sum_ns += ns;
    }

    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }
}

pub(crate) const fn seconds(ns: u64) -> f64 {
    real(ns) / 1e9
}

#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct Pair {
    pub communicator: usize,
    pub from: u32,
    pub to: u32,
    pub steps: u64,
    pub bytes: u64,
    /// Regression of durations on bytes over all steps of the interval.
    pub all: Option<Fit>,
    /// The same over the least duration of each size.
    pub least: Option<Fit>,
    /// Bytes of the interval divided by the union of its transfers' times.
    pub rate: Option<f64>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct Fit {
    /// Duration at 0 bytes; `None` if all sizes are equal, or the line explains less than half of the variance.
    pub latency_ns: Option<f64>,
    /// Bytes per second; also `None` if duration does not grow with bytes.
    pub rate: Option<f64>,
    pub r2: f64,
    pub points: u64,
}

impl From<analysis::results::Fit> for Fit {
    fn from(fit: analysis::results::Fit) -> Self {
        Self { latency_ns: fit.latency_ns, rate: fit.rate, r2: fit.r_squared.unwrap_or(0.0), points: fit.points }
    }
}

#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct Channel {
    pub communicator: usize,
    pub rank: u32,
    pub channel: u32,
    pub peer: u32,
    pub is_send: bool,
    pub steps: u64,
    pub bytes: u64,
    /// Durations, measured from the moment the data was handed to the network.
    pub duration: Histogram,
}

/// What the proxy of a rank waited for, summed over its steps.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct Proxy {
    pub communicator: usize,
    pub rank: u32,
    pub gpu_wait_ns: u64,
    pub peer_wait_ns: u64,
    pub network_ns: u64,
}

/// Skew of the collectives of a communicator whose ranks are all on this node.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct CollectiveSkew {
    pub communicator: usize,
    pub skew: Histogram,
    pub count: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MetricKind {
    Counter,
    Gauge,
    Histogram,
}

/// A metric for exporters: samples with labels, in base units.
#[derive(Clone, Debug, PartialEq)]
pub struct Family {
    /// Name with its base unit, such as `nccl_operation_bytes`; exporters add `_total` to counters.
    pub name: Cow<'static, str>,
    pub help: Cow<'static, str>,
    /// `bytes`, `seconds`, `bytes_per_second`, `ratio`; empty for plain numbers.
    pub unit: &'static str,
    pub kind: MetricKind,
    pub samples: Vec<Sample>,
}

pub type Label = (&'static str, String);

#[derive(Clone, Debug, PartialEq)]
pub struct Sample {
    /// In the order of the family, without duplicate names.
    pub labels: Vec<Label>,
    pub value: Value,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    Number(f64),
    /// An integer counter: exact above 2^53.
    Count(u64),
    Histogram(Buckets),
}

/// A histogram in the unit of its family.
#[derive(Clone, Debug, PartialEq)]
pub struct Buckets {
    /// Upper bounds, rising, without `+Inf`.
    pub bounds: &'static [f64],
    /// For each bound, the number of values up to it and above the previous bound; the last count has no bound.
    pub counts: Vec<u64>,
    pub sum: f64,
}

impl Buckets {
    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }
}

impl From<&Histogram> for Buckets {
    fn from(of: &Histogram) -> Self {
        Self { bounds: of.bounds, counts: of.counts.clone(), sum: seconds(of.sum_ns) }
    }
}

/// Upper bounds of durations in seconds: 5 µs to 10 s, three per decade.
pub const DURATION_BOUNDS: &[f64] =
    &[5e-6, 1e-5, 2e-5, 5e-5, 1e-4, 2e-4, 5e-4, 1e-3, 2e-3, 5e-3, 1e-2, 2e-2, 5e-2, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0];

/// Options for following processes.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Upper bounds of the classes of durations, in seconds, rising.
    pub duration_bounds: &'static [f64],
    /// Limit on the number of series; further ones are folded into one.
    pub max_series: usize,
    /// Limit on the bytes of journals that one poll reads.
    pub poll_bytes: u64,
    /// An operation is complete when every part that began has ended and no record came for this long.
    pub settle: Duration,
    /// How often to look for new processes in the directory, and whether processes are alive.
    pub scan: Duration,
}

impl Options {
    /// How long after its last record an operation that has ended is in the sums.
    pub fn until_counted(&self) -> Duration {
        model::running::until_settled(self.settle)
    }
}

impl Default for Options {
    fn default() -> Self {
        Self {
            duration_bounds: DURATION_BOUNDS,
            max_series: 10_000,
            poll_bytes: 8 << 20,
            settle: Duration::from_secs(1),
            scan: Duration::from_secs(1),
        }
    }
}
