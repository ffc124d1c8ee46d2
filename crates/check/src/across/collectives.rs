//! Across locations: the members of a communicator do the same collectives in the same order.

use std::collections::{BTreeMap, BTreeSet};

use analysis::{Sequences, Trace, is_nccl};
use nccl_events::archive::LocationKind;
use otf2::{Collective, CollectiveOp, CommRef, LocationRef};

use crate::admitted::{is_known, is_stated, rule_unless};
use crate::findings::Findings;
use crate::rules::Rule;

#[derive(Default)]
pub(super) struct Collectives {
    sequences: BTreeMap<CommRef, Sequences<Part>>,
    /// After the first different operation, everything differs.
    lost: BTreeSet<(CommRef, u32)>,
}

/// The properties of a collective that its ranks must agree on.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Part {
    op: CollectiveOp,
    root: Option<u32>,
    sent: u64,
    received: u64,
}

impl Collectives {
    pub(super) fn add(&mut self, trace: &Trace, rank: u32, collective: &Collective, findings: &mut Findings) {
        let Collective { op, comm, root, bytes_sent: sent, bytes_received: received } = *collective;
        let part = Part { op, root, sent, received };
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
        let name = trace.comm_name(comm);
        // If records are missing in the middle, positions are meaningless. A difference that the archive states is an
        // error of the program, not of the archive.
        let is_admitted = trace.statements.has_gaps() || is_stated(trace, &name);
        // Counted from 1, as in the archive's list of mismatches and in `hang`.
        let (at, other) = (other.place + 1, other.rank);
        let message = format!("{name}: collective {at}: rank {other} and rank {rank} {difference}");
        findings.general(rule_unless(is_admitted, rule), message);
    }

    /// Called at the end: the members of each communicator must have equally many collectives.
    pub(super) fn end(&self, trace: &Trace, unreadable: &BTreeSet<LocationRef>, findings: &mut Findings) {
        for (comm, sequence) in &self.sequences {
            let Some((longest, most)) = sequence.longest() else {
                continue;
            };
            for (rank, location) in (0..).zip(trace.members(*comm)) {
                let here = sequence.count(rank);
                if here == most || !is_known(trace, *location, unreadable) {
                    continue;
                }
                let name = trace.comm_name(*comm);
                let is_admitted = trace.statements.is_partial() || is_stated(trace, &name);
                let message = format!("{name}: rank {rank} takes part in {here} collectives, rank {longest} in {most}");
                findings.general(rule_unless(is_admitted, Rule::CollectiveRank), message);
            }
        }
    }

    /// Checks whether the archive counts its members without events.
    pub(super) fn check_members(&self, trace: &Trace, findings: &mut Findings) {
        let is_recorded = |location| trace.location_kind(location) != Some(LocationKind::NotRecorded);
        let (mut missing, mut unmatched) = (trace.statements.ranks_unlocated.get(), 0_u64);
        for comm in trace.definitions.comms.keys().copied() {
            let ranks = || (0_u32..).zip(trace.members(comm).iter().copied());
            let sequence = self.sequences.get(&comm);
            let counts: Vec<usize> = ranks()
                .filter(|(_, location)| is_recorded(*location))
                .map(|(rank, _)| sequence.map_or(0, |sequence| sequence.count(rank)))
                .collect();
            missing += (trace.members(comm).len() - counts.len()) as u64;
            if let (Some(most), Some(least)) = (counts.iter().max(), counts.iter().min()) {
                unmatched += (most - least) as u64;
            }
            let empty: Vec<String> = ranks()
                .filter(|(_, location)| !trace.has_events(*location))
                .map(|(rank, _)| rank.to_string())
                .collect();
            if !empty.is_empty() && sequence.is_some() {
                let name = trace.comm_name(comm);
                let message = format!("{name}: nothing is recorded of rank {}", empty.join(", "));
                findings.general(Rule::RankMissing, message);
            }
        }
        let (statements, is_nccl) = (&trace.statements, is_nccl(&trace.archive));
        for (counted, there, what) in [
            (statements.ranks_missing.get(), missing, "ranks that nobody recorded"),
            (statements.collectives_unmatched.get(), unmatched, "collectives that some recorded ranks do not have"),
        ] {
            if is_nccl && counted != there {
                findings
                    .general(Rule::RankStatement, format!("the archive counts {counted} {what}, there are {there}"));
            }
        }
    }
}

/// How the parts of two ranks in one collective differ, if they must not.
fn difference(a: &Part, b: &Part, rank_a: u32, rank_b: u32) -> Option<(Rule, String)> {
    if a.op != b.op {
        return Some((Rule::CollectiveOrder, format!("do different operations, {:?} and {:?}", a.op, b.op)));
    }
    if a.root != b.root {
        return Some((Rule::CollectiveOrder, format!("name different roots, {:?} and {:?}", a.root, b.root)));
    }
    let is_root = |rank: u32| a.root == Some(rank);
    let (same_sent, same_received) = (a.sent == b.sent, a.received == b.received);
    let fits = match a.op {
        // Sizes may differ between ranks.
        CollectiveOp::Gatherv
        | CollectiveOp::Scatterv
        | CollectiveOp::Allgatherv
        | CollectiveOp::Alltoallv
        | CollectiveOp::Alltoallw
        | CollectiveOp::ReduceScatter => true,
        // One of the root's sizes differs from the others.
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
