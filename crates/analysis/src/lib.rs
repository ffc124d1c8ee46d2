//! Turns finished archives into tables, for all code that answers questions about them.
//!
//! ```text
//!  archive ─► read         `Trace`: the resolved definitions (names, kinds of locations and regions, ranks, hosts) and
//!           │              statements; tables of operations, calls, launches, transfers, steps, kernels: read once
//!           └► instances   the events: each region instance with its known attributes (fields), or with all of them;
//!                          whether ranks do the same in the same order
//!  read ─► statistics      arrivals, waiting, links, causes, the verdict, the comparison of two runs
//!           ├► reasons     why a late rank is late, and the critical path
//!           ├► links       what moved over which network interface, and what NCCL's graphs allow
//!           └► baseline    what another measurement gives for the same collectives
//!  results                 all of these as plain data
//!  units, names            numbers and names as people read them
//! ```
//!
//! Kinds come from location properties and from canonical names of regions, ranks from the groups of communicators.

#![forbid(unsafe_code)]

pub mod baseline;
mod instances;
mod lateness;
pub mod links;
pub mod names;
pub mod read;
pub mod reasons;
pub mod results;
mod statistics;
pub mod units;

pub use crate::instances::{
    Connection, ConnectionRank, Instance, InstanceOf, Instances, Lane, LaneKind, Sequences, Slice, Slices, Step,
};
pub use crate::read::archive::{
    Boot, Clock, Fields, Recorded, RegionInfo, Role, Trace, in_parallel, is_merged, is_nccl, property, stated,
    try_in_parallel,
};
pub use crate::results::{Completeness, Matching, Statement};
pub use crate::statistics::{
    Analysis, Arrival, Arrivals, Filter, Incomparable, Instance as MatchedCollective, Instances as MatchedCollectives,
    Placement, ProgramStep, Regression, RunSamples, SentStep, Split, WaitsFor, analyse, analyse_and, compare,
    is_slower_by, length, median, program_steps, shapes, union,
};
