//! Across locations: the members of a communicator do the same collectives in the same order.

use std::collections::{BTreeMap, BTreeSet};

use analysis::Sequences;
use otf2::{Collective, CollectiveOp, CommRef, LocationRef};

use crate::check::findings::Findings;
use crate::check::rules::Rule;
use crate::check::subject::Subject;

/// What the members of all communicators did.
#[derive(Default)]
pub(super) struct Collectives {
    sequences: BTreeMap<CommRef, Sequences<Part>>,
    /// After a first difference of operations everything differs.
    lost: BTreeSet<(CommRef, u32)>,
}

/// What one rank says about a collective.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Part {
    op: CollectiveOp,
    root: Option<u32>,
    sent: u64,
    received: u64,
}

impl Collectives {
    /// Takes in a collective of a rank.
    pub(super) fn add(&mut self, subject: Subject<'_>, rank: u32, collective: &Collective, findings: &mut Findings) {
        let comm = collective.comm;
        let part = Part {
            op: collective.op,
            root: collective.root,
            sent: collective.bytes_sent,
            received: collective.bytes_received,
        };
        let other = self.sequences.entry(comm).or_default().add(rank, part);
        let Some(other) = other.filter(|_| !self.lost.contains(&(comm, rank))) else {
            return;
        };
        let Some((rule, difference)) = difference(other.thing, &part, other.rank, rank) else {
            return;
        };
        if rule == Rule::CollectiveOrder {
            self.lost.insert((comm, rank));
        }
        let Subject { trace, said } = subject;
        let name = trace.comm_name(comm);
        // Where something is missing in the middle, places in the order mean nothing; what the archive states the
        // program did, and the archive is as it should be.
        let is_admitted = said.has_gaps() || subject.is_stated(&name);
        // Counted from 1, as in the archive's list of mismatches and in `hang`.
        let (at, other) = (other.place + 1, other.rank);
        let message = format!("{name}: collective {at}: rank {other} and rank {rank} {difference}");
        findings.general(subject.rule(rule, is_admitted), message);
    }

    /// How many a rank has.
    pub(super) fn count(&self, comm: CommRef, rank: u32) -> u64 {
        let sequence = self.sequences.get(&comm);
        sequence.map_or(0, |sequence| sequence.count(rank) as u64)
    }

    /// Whether a communicator has any.
    pub(super) fn has_some(&self, comm: CommRef) -> bool {
        self.sequences.contains_key(&comm)
    }

    /// No more events: the members of each communicator have equally many.
    pub(super) fn end(&self, subject: Subject<'_>, unreadable: &BTreeSet<LocationRef>, findings: &mut Findings) {
        let Subject { trace, said } = subject;
        for (comm, sequence) in &self.sequences {
            let Some((longest, most)) = sequence.longest() else {
                continue;
            };
            for (rank, location) in (0..).zip(trace.members(*comm)) {
                let here = sequence.count(rank);
                if here == most || !subject.is_known(*location, unreadable) {
                    continue;
                }
                let name = trace.comm_name(*comm);
                let is_admitted = said.is_partial() || subject.is_stated(&name);
                let message = format!("{name}: rank {rank} takes part in {here} collectives, rank {longest} in {most}");
                findings.general(subject.rule(Rule::CollectiveRank, is_admitted), message);
            }
        }
    }
}

/// In what two ranks' parts in one collective differ that must be the same.
fn difference(a: &Part, b: &Part, rank_a: u32, rank_b: u32) -> Option<(Rule, String)> {
    if a.op != b.op {
        let text = format!("do different operations, {:?} and {:?}", a.op, b.op);
        return Some((Rule::CollectiveOrder, text));
    }
    if a.root != b.root {
        let text = format!("name different roots, {:?} and {:?}", a.root, b.root);
        return Some((Rule::CollectiveOrder, text));
    }
    let is_root = |rank: u32| a.root == Some(rank);
    let same_sent = a.sent == b.sent;
    let same_received = a.received == b.received;
    let fits = match a.op {
        // Sizes may differ between ranks.
        CollectiveOp::Gatherv
        | CollectiveOp::Scatterv
        | CollectiveOp::Allgatherv
        | CollectiveOp::Alltoallv
        | CollectiveOp::Alltoallw
        | CollectiveOp::ReduceScatter => true,
        // The root is special on one side.
        CollectiveOp::Bcast | CollectiveOp::Scatter => {
            same_received && (same_sent || is_root(rank_a) != is_root(rank_b))
        }
        CollectiveOp::Reduce | CollectiveOp::Gather => {
            same_sent && (same_received || is_root(rank_a) != is_root(rank_b))
        }
        _ => same_sent && same_received,
    };
    (!fits).then(|| {
        let text = format!("send {} and {} bytes, receive {} and {}", a.sent, b.sent, a.received, b.received);
        (Rule::CollectiveBytes, text)
    })
}
