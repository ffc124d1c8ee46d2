//! Checks that all ranks of a communicator call the same collectives in the same order.
//!
//! ```text
//!  part     each rank's calls in order ─► parts/<p>/collectives (all of them)
//!                                      └► manifest (their number and a hash)
//!  archive  hashes of the ranks of a communicator ─ equal ─► no finding
//!                                      └ not equal ─► the calls of a few ranks ─► the first difference
//! ```
//!
//! If nothing is wrong, only manifests are read.

mod compare;
mod ranks;
mod report;
mod step_ranges;

pub(super) use report::Matching;

use crate::part::calls::Call;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    Function,
    Count,
    Datatype,
    Root,
    /// The same calls in another order.
    Order,
}

impl Kind {
    const ALL: [Self; 5] = [Self::Function, Self::Count, Self::Datatype, Self::Root, Self::Order];

    fn between(one: &Call, other: &Call) -> Self {
        if one.func != other.func {
            Self::Function
        } else if one.root != other.root {
            Self::Root
        } else if one.datatype != other.datatype {
            Self::Datatype
        } else {
            Self::Count
        }
    }
}
