//! The records of one process that are not in the sums yet: events that have not ended, and what they refer to.
//!
//! ```text
//!  records ─► calls, contexts           what operations refer to
//!          ├► operations ◄┬─ network    proxy operations with their steps ─┐
//!          │              └─ kernels    kernel channels                    │
//!          └► settle: completed operations ─► sums ◄── steps that ended
//! ```
//!
//! Records of different slots come in any order: a child may be read before its parent. So an id whose start is still
//! to come ([`ids`]) gets an empty entry, which later records fill in.

mod calls;
mod clock;
mod contexts;
mod derived;
mod gpu;
mod ids;
mod kept;
mod meanings;
mod network;
mod open;
mod operations;
mod ranks;
mod settle;

pub(crate) use self::clock::ticks_now;
pub(crate) use self::open::{OpenEvents, Recorder};
pub(crate) use self::settle::Until;
