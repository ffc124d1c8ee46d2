//! The sums over running processes equal what `stats` reports for the finished archive.

mod equal;
mod hostile;
mod rig;
mod rules;
