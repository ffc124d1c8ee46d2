//! The event model, independent of interface versions: what NCCL reports, in NCCL's terms.
//!
//! `abi::vN` converts a raw descriptor to a [`Start`] or a [`State`]; all other code knows only these types. They live
//! on the stack of one callback: a [`Name`] borrows NCCL's string and ends with the callback (the recorder interns the
//! string by content).
//!
//! Units: `count` in elements, `bytes` in bytes, `gpu_ns` the GPU's globaltimer in nanoseconds. Device pointers and
//! streams are stored as numbers and never dereferenced.
#![warn(missing_docs, clippy::missing_panics_doc)]

pub mod allgatherv;
pub mod archive;
pub mod collective;
pub mod control;
pub mod event;
pub mod gpu;
pub mod id;
pub mod index;
mod name;
mod presets;
mod progress;
pub mod range;
pub mod ranks;
mod states;
pub mod table;
mod visible;

pub use event::{Body, Kind, NetData, Start};
pub use name::Name;
pub use presets::{FULL, LIGHT, Preset, STANDARD, completed, event_names};
pub use progress::Progress;
pub use states::{State, StateArgs, state};
pub use table::{Release, Table};
pub use visible::visible;

/// More ranks than any machine has. Larger values from a communicator or a launcher are ignored.
pub const MOST_RANKS: u32 = 1 << 22;

/// Description of a communicator, from `init`.
#[derive(Clone, Copy, Debug)]
pub struct CommInit<'a> {
    /// The table that NCCL called.
    pub table: Table,
    /// NCCL's id of the communicator, equal on all its ranks; 0 if the version has none (v1–v3).
    pub comm_id: u64,
    /// The user's name for the communicator; often absent.
    pub name: Name<'a>,
    /// Number of hosts; 0 if not given.
    pub nodes: i32,
    /// Number of ranks; 0 if not given.
    pub ranks: i32,
    /// This rank; −1 if not given.
    pub rank: i32,
    /// The running NCCL's version as in `ncclGetVersion` (22809 = 2.28.9); 0 if unknown.
    pub nccl_version: u32,
}
