//! What is checked.

use std::collections::BTreeSet;

use analysis::Trace;
use otf2::LocationRef;
use schema::Statements;

use super::rules::Rule;

/// An archive, and what it says of itself.
#[derive(Clone, Copy)]
pub(super) struct Subject<'a> {
    pub(super) trace: &'a Trace,
    pub(super) said: &'a Statements,
}

impl Subject<'_> {
    /// Whether a location has events, and they could be read.
    pub(super) fn is_known(&self, location: LocationRef, unreadable: &BTreeSet<LocationRef>) -> bool {
        self.trace.has_events(location) && !unreadable.contains(&location)
    }

    /// Whether the archive says itself that the ranks of a communicator do not call the same.
    pub(super) fn is_stated(&self, comm: &str) -> bool {
        self.said.differences().flat_map(|listed| &listed.lines.all).any(|line| {
            let rest = line.strip_prefix(comm);
            rest.is_some_and(|rest| rest.starts_with(": "))
        })
    }

    /// The rule that is broken where ranks do not have each other's operations: where the archive says that something
    /// is missing there is nothing wrong with it.
    pub(super) fn rule(&self, rule: Rule, is_admitted: bool) -> Rule {
        if is_admitted { Rule::Partial } else { rule }
    }
}
