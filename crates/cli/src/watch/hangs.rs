//! Which verdicts of `hang` are new.

use hang::{Kind, Report};

use super::outputs::Change;

/// Identifies a verdict: its text contains times.
type Verdict = (Kind, String, String);

/// The verdicts that were reported, until nothing is found any more.
#[derive(Default)]
pub(super) struct Hangs {
    reported: Vec<Verdict>,
}

impl Hangs {
    /// What a report changes; `None` if its verdict was reported.
    pub(super) fn change(&mut self, report: &Report) -> Option<Change> {
        if !report.verdict.found {
            let had_some = !std::mem::take(&mut self.reported).is_empty();
            return had_some.then_some(Change::Cleared);
        }
        let verdict = verdict(report);
        if self.reported.contains(&verdict) {
            return None;
        }
        self.reported.push(verdict);
        Some(Change::Found)
    }
}

/// The kind, and of the first suspect the reason and the process.
fn verdict(report: &Report) -> Verdict {
    let kind = report.verdict.kind;
    if let Some(suspect) = report.suspects.first() {
        let unrecorded = || format!("{} {}", suspect.communicator, suspect.rank);
        return (kind, suspect.reason.to_string(), suspect.process.clone().unwrap_or_else(unrecorded));
    }
    let gone = report.gone().filter(|_| kind == Kind::Died).map(|process| process.part.as_str());
    (kind, String::new(), gone.collect::<Vec<_>>().join(" "))
}
