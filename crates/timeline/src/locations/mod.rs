//! What each kind of location contains.

mod communicators;
pub mod metrics;
pub mod network;
pub mod threads;
