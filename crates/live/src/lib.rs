//! Sums up what running processes record.
//!
//! ```text
//!  journals ─► follower (crate `journal`) ─► process ─► sums ─► Snapshot ─► metrics, top, watch
//! ```
//!
//! Sums begin with the first record of each process, whenever following begins: a later follower reads the journal
//! again and gets the same sums. Journal data removed by then is counted ([`Process::discarded_bytes`]).
//!
//! Sums follow the rules of `stats`. `docs/MONITORING.md` lists the differences: less is known while a process runs.

#![forbid(unsafe_code)]

mod contexts;
mod families;
mod live;
pub mod otlp;
mod process;
mod snapshot;
mod sums;

pub use crate::families::{Families, Names};
pub use crate::live::{Live, Progress};
pub use crate::snapshot::{
    Buckets, Channel, CollectiveSkew, Communicator, DIFFERENCES, DURATION_BOUNDS, Family, Fit, Histogram, JobLabels,
    Label, MetricKind, Operation, Options, Pair, Process, ProcessState, Proxy, Rank, Sample, Snapshot, Value, Window,
};
