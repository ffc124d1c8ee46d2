//! Reads what hung: journals of running and dead processes, and archives.

pub(crate) mod align;
pub(crate) mod archive;
mod archive_threads;
mod operations;
pub(crate) mod part;
mod range_calls;
mod threads;

/// Tells groups by an interface's calls and by launch plans apart: their numbers are of different things.
const OF_CALLS: u64 = 0;
const OF_PLANS: u64 = 1;
