//! Across locations: every message that is sent is received. What matches is forgotten.

use std::collections::{BTreeMap, BTreeSet};

use otf2::{CommRef, LocationRef, Message};

use crate::archive::Trace;
use crate::completeness::Completeness;

use super::findings::Findings;
use super::members::Members;
use super::rules::Rule;

/// The messages of all communicators.
#[derive(Default)]
pub(crate) struct Messages {
    /// By communicator, sender, receiver and tag.
    pairs: BTreeMap<(CommRef, u32, u32, u32), Pair>,
}

#[derive(Default)]
struct Pair {
    sent: u64,
    received: u64,
    /// By size: how many more were sent than received. Compared as sets, because receives are recorded in the
    /// order of their ends.
    open: BTreeMap<u64, i64>,
}

impl Messages {
    /// Takes in a message that a rank sends or receives.
    pub(crate) fn add(&mut self, rank: u32, message: &Message, is_send: bool) {
        let (from, to) = if is_send {
            (rank, message.peer)
        } else {
            (message.peer, rank)
        };
        let pair = self
            .pairs
            .entry((message.comm, from, to, message.tag))
            .or_default();
        let open = pair.open.entry(message.bytes).or_insert(0);
        if is_send {
            pair.sent += 1;
            *open += 1;
        } else {
            pair.received += 1;
            *open -= 1;
        }
        if *open == 0 {
            pair.open.remove(&message.bytes);
        }
    }

    /// No more events.
    pub(crate) fn end(
        &self,
        trace: &Trace,
        account: &Completeness,
        members: &Members,
        unreadable: &BTreeSet<LocationRef>,
        findings: &mut Findings,
    ) {
        for ((comm, from, to, _), pair) in &self.pairs {
            let is_known = |rank: u32| {
                let location = usize::try_from(rank)
                    .ok()
                    .and_then(|at| members.of(*comm).get(at));
                location.is_some_and(|it| trace.has_events(*it) && !unreadable.contains(it))
            };
            if pair.open.is_empty() || !is_known(*from) || !is_known(*to) {
                continue;
            }
            let same = pair.sent == pair.received;
            let rule = match (account.is_partial(), same) {
                (true, _) => Rule::Partial,
                (false, true) => Rule::MessageBytes,
                (false, false) => Rule::MessageMatch,
            };
            let sizes = if same { ", their sizes differ" } else { "" };
            let message = format!(
                "{}: rank {from} sends {} messages to rank {to}, which receives {}{sizes}",
                trace.comm_name(*comm),
                pair.sent,
                pair.received
            );
            findings.general(rule, message);
        }
    }
}
