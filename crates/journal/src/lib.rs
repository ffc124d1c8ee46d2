//! The journal: what the recording half leaves behind and the writing half reads.
//!
//! One directory per process, one series of files per thread slot, each file a row of segments, each
//! segment a header and records (see `docs/FORMATS.md` for the bytes):
//!
//! ```text
//! journal/0.0   ┌ segment ─────────────────────────────┬ segment ─────────┬ … 64 in a file
//!               │ header │ record │ record │ … │ (free) │ header │ record │
//!               └────────┴────────┴────────┴───┴────────┴────────┴────────┴
//!                         └─ trusted up to header[COMMITTED] ─┘
//! ```
//!
//! Writing is one thread per slot and never waits; reading needs nothing from the writer. [`follow`] reads while
//! the process records; [`reader`] polls a follower once.
#![warn(missing_docs, clippy::missing_panics_doc)]
#![deny(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

pub mod clock;
pub mod file_size;
pub mod follow;
pub mod format;
pub mod host;
pub mod lock;
pub mod part;
pub mod private;
pub mod reader;
mod segments;
#[cfg(feature = "testing")]
pub mod testing;
pub mod writer;

pub use format::{layout, record};
