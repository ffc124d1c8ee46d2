//! Turns finished archives into tables, for all code that answers questions about them.
//!
//! ```text
//!  archive ─► Trace        the resolved definitions: names, kinds of locations and regions, ranks, hosts
//!          ├► statements   the properties written for programs: completeness, mismatches
//!          └► instances    the events: each region instance with its known attributes (fields), or with all of them
//!               sequences    whether ranks do the same in the same order
//!               tables       operations, calls, launches, transfers, steps, kernels: read once, on all cores
//!                derived      arrivals, waiting, links, causes; `report` describes the result
//! ```
//!
//! Kinds, ranks and siblings come from location properties and from canonical names of regions.

#![forbid(unsafe_code)]

mod archive;
mod clock;
mod communicators;
mod derived;
mod fields;
mod instances;
mod locations;
mod parallel;
mod sequences;
mod system_tree;
pub mod tables;
pub mod units;

pub use archive::{RegionInfo, Role, Trace, is_merged, is_nccl};
pub use clock::Clock;
pub use derived::{
    Analysis, Arrival, Arrivals, Awaits, Filter, Incomparable, Instance as MatchedCollective,
    Instances as MatchedCollectives, Observed, Regression, Sent, Shape, Split, analyse, analyse_and, compare,
    is_slower_by, length, median, size_class, union, usual_times,
};
pub use fields::{Fields, Ids};
pub use instances::{Instance, Instances, Slice, Slices, Step};
pub use locations::{property, stated};
pub use parallel::{in_parallel, try_in_parallel};
pub use results as report;
pub use results::{Completeness, Matching, Statement};
pub use sequences::Sequences;
pub use system_tree::Boot;
