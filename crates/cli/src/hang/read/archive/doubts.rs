//! What an archive says is missing from it.

use analysis::{Completeness, Trace, statement};
use nccl_events::Kind;

use crate::units::plural;

/// What cannot be judged from the archive, and why.
pub(super) struct Doubts {
    /// Which kinds of events were recorded, as NCCL's mask.
    pub(super) event_mask: u32,
    /// Whether no record is missing.
    pub(super) is_whole: bool,
    /// Whether only the end of a recording was kept.
    pub(super) is_flight: bool,
    /// What is missing, one a line.
    pub(super) missing: Vec<String>,
    /// What does not end or differs, one a line.
    pub(super) signs: Vec<String>,
}

impl Doubts {
    pub(super) fn of(trace: &Trace) -> Self {
        let archive = &trace.archive;
        let completeness = Completeness::of(archive);
        let mut missing = Vec::new();
        let lost = completeness.lost();
        if lost > 0 {
            missing.push(format!("{} not recorded", plural(lost, "callback was", "callbacks were")));
        }
        if completeness.problem_count > 0 {
            let first = completeness.problems.first().map(String::as_str).unwrap_or_default();
            let places = plural(completeness.problem_count, "place", "places");
            missing.push(format!("{places} of the recordings could not be read, the first: {first}"));
        }
        let left_out = completeness.parts_left_out.len() as u64;
        if left_out > 0 {
            missing.push(format!("the archive lacks {}", plural(left_out, "process", "processes")));
        }
        let switched = !statement::lines(archive, "NCCL::MEASUREMENT::LIST").is_empty();
        if switched {
            missing.push("recording was switched, so the order of calls is not known".to_owned());
        }
        missing.extend(completeness.matching.unknown.lines.iter().cloned());
        let mut signs = completeness.matching.ranks_behind.lines.clone();
        let unfinished = completeness.unfinished();
        if unfinished > 0 {
            signs.push(format!("{} had not ended when recording did", plural(unfinished, "event", "events")));
        }
        Self {
            event_mask: event_mask(&statement::lines(archive, "NCCL::EVENTS")),
            is_whole: lost == 0 && !switched && completeness.problem_count == 0,
            is_flight: statement::number(archive, "NCCL::FLIGHT::PROCESSES").unwrap_or(0) > 0,
            missing,
            signs,
        }
    }
}

/// The mask of kinds of which the archive has the names.
fn event_mask(lines: &[String]) -> u32 {
    let has = |kind: &Kind| lines.iter().any(|line| line.split([',', ' ']).any(|name| name == kind.name()));
    Kind::ALL.into_iter().filter(has).map(Kind::mask).fold(0, |mask, kind| mask | kind)
}
