//! Which ranks are late, and what it costs.
//!
//! ```text
//!  tables ─► kernels    what each GPU ran, whom it waited for, which kernel it follows
//!             ├► series   own times of ranks between two meetings, by one clock each
//!             │   └► chance   tests whether a rank takes longer than its peers beyond chance
//!             └► replay   the job, played again with kernels that begin earlier
//!  all of these ─► late    the ranks that are late, and the time that the others lose by each
//! ```

pub(crate) mod chance;
pub(crate) mod kernels;
pub(crate) mod late;
pub(crate) mod recorded;
pub(crate) mod replay;
pub(crate) mod series;
#[cfg(test)]
mod simulation;
#[cfg(test)]
mod tests;
