//! The way by CUPTI against the double of libcupti (`tests/doubles/fake-cupti`), each scenario in a process of its own: the
//! double, like CUPTI, can be used once in a process, and is told by variables what to play.

mod faults;
mod hang;
mod lives;
mod releases;
mod rig;
