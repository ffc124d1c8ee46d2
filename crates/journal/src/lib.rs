//! The journal: the format in which the plugin records and from which archives are written.
//!
//! A process has one directory, a thread slot a series of files, a file a row of segments, and a segment a header
//! followed by records (`docs/FORMATS.md` specifies the bytes):
//!
//! ```text
//! journal/0.0   ┌ segment ─────────────────────────────┬ segment ─────────┬ … 64 in a file
//!               │ header │ record │ record │ … │ (free) │ header │ record │
//!               └────────┴────────┴────────┴───┴────────┴────────┴────────┴
//!                         └─ trusted up to header[COMMITTED] ─┘
//! ```
//!
//! Each slot has one writing thread, which never waits; readers need nothing from the writer. [`follow`] reads while
//! the process records; [`reader`] polls a follower once. [`part`] is the directory around a journal. [`host`],
//! [`uninterrupted`] and [`writing`] are what recording needs in a process that belongs to somebody else.

#![warn(missing_docs, clippy::missing_panics_doc)]
#![deny(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

pub mod clock;
pub mod follow;
pub mod format;
pub mod host;
pub mod part;
pub mod reader;
mod segments;
pub mod snapshots;
#[cfg(feature = "testing")]
pub mod testing;
pub mod uninterrupted;
pub mod writer;
pub mod writing;
