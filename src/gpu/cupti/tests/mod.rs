//! The backend against the double of libcupti (`tests/doubles/fake-cupti`). Each scenario runs in a child process,
//! because the double, like CUPTI, can be used once in a process; variables say what it plays.

mod faults;
mod hang;
mod lives;
mod releases;
mod rig;
