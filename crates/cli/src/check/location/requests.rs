//! Requests of a location: made once, completed once.

use std::collections::BTreeSet;

/// The open requests of one kind.
#[derive(Debug)]
pub(super) struct Requests {
    what: &'static str,
    open: BTreeSet<u64>,
}

impl Requests {
    pub(super) fn new(what: &'static str) -> Self {
        Self { what, open: BTreeSet::new() }
    }

    /// One is made; says what is wrong with that.
    pub(super) fn make(&mut self, request: u64) -> Option<String> {
        let is_new = self.open.insert(request);
        (!is_new).then(|| format!("{} request {request} is made twice", self.what))
    }

    /// One completes; says what is wrong with that.
    pub(super) fn complete(&mut self, request: u64) -> Option<String> {
        let was_made = self.open.remove(&request);
        (!was_made).then(|| format!("{} request {request} completes and was not made", self.what))
    }

    /// No more events: says what is missing.
    pub(super) fn end(&mut self) -> Vec<String> {
        let open = std::mem::take(&mut self.open).into_iter();
        open.map(|request| format!("{} request {request} never completes", self.what)).collect()
    }
}
