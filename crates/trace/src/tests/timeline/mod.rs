//! Which region instances, messages and samples there are, and on which locations.

mod controls;
mod net_plugin;
mod operations;
mod options;
mod phases;
mod steps;
