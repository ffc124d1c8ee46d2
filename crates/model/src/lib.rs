//! What happened in a process: its events as [`tables`], what belongs together ([`links`], and [`program_ranges`] for
//! NVTX ranges), and when its operations ran ([`process`], and [`running`] while the process runs); which processes are
//! one [`job`], and which of their ranks one communicator ([`communicators`]).

#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::unreachable))]
#![cfg_attr(not(test), deny(clippy::indexing_slicing, clippy::print_stdout, clippy::print_stderr))]

pub mod communicators;
pub mod job;
pub mod links;
pub mod process;
pub mod program_ranges;
pub mod running;
pub mod tables;
