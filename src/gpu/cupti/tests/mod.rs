//! Tests the backend with the double of libcupti (`tests/doubles/fake-cupti`). Each scenario runs in a child process,
//! because the double, like CUPTI, can be used only once in a process; variables select its behaviour.

mod faults;
mod hang;
mod lives;
mod releases;
mod rig;
