//! A trace that torch.profiler made, and a copy of it with what the archive knows.
//!
//! ```text
//!  stream    the file, event by event: the file itself is not kept in memory
//!   ├► read    once: rank, clock, processes, and the kernels of NCCL's
//!   │   matching  which kernel is which of ours
//!   └► write   once more: every event as it is; kernels that were matched have more arguments; our tracks at the end
//! ```

mod matching;
mod read;
mod stream;
mod write;

pub(super) use read::Foreign;
pub(super) use write::Written;
