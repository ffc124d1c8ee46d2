//! Finished archives as tables, for everything that answers questions about them.
//!
//! ```text
//!  archive ─► Trace        its definitions, resolved: names, kinds of locations and regions, ranks, hosts
//!          ├► statements   its properties for programs: completeness, mismatches
//!          └► instances    its events: each region instance with the attributes that it has (fields), or with all
//!               rank         the collectives and messages of a rank
//!               sequences    do ranks do the same in the same order
//!               tables       operations, calls, launches, transfers, steps, kernels: read once, on all cores
//!                derived      arrivals, waiting, links, causes; as `report` describes it
//! ```
//!
//! Kinds, ranks and siblings come from properties of locations and canonical names of regions.

#![forbid(unsafe_code)]

mod archive;
mod clock;
mod communicators;
mod derived;
mod fields;
mod instances;
mod locations;
pub mod rank;
pub mod report;
mod sequences;
mod statements;
mod system_tree;
pub mod tables;
pub mod units;

pub use archive::{RegionInfo, Shows, Trace, is_merged, is_nccl};
pub use clock::Clock;
pub use derived::{
    Analysis, Arrival, Arrivals, Filter, Incomparable, Instance as MatchedCollective, Instances as MatchedCollectives,
    Observed, Regression, analyse, compare, length, median, union,
};
pub use fields::Fields;
pub use instances::{Instance, Instances, Slice, Slices, Step};
pub use locations::{property, stated};
pub use sequences::{Counterpart, Sequences};
pub use statements::{Completeness, Matching, Statement};
pub use system_tree::Boot;
