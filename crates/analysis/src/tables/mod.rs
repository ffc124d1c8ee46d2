//! An archive as tables, read once: streamed by location on all cores, with memory only for the rows.
//!
//! Bytes per row: operation 73, call 65, launch 40, transfer 17, step 28, kernel 37.

mod columns;
mod members;
mod paths;
mod read;
mod rows;

pub(crate) use members::JobRank;
pub use members::{Member, Members};
pub(crate) use nccl_events::index::{index as large, index_u32 as small};
pub use read::Tables;
pub use rows::{
    Call, Calls, Kernel, Kernels, Launch, Launches, NO_SEQUENCE, NONE, Operation, Operations, Step, Steps, Transfer,
    Transfers,
};
pub use rows::{Range, Ranges};
