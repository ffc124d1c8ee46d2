//! What is summed up of running processes is what `stats` says of the finished archive.

mod equal;
mod hostile;
mod rig;
mod rules;
