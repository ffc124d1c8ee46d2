//! Ranks that do not do the same: what `nccl-otf2 hang` says of jobs that wait for ever, and what the archive says of
//! calls that differ.

mod flight;
mod job;
mod killed;
mod live;
mod mismatch;
mod quiet;
mod watch;
