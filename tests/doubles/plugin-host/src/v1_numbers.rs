//! The numbers that version 1 has in place of strings, as NCCL's shim for version 1 finds them.
//!
//! An unknown function becomes Send, algorithm PAT, protocol SIMPLE, datatype Float64 (also `ncclUint8`,
//! which the shim forgets).

/// Number of a function.
#[must_use]
pub fn func(name: &str) -> u8 {
    match name {
        "Broadcast" => 0,
        "Reduce" => 1,
        "AllGather" => 2,
        "ReduceScatter" => 3,
        "AllReduce" => 4,
        "SendRecv" => 5,
        "Recv" => 7,
        _ => 6,
    }
}

/// Number of an algorithm.
#[must_use]
pub fn algorithm(name: &str) -> u8 {
    match name {
        "TREE" => 0,
        "RING" => 1,
        "COLLNET_DIRECT" => 2,
        "COLLNET_CHAIN" => 3,
        "NVLS" => 4,
        "NVLS_TREE" => 5,
        _ => 6,
    }
}

/// Number of a protocol.
#[must_use]
pub fn protocol(name: &str) -> u8 {
    match name {
        "LL" => 0,
        "LL128" => 1,
        _ => 2,
    }
}

/// Number of a datatype.
#[must_use]
pub fn datatype(name: &str) -> u8 {
    match name {
        "ncclInt8" => 0,
        "ncclInt32" => 2,
        "ncclUint32" => 3,
        "ncclInt64" => 4,
        "ncclUint64" => 5,
        "ncclFloat16" => 6,
        "ncclFloat32" => 7,
        "ncclBfloat16" => 9,
        _ => 8,
    }
}
