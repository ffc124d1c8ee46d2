//! A torch.profiler trace, and a copy of it enriched with the archive's data.
//!
//! ```text
//!  stream    the file, event by event, without keeping the file in memory
//!   ├► read    first pass: rank, clock, processes, and the NCCL kernels
//!   │   matching  pairs the trace's kernels with the archive's
//!   └► write   second pass: copies every event; matched kernels get more arguments; the archive's tracks at the end
//! ```

mod matching;
mod read;
mod stream;
mod write;

pub(super) use read::Foreign;
pub(super) use write::Written;
