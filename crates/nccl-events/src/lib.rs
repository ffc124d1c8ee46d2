//! The event model without versions: what NCCL reports, in NCCL's words.
//!
//! `abi::vN` turns a raw descriptor into a [`Start`] or a [`State`]; everything behind it knows only
//! these types. They live on the stack of one callback: a [`Name`] borrows NCCL's string and is gone
//! when the callback returns (the recorder interns it by content).
//!
//! Units: `count` is elements, `bytes` bytes, `gpu_ns` the GPU's globaltimer in nanoseconds. Device
//! pointers and streams are kept as numbers, never followed.
#![warn(missing_docs, clippy::missing_panics_doc)]

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

/// More ranks than any machine has: a communicator, or a launcher, that claims more is not believed.
pub const MOST_RANKS: u32 = 1 << 22;

/// What `init` says about a communicator.
#[derive(Clone, Copy, Debug)]
pub struct CommInit<'a> {
    /// Which table NCCL called.
    pub table: Table,
    /// NCCL's id of the communicator, equal on all its ranks; 0 where the version has none (v1–v3).
    pub comm_id: u64,
    /// The user's name for it; often absent.
    pub name: Name<'a>,
    /// Number of hosts; 0 where not given.
    pub nodes: i32,
    /// Number of ranks; 0 where not given.
    pub ranks: i32,
    /// This rank; −1 where not given.
    pub rank: i32,
    /// The running NCCL as `ncclGetVersion` says it (22809 = 2.28.9); 0 where it cannot be asked.
    pub nccl_version: u32,
}
