//! Collectives as OTF2 has them: operation and role.

pub mod meanings;

use nccl_events::collective::{Collective, Flow, Function};
use otf2::{CollectiveOp, RegionRole};

pub const fn operation(collective: Collective) -> CollectiveOp {
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

pub fn role(func: &str) -> RegionRole {
    match Function::named(func) {
        Some(Function::Collective(collective)) => match collective.flow() {
            Flow::AllToAll => RegionRole::CollAll2All,
            Flow::FromRoot => RegionRole::CollOne2All,
            Flow::ToRoot => RegionRole::CollAll2One,
        },
        Some(Function::Send | Function::Recv | Function::SendRecv) => RegionRole::Point2Point,
        None => RegionRole::CollOther,
    }
}
