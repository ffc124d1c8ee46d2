//! What running processes record, summed up while they run.
//!
//! ```text
//!  journals ─► follower (crate `journal`) ─► aggregate ─► Snapshot ─► metrics: families with labels, for exporters
//!                                                            └──────► top, watch
//! ```
//!
//! Sums begin with the first record of each process, whenever following begins: who follows anew reads the journal
//! again and comes to the same sums. What is gone by then is counted ([`Process::discarded_bytes`]).

#![forbid(unsafe_code)]

mod metric;
mod snapshot;

pub use metric::{Family, Label, MetricKind, Sample, Value};
pub use snapshot::{
    Channel, CollectiveSkew, Communicator, Fit, Histogram, JobLabels, Operation, Pair, Process, ProcessState, Proxy,
    Rank, Snapshot, Window,
};
