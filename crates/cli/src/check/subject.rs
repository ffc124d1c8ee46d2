//! What is checked.

use std::collections::BTreeSet;

use analysis::{Completeness, Trace};
use otf2::LocationRef;

use super::rules::Rule;

/// An archive, and what it says of itself.
#[derive(Clone, Copy)]
pub(super) struct Subject<'a> {
    pub(super) trace: &'a Trace,
    pub(super) account: &'a Completeness,
}

impl Subject<'_> {
    /// Whether a location has events, and they could be read.
    pub(super) fn is_known(&self, location: LocationRef, unreadable: &BTreeSet<LocationRef>) -> bool {
        self.trace.has_events(location) && !unreadable.contains(&location)
    }

    /// The rule that is broken where ranks do not have each other's operations: where the archive says that something
    /// is missing there is nothing wrong with it.
    pub(super) fn rule(&self, rule: Rule, is_admitted: bool) -> Rule {
        if is_admitted { Rule::Partial } else { rule }
    }
}
