//! Ranks that do not do the same: the reports of `nccl-otf2 hang` on jobs that wait for ever, and of the archive on
//! calls that differ.

mod first_init;
mod flight;
mod job;
mod live;
mod mismatch;
mod quiet;
mod scenarios;
mod steps;
mod watch;
