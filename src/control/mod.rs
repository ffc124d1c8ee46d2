//! Controls what is recorded while the job runs: recording can be switched off and on, cut to fewer kinds of events,
//! and limited to step ranges (`docs/RECORDING.md`).
//!
//! A callback calls [`is_plain`], one relaxed load, and [`consider`] for the starts that are not plain. An unwanted
//! start gets no handle and is counted. The maintenance thread follows the control file and the toggle signal
//! ([`Control`]), and records every switch in the journal. The session reports when communicators begin and end.

mod counter;
mod file;
mod filter;
mod follow;
mod kinds;
mod largest;
pub(crate) mod named;
mod refused;
mod steps;

pub(crate) use filter::{consider, end, is_plain};
pub use follow::FILE;
pub(crate) use follow::{Control, heard, raised};
pub(crate) use largest::LargestCommunicator;
pub use nccl_events::{Cause, StepSwitch, Switch, Wanted};
pub(crate) use refused::take as take_refused;
pub(crate) use steps::Answer;
