//! Decides which events of a process belong together, when its operations ran, and which communicators of several
//! processes are the same: pure rules without storage.
//!
//! The writer of archives (`trace`) and `hang` apply the rules after reading a whole journal, `live` once all threads
//! are read up to the end of an operation. Events are named by whatever the caller uses. Times are only compared, so
//! they may be ticks.

#![forbid(unsafe_code)]

pub mod capture;
pub mod communicators;
pub mod derived;
pub mod interval;
pub mod launch;
pub mod life;
pub mod ranges;
pub mod stamps;
pub mod transfers;

/// Whether an operation has ended: all its started children have, and it has a stop or an ended child. If its children
/// ended, a missing stop was lost.
pub const fn has_ended(has_open_children: bool, has_stop: bool, has_ended_children: bool) -> bool {
    !has_open_children && (has_stop || has_ended_children)
}
