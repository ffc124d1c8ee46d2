//! Sums up what running processes record.
//!
//! ```text
//!  journals ─► follower (crate `journal`) ─► process: open events ─► sums ─► Snapshot ─► metrics, top, watch
//! ```
//!
//! Sums begin with the first record of each process, whenever following begins: a later follower reads the journal
//! again and gets the same sums. Journal data removed by then is counted ([`Process::discarded_bytes`]).
//!
//! Sums follow the rules of `stats`. `docs/MONITORING.md` lists the differences: less is known while a process runs.

#![forbid(unsafe_code)]

mod families;
mod live;
mod metric;
mod options;
mod part;
mod process;
mod snapshot;
mod sums;

pub use families::{Families, Names};
pub use live::{Live, Progress};
pub use metric::{Buckets, Family, Label, MetricKind, Sample, Value};
pub use options::{DURATION_BOUNDS, Options};
pub use snapshot::{
    Channel, CollectiveSkew, Communicator, Fit, Histogram, JobLabels, Operation, Pair, Process, ProcessState, Proxy,
    Rank, Snapshot, Window,
};
