//! Finished archives as tables, for everything that answers questions about them.
//!
//! ```text
//!  archive ─► Trace        its definitions, resolved: names, kinds of locations and regions, ranks, hosts
//!          ├► statement    its properties: what the writer says of completeness, mismatches, clocks
//!          └► instances    its events: each region instance with the attributes of NCCL's that it has (fields)
//!               rank         the collectives and messages of a rank
//!               sequences    do ranks do the same in the same order
//! ```
//!
//! Kinds, ranks and siblings come from properties of locations and canonical names of regions
//! ([`nccl_events::archive`]), never from names that are for people.

#![forbid(unsafe_code)]

mod archive;
mod communicators;
mod completeness;
mod fields;
mod instances;
mod locations;
mod matching;
pub mod rank;
mod sequences;
pub mod statement;
mod system_tree;

pub use archive::{MERGED, Shows, Trace, is_merged, is_nccl};
pub use completeness::Completeness;
pub use fields::Fields;
pub use instances::{Instance, Instances, Open, Step};
pub use locations::property;
pub use matching::{Matching, Statement};
pub use sequences::{Counterpart, Sequences};
pub use system_tree::Boot;
