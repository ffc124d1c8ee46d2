//! What is recorded, and how much: switches, ranges of steps, flight recordings, snapshots, limits, full disks.

mod control;
mod file_size;
mod flight;
mod loss;
mod modes;
mod no_room;
mod snapshot;
mod step_ranges;
mod switches;

/// A program with more than three segments of a journal.
const MUCH: &str = "
    init c ranks=1 rank=0
    repeat 40000 {
      start g GroupApi
      stop g
    }
    finalize c
";
const EVENTS: u64 = 40_000;
