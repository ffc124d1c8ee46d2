//! Turns a process's tables into a timeline, and the timeline into events. [`locations`] has what each kind of location
//! contains. The crate is separate from `archive`: the code here runs once per event and is built for speed, the code
//! of `archive` runs once per part.

#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::unreachable))]
#![cfg_attr(not(test), deny(clippy::indexing_slicing, clippy::print_stdout, clippy::print_stderr))]

use crate::builder::{Timeline, TimelineBuilder};
use crate::locations::threads;
use model::process::Process;
use nccl_events::schema::Counts;

pub mod attributes;
pub mod builder;
pub mod definitions;
pub mod events;
pub mod instance;
pub mod locations;
pub mod messages;

/// Builds the locations of a process with their region instances and messages.
pub fn build(model: &Process<'_>) -> (Timeline, Counts) {
    let mut builder = TimelineBuilder::new(model.tables, model.level);
    threads::build_locations(model, &mut builder);
    builder.finish(model)
}
