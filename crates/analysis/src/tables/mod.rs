//! An archive as tables, read once: streamed by location on all cores, with memory only for the rows.
//!
//! Bytes per row: operation 37 to 73, call 65, launch 40, kernel 37. Of the network, readers keep what they need.

mod columns;
mod members;
mod network;
mod paths;
mod read;
mod rows;

pub(crate) use columns::{Column, Narrow, Short};
pub(crate) use members::JobRank;
pub use members::{Member, Members};
pub use network::Network;
pub use read::Tables;
pub use rows::{
    Call, Calls, Kernel, Kernels, Launch, Launches, NO_SEQUENCE, NONE, Operation, Operations, Step, Transfer, Transfers,
};
pub use rows::{Range, Ranges};
