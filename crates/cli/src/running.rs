//! What `metrics` and `top` say of a job that is followed.

use live::{ProcessState, Snapshot};
use serde::Serialize;

use crate::units::time;

#[derive(Serialize)]
pub(crate) struct Line<'s> {
    format: u32,
    #[serde(flatten)]
    snapshot: &'s Snapshot,
}

impl<'s> Line<'s> {
    pub(crate) const fn of(snapshot: &'s Snapshot) -> Self {
        Self { format: 1, snapshot }
    }
}

/// A note for a job without running processes.
pub(crate) fn over(now: &Snapshot) -> Option<String> {
    let is_over = |it: &live::Process| matches!(it.state, ProcessState::Finished | ProcessState::Gone);
    let has_some = !now.processes.is_empty() || now.processes_missed > 0;
    if !has_some || now.parts_unreadable > 0 || !now.processes.iter().all(is_over) {
        return None;
    }
    let last_ns = now.processes.iter().filter_map(|it| it.last_record_ns).max();
    let since = last_ns.map_or_else(
        || "its recordings are removed".to_owned(),
        |last_ns| format!("its last record was made {} ago", time(now.at_ns.saturating_sub(last_ns))),
    );
    Some(format!(
        "the job is over, {since}: `nccl-otf2 hang` says whether it hung, `stats` and `report` say what it did; if there \
         is no archive yet, `finalize` makes it"
    ))
}
