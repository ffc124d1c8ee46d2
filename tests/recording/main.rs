//! What is recorded, and how much: switches, ranges of steps, flight recordings, snapshots, limits, full disks.

mod control;
mod file_size;
mod flight;
mod follow;
mod loss;
mod modes;
mod no_room;
mod snapshot;
mod step_ranges;
mod switches;
