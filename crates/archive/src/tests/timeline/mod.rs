//! Region instances, messages and samples, and their locations.

mod controls;
mod operations;
mod phases;
mod steps;
