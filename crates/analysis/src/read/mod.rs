//! An archive as tables, read once: streamed by location on all cores, with memory only for the rows.
//!
//! Bytes per row: operation 37 to 73, call 65, launch 40, kernel 37. Of the network, readers keep what they need.

pub(crate) mod archive;
pub(crate) mod columns;
mod network;
mod rows;
mod tables;

pub(crate) use crate::read::columns::{Column, NarrowColumn, ShortNumber};
pub use crate::read::network::Network;
pub use crate::read::rows::{
    Call, Calls, Kernel, Kernels, Launch, Launches, NO_SEQUENCE, NONE, Operation, Operations, Range, Ranges, Step,
    Transfer, Transfers,
};
pub(crate) use crate::read::tables::JobRank;
pub use crate::read::tables::{Member, Members, Tables};
