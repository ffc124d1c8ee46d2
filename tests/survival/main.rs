//! What programs, kills, panics, disks, other users and accidents do to a recording: the job continues, `finalize`
//! ends, the archive has all that can be read, and what is missing is said.
//!
//! Processes that die at random instants are in `tests/torture`, full disks in `tests/recording/no_room.rs`.

mod jobs;
mod journals;
mod killed;
mod lost;
mod owners;
mod panic;
mod parts;
mod process_life;
