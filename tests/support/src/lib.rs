//! Helpers shared by the tests of the whole plugin.
//!
//! They use the real things: the built library, real processes, NCCL's published libraries, and independent readers of
//! archives. Nothing here knows the plugin's internals.
#![expect(clippy::missing_panics_doc, reason = "help for tests: what is not as it should be fails the test")]

pub mod archive;
pub mod built;
pub mod jobs;
pub mod kinds;
pub mod machine;
pub mod pages;
pub mod process;
pub mod regions;
pub mod scenario;
pub mod scratch;
pub mod synthetic;
