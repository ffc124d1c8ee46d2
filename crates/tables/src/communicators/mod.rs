//! The communicators of a process and this process's ranks in them.
//!
//! A communicator is identified by NCCL's id, the number of ranks, and the zero-based repetition of that pair: all
//! ranks derive the same identity without communicating. Repetitions are counted per rank, in order of creation,
//! because a process with several GPUs initialises a communicator once for each of its ranks.
//!
//! NCCL's v1–v3 interfaces pass neither id nor rank to `init`. Then the hash in the first operation with one is the id,
//! that operation's rank the rank; all parts give the size. A communicator without operations is unidentified. So is
//! one with a rank or a size that cannot be: it has one member, and nobody else is in it.

pub mod callers;
mod comm;
pub mod devices;
mod gpus;
mod identify;

pub use self::comm::{Comm, CommIdentity, Member};
pub use self::gpus::Gpu;
pub use self::identify::{Comms, impossible_ranks};
