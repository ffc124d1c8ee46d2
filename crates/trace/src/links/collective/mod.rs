//! Collectives as OTF2 has them: operation and role.

pub(crate) mod meanings;

use nccl_events::collective::{Collective, Flow, shape};
use otf2::{CollectiveOp, RegionRole};

/// OTF2's operation.
#[must_use]
pub(crate) const fn operation(collective: Collective) -> CollectiveOp {
    match collective {
        Collective::AllReduce => CollectiveOp::Allreduce,
        Collective::AllGather => CollectiveOp::Allgather,
        Collective::ReduceScatter => CollectiveOp::ReduceScatterBlock,
        Collective::AlltoAll => CollectiveOp::Alltoall,
        Collective::Broadcast => CollectiveOp::Bcast,
        Collective::Scatter => CollectiveOp::Scatter,
        Collective::Reduce => CollectiveOp::Reduce,
        Collective::Gather => CollectiveOp::Gather,
    }
}

/// The role of the region of a function.
#[must_use]
pub(crate) fn role(func: &str) -> RegionRole {
    match (func, shape(func).map(|shape| shape.flow)) {
        ("Send" | "Recv" | "SendRecv", _) => RegionRole::Point2Point,
        (_, Some(Flow::AllToAll)) => RegionRole::CollAll2All,
        (_, Some(Flow::FromRoot { .. })) => RegionRole::CollOne2All,
        (_, Some(Flow::ToRoot)) => RegionRole::CollAll2One,
        (_, None) => RegionRole::CollOther,
    }
}
