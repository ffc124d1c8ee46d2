//! Reads what hung: journals of running and dead processes, and archives.

pub(crate) mod align;
pub(crate) mod archive;
mod archive_threads;
mod operations;
pub(crate) mod part;
mod range_calls;
mod threads;
