//! Determines which verdicts of `hang` are new.

use hang::{Kind, Report};

use super::outputs::Change;

/// Identifies a verdict; the verdict's text contains times, so it cannot.
type Verdict = (Kind, String, String);

/// The verdicts already reported; cleared when a report finds nothing.
#[derive(Default)]
pub(super) struct Hangs {
    reported: Vec<Verdict>,
}

impl Hangs {
    /// The change a report makes; `None` if its verdict was already reported.
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

/// The kind, and the reason and process of the first suspect.
fn verdict(report: &Report) -> Verdict {
    let kind = report.verdict.kind;
    if let Some(suspect) = report.suspects.first() {
        let unrecorded = || format!("{} {}", suspect.communicator, suspect.rank);
        return (kind, suspect.reason.to_string(), suspect.process.clone().unwrap_or_else(unrecorded));
    }
    let gone = report.gone().filter(|_| kind == Kind::Died).map(|process| process.part.as_str());
    (kind, String::new(), gone.collect::<Vec<_>>().join(" "))
}
