//! Ranks that do not call the same collectives: the program's mistake, or its end. The archive says so; here it is
//! repeated under a number.

use analysis::{Matching, Statement};

use crate::check::findings::Findings;
use crate::check::rules::Rule;

/// How many lines of a kind the writer gives.
const MOST_LINES: u64 = 100;

/// Repeats what the archive says.
pub(super) fn check(matching: &Matching, findings: &mut Findings) {
    for (kind, statement) in &matching.mismatches {
        let rule = match *kind {
            "function" => Rule::SameFunction,
            "count" => Rule::SameCount,
            "datatype" => Rule::SameDatatype,
            "root" => Rule::SameRoot,
            _ => Rule::SameOrder,
        };
        repeat(rule, statement, findings);
        complete(&format!("mismatches of {kind}"), statement, findings);
    }
    repeat(Rule::EquallyFar, &matching.ranks_behind, findings);
    repeat(Rule::MatchingKnown, &matching.unknown, findings);
    complete("communicators that cannot be matched", &matching.unknown, findings);
}

fn repeat(rule: Rule, statement: &Statement, findings: &mut Findings) {
    for line in &statement.lines {
        findings.general(rule, line);
    }
}

fn complete(what: &str, statement: &Statement, findings: &mut Findings) {
    let (said, listed) = (statement.number, statement.lines.len() as u64);
    if said.min(MOST_LINES) != listed {
        let message = format!("{said} {what} are counted, {listed} are listed");
        findings.general(Rule::Statement, message);
    }
}
