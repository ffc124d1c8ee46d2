//! The regions of an archive for Scalasca, and the MPI function for each NCCL operation.

use otf2::{CollectiveOp, RegionRole};

/// Operations that MPI has: the canonical name for Scalasca, and the name for people.
const OPERATIONS: [(CollectiveOp, &str, &str); 8] = [
    (CollectiveOp::Allreduce, "MPI_Allreduce", "ncclAllReduce"),
    (CollectiveOp::Bcast, "MPI_Bcast", "ncclBroadcast"),
    (CollectiveOp::Reduce, "MPI_Reduce", "ncclReduce"),
    (CollectiveOp::Allgather, "MPI_Allgather", "ncclAllGather"),
    (CollectiveOp::ReduceScatterBlock, "MPI_Reduce_scatter_block", "ncclReduceScatter"),
    (CollectiveOp::Alltoall, "MPI_Alltoall", "ncclAlltoAll"),
    (CollectiveOp::Gather, "MPI_Gather", "ncclGather"),
    (CollectiveOp::Scatter, "MPI_Scatter", "ncclScatter"),
];

const OTHERS: [(&str, &str, RegionRole); 7] = [
    ("main", "main", RegionRole::Function),
    ("MPI_Init", "ncclCommInitRank", RegionRole::Function),
    ("MPI_Finalize", "ncclCommDestroy", RegionRole::Function),
    ("MPI_Isend", "ncclSend begins", RegionRole::Point2Point),
    ("MPI_Irecv", "ncclRecv begins", RegionRole::Point2Point),
    ("MPI_Wait", "ncclSend", RegionRole::Point2Point),
    ("MPI_Wait", "ncclRecv", RegionRole::Point2Point),
];
pub(super) const MAIN: u32 = 0;
pub(super) const INIT: u32 = 1;
pub(super) const FINALIZE: u32 = 2;
pub(super) const ISEND: u32 = 3;
pub(super) const IRECV: u32 = 4;
pub(super) const WAIT_SEND: u32 = 5;
pub(super) const WAIT_RECEIVE: u32 = 6;

/// All regions, by number: canonical name for Scalasca, name for people, role.
pub fn all() -> impl Iterator<Item = (&'static str, &'static str, RegionRole)> {
    let operations = OPERATIONS.iter().map(|(op, canonical, name)| (*canonical, *name, role(*op)));
    OTHERS.into_iter().chain(operations)
}

pub(super) fn collective(op: CollectiveOp) -> u32 {
    let place = (7..).zip(OPERATIONS).find(|(_, (known, ..))| *known == op);
    place.map_or(MAIN, |(place, _)| place)
}

pub(super) fn is_known(op: CollectiveOp) -> bool {
    OPERATIONS.iter().any(|(known, ..)| *known == op)
}

fn role(op: CollectiveOp) -> RegionRole {
    match op {
        CollectiveOp::Bcast | CollectiveOp::Scatter => RegionRole::CollOne2All,
        CollectiveOp::Reduce | CollectiveOp::Gather => RegionRole::CollAll2One,
        _ => RegionRole::CollAll2All,
    }
}
