//! An archive as tables, read once: streamed by location on all cores, with memory for the rows alone.
//!
//! A row takes 67 bytes of an operation, 52 of a call, 40 of a launch, 17 of a transfer, 28 of a step, 37 of a kernel.

mod columns;
mod members;
mod read;
mod rows;

pub use columns::Short;
pub use members::{JobRank, Member, Members};
pub(crate) use nccl_events::index::{index as large, index_u32 as small};
pub use read::Tables;
pub use rows::{
    Call, Calls, Kernel, Kernels, Launch, Launches, NO_SEQUENCE, NONE, Operation, Operations, Step, Steps, Transfer,
    Transfers,
};
