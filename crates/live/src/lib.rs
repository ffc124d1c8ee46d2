//! What running processes record, summed up while they run.
//!
//! ```text
//!  journals ─► follower (crate `journal`) ─► process: what has not ended ─► sums ─► Snapshot ─► metrics, top, watch
//! ```
//!
//! Sums begin with the first record of each process, whenever following begins: who follows anew reads the journal
//! again and comes to the same sums. What is gone by then is counted ([`Process::discarded_bytes`]).
//!
//! What is summed up follows the rules of the archive (`docs/MAPPING.md` §4) and of `stats`. This is different, because
//! less is known while a process runs:
//!
//! * An operation is summed up when all of it that began has ended and nothing came for a while ([`Options::settle`]);
//!   what comes later is counted ([`Process::late_events`]).
//! * What CUPTI and CUDA events tell of a launch is used where it comes soon; of kernels that graphs replay it is not.
//! * The GPU's timer is placed by the last bounds of a communicator rank, not by all of the job, so times by it differ
//!   within the residual of that clock. Stamps are held against those that are reported up to a second later.
//! * The k-th plan of a group has its k-th launch as long as more plans may be reported.
//! * What another process's proxy did for an operation (PXN) is not known.
//! * Arrivals are compared of collectives with a number of NCCL's, not of those that are made of sends and receives.
//! * Steps and operations that never ended are not summed up; they are open ([`Rank::open`]).

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
