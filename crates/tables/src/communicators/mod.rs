//! Who talks to whom: the communicators of a process and this process's ranks in them.
//!
//! A communicator is (NCCL's id, number of ranks, zero-based index of that pair): all ranks find the same
//! without talking. The repetition is counted here per rank, in order of creation, because a process
//! with several GPUs initialises the same communicator once for each of its ranks.
//!
//! NCCL's v1–v3 interfaces give neither id nor rank at `init`: there the hash of the first operation
//! that has one is the id, its rank the rank, and the size is known when all parts are together. A
//! communicator that never did anything is one of its own.

pub mod callers;
mod comm;
pub mod devices;
mod gpus;
mod identify;

pub use self::comm::{Comm, CommIdentity, Member};
pub use self::gpus::Gpu;
pub use self::identify::Comms;
