//! Every message that is sent is received. Matched messages are forgotten.

use std::collections::{BTreeMap, BTreeSet};

use analysis::Trace;
use otf2::{CommRef, LocationRef, Message};

use crate::admitted::{is_known, rule_unless};
use crate::findings::Findings;
use crate::rules::Rule;

#[derive(Default)]
pub(super) struct Messages {
    /// By communicator, sender, receiver and tag.
    pairs: BTreeMap<(CommRef, u32, u32, u32), Pair>,
}

#[derive(Default)]
struct Pair {
    sent: u64,
    received: u64,
    /// By size: the excess of sends over receives. Receives are recorded in the order of their ends.
    open: BTreeMap<u64, i64>,
}

impl Messages {
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

    pub(super) fn end(&self, trace: &Trace, unreadable: &BTreeSet<LocationRef>, findings: &mut Findings) {
        for ((comm, from, to, _), pair) in &self.pairs {
            let is_known = |rank: u32| {
                let location = usize::try_from(rank).ok().and_then(|at| trace.members(*comm).get(at));
                location.is_some_and(|location| is_known(trace, *location, unreadable))
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
            findings.general(rule_unless(trace.statements.is_partial(), rule), message);
        }
    }
}
