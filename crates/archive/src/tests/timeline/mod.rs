//! Region instances, messages and samples, and their locations.

mod controls;
mod operations;
mod options;
mod phases;
mod steps;
