//! Ranks that do not call the same collectives: the program's mistake, or its end. The archive says so; here it is
//! repeated under a number.

use schema::{Listed, Statements};

use crate::check::findings::Findings;
use crate::check::rules::Rule;

/// Repeats what the archive says.
pub(super) fn check(said: &Statements, findings: &mut Findings) {
    for (rule, what, listed) in [
        (Rule::SameFunction, "mismatches of function", &said.mismatch_function),
        (Rule::SameCount, "mismatches of count", &said.mismatch_count),
        (Rule::SameDatatype, "mismatches of datatype", &said.mismatch_datatype),
        (Rule::SameRoot, "mismatches of root", &said.mismatch_root),
        (Rule::SameOrder, "mismatches of order", &said.mismatch_order),
    ] {
        repeat(rule, listed, findings);
        complete(what, listed, findings);
    }
    repeat(Rule::EquallyFar, &said.ranks_behind, findings);
    repeat(Rule::MatchingKnown, &said.matching_unknown, findings);
    complete("communicators that cannot be matched", &said.matching_unknown, findings);
}

fn repeat(rule: Rule, listed: &Listed, findings: &mut Findings) {
    for line in listed.lines.shown() {
        findings.general(rule, line);
    }
}

fn complete(what: &str, listed: &Listed, findings: &mut Findings) {
    let (said, there) = (listed.number.get(), listed.lines.len());
    if !listed.has_enough() || there > said {
        let message = format!("{said} {what} are counted, {there} are listed");
        findings.general(Rule::Statement, message);
    }
}
