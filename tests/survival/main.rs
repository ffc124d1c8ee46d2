//! What disks, other users and accidents do to what a job recorded: `finalize` ends, the archive has all that can be
//! read, and what is missing is said.
//!
//! Processes that die are in tests/torture and tests/killed.rs, full and read-only disks in tests/no_room.rs.

mod flips;
#[path = "../../crates/trace/tests/jobs/job.rs"]
#[expect(dead_code, reason = "other tests need more of it")]
mod job;
mod journals;
mod owners;
mod parts;
