//! What is recorded at the moment: recording can be switched off and on, cut to fewer kinds of events, and limited to
//! step ranges, while the job runs (`docs/GUIDE.md`).
//!
//! A callback asks [`is_plain`], one relaxed load. It asks [`consider`] about the other starts; a start that is not
//! wanted gets no handle and is counted. The maintenance thread follows the control file and the toggle signal
//! ([`Control`]), and records every switch in the journal. The session says when communicators begin and end.

mod file;
mod filter;
mod follow;
mod kinds;
mod largest;
mod refused;
mod steps;

pub(crate) use filter::{consider, end, is_plain};
pub use follow::FILE;
pub(crate) use follow::{Control, raised};
pub(crate) use largest::LargestCommunicator;
pub use nccl_events::control::{Cause, StepSwitch, Switch, Wanted};
pub(crate) use refused::take as take_refused;
pub(crate) use steps::Answer;
