//! Communication beside computation.

use serde::Serialize;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Overlap {
    /// Index in [`super::Report::ranks`].
    pub rank: u32,
    /// Time with at least one kernel of NCCL.
    pub communication_ns: u64,
    /// Time with at least one other kernel.
    pub computation_ns: u64,
    pub overlap_ns: u64,
    /// Time with kernels of NCCL only.
    pub exposed_ns: u64,
}
