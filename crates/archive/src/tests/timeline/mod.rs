//! Region instances, messages and samples, and their locations.

mod controls;
mod level;
mod operations;
mod phases;
mod steps;
