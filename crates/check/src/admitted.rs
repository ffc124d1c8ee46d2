//! The archive's statements on what is missing, and on ranks that do not call the same.

use std::collections::BTreeSet;

use analysis::Trace;
use otf2::LocationRef;

use crate::rules::Rule;

/// Whether a location has events that could be read.
pub(crate) fn is_known(trace: &Trace, location: LocationRef, unreadable: &BTreeSet<LocationRef>) -> bool {
    trace.has_events(location) && !unreadable.contains(&location)
}

/// Whether the archive states that the ranks of a communicator do not call the same.
pub(crate) fn is_stated(trace: &Trace, comm: &str) -> bool {
    let mut lines = trace.statements.differences().flat_map(|listed| &listed.lines.all);
    lines.any(|line| line.strip_prefix(comm).is_some_and(|rest| rest.starts_with(": ")))
}

/// The rule that unequal ranks break: an archive that states what is missing is sound.
pub(crate) fn rule_unless(is_admitted: bool, rule: Rule) -> Rule {
    if is_admitted { Rule::Partial } else { rule }
}
