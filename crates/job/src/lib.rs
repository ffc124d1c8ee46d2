//! Which events of a process belong together, when its operations ran, and which communicators of several processes
//! are the same: rules without a store.
//!
//! The writer of archives (`trace`) and `hang` ask them when they have read a whole journal, `live` when all threads
//! were read up to the end of an operation. Events are named by what the caller has for them. Times are compared only,
//! so they may be ticks.

#![forbid(unsafe_code)]

pub mod capture;
pub mod communicators;
pub mod derived;
pub mod interval;
pub mod launch;
pub mod life;
pub mod stamps;
pub mod transfers;

/// Whether an operation has ended: all that began of it did, and it stopped itself or some of it did. A stop that got
/// lost says nothing against children that ended.
pub const fn has_ended(has_open_children: bool, has_stop: bool, has_ended_children: bool) -> bool {
    !has_open_children && (has_stop || has_ended_children)
}
