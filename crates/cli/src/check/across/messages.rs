//! Across locations: every message that is sent is received. What matches is forgotten.

use std::collections::{BTreeMap, BTreeSet};

use otf2::{CommRef, LocationRef, Message};

use crate::check::findings::Findings;
use crate::check::rules::Rule;
use crate::check::subject::Subject;

/// The messages of all communicators.
#[derive(Default)]
pub(super) struct Messages {
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
    pub(super) fn add(&mut self, rank: u32, message: &Message, is_send: bool) {
        let (from, to) = if is_send { (rank, message.peer) } else { (message.peer, rank) };
        let pair = self.pairs.entry((message.comm, from, to, message.tag)).or_default();
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
    pub(super) fn end(&self, subject: Subject<'_>, unreadable: &BTreeSet<LocationRef>, findings: &mut Findings) {
        let Subject { trace, said } = subject;
        for ((comm, from, to, _), pair) in &self.pairs {
            let is_known = |rank: u32| {
                let at = usize::try_from(rank).unwrap_or(usize::MAX);
                let location = trace.members(*comm).get(at);
                location.is_some_and(|location| subject.is_known(*location, unreadable))
            };
            if pair.open.is_empty() || !is_known(*from) || !is_known(*to) {
                continue;
            }
            let (rule, sizes) = match pair.sent == pair.received {
                true => (Rule::MessageBytes, ", their sizes differ"),
                false => (Rule::MessageMatch, ""),
            };
            let message = format!(
                "{}: rank {from} sends {} messages to rank {to}, which receives {}{sizes}",
                trace.comm_name(*comm),
                pair.sent,
                pair.received
            );
            findings.general(subject.rule(rule, said.is_partial()), message);
        }
    }
}
