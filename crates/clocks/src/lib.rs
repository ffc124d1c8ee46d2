//! Clocks: ticks to nanoseconds ([`ticks`], and [`running`] while a process runs), GPU times to nanoseconds ([`gpu`]),
//! hosts' clocks to one ([`hosts`]).
//!
//! Every clock is a [`piecewise::Piecewise`] map. If only bounds are known, [`fit`] finds the lines within them.
//! `docs/CLOCKS.md` says what follows for archives. Callers pass plain numbers, not tables or parts.

#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::unreachable))]
#![cfg_attr(not(test), deny(clippy::indexing_slicing, clippy::print_stdout, clippy::print_stderr))]

pub mod fit;
pub mod gpu;
pub mod hosts;
pub mod piecewise;
pub mod running;
pub mod ticks;
