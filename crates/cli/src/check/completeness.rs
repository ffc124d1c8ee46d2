//! The archive's account of itself: what was seen is written, or there is a reason why not.

use crate::completeness::Completeness;
use crate::units::plural;

use super::findings::{Findings, Rule};

/// Checks the sums, and repeats what the archive admits.
pub(crate) fn check(account: &Completeness, findings: &mut Findings) {
    for (kind, counts) in &account.kinds {
        let count = |what: &str| counts.get(what).copied().unwrap_or(0);
        let accounted =
            count("written") + count("left_out") + count("not_drawn") + count("duplicate");
        if count("seen") != accounted {
            let message = format!(
                "{kind}: {} seen, but {} written, {} left out, {} not drawn and {} duplicate",
                count("seen"),
                count("written"),
                count("left_out"),
                count("not_drawn"),
                count("duplicate")
            );
            findings.general(Rule::Account, message);
        }
        if count("unfinished") > 0 {
            let number = plural(count("unfinished"), "operation", "operations");
            findings.general(Rule::Unfinished, format!("{kind}: {number} had not ended"));
        }
        if count("lost") > 0 {
            let number = plural(count("lost"), "event", "events");
            findings.general(
                Rule::Lost,
                format!("{kind}: {number} could not be recorded"),
            );
        }
    }
    for (name, what) in [("stops_lost", "stops"), ("states_lost", "states")] {
        if account.number(name) > 0 {
            let message = format!("{} {what} could not be recorded", account.number(name));
            findings.general(Rule::Lost, message);
        }
    }
    for problem in &account.problems {
        findings.general(Rule::Problem, problem);
    }
    for part in &account.parts_left_out {
        findings.general(Rule::Problem, format!("left out: {part}"));
    }
}
