//! Across locations: the members of a communicator do the same collectives in the same order.
//!
//! What one rank did is the measure for the others, as it is read: four bytes for each collective of a
//! communicator, however many ranks there are.

use std::collections::{BTreeMap, BTreeSet};

use otf2::{Collective, CollectiveOp, CommRef, LocationRef};

use crate::archive::Trace;
use crate::completeness::Completeness;

use super::findings::Findings;
use super::members::Members;
use super::rules::Rule;

/// What the members of all communicators did.
#[derive(Default)]
pub(crate) struct Collectives {
    comms: BTreeMap<CommRef, Sequence>,
}

/// What one rank says about a collective.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Part {
    op: CollectiveOp,
    root: Option<u32>,
    sent: u64,
    received: u64,
}

/// The collectives of a communicator.
#[derive(Default)]
struct Sequence {
    /// Each different part once.
    parts: Vec<Part>,
    numbers: BTreeMap<Part, u32>,
    /// The collectives as the first rank that came so far has them.
    measure: Vec<u32>,
    /// From which place on whose they are.
    whose: Vec<(usize, u32)>,
    ranks: BTreeMap<u32, Rank>,
}

#[derive(Clone, Copy, Default)]
struct Rank {
    count: usize,
    /// After a first difference of operations everything differs.
    is_lost: bool,
}

/// Who speaks, and how much the archive says is missing.
pub(crate) struct Voice<'a> {
    /// The archive.
    pub(crate) trace: &'a Trace,
    /// Its account.
    pub(crate) account: &'a Completeness,
    /// The communicator.
    pub(crate) comm: CommRef,
    /// The rank.
    pub(crate) rank: u32,
}

impl Collectives {
    /// Takes in a collective of a rank.
    pub(crate) fn add(
        &mut self,
        voice: &Voice<'_>,
        collective: &Collective,
        findings: &mut Findings,
    ) {
        let sequence = self.comms.entry(voice.comm).or_default();
        let part = Part {
            op: collective.op,
            root: collective.root,
            sent: collective.bytes_sent,
            received: collective.bytes_received,
        };
        if let Some((rule, difference)) = sequence.add(voice.rank, part) {
            // Where something is missing in the middle, places in the order mean nothing.
            let has_losses = voice.account.lost() > 0 || voice.account.problem_count > 0;
            let name = voice.trace.comm_name(voice.comm);
            // The program did it; the archive is as it should be.
            let is_stated = voice.account.matching.is_stated(&name);
            let is_known = has_losses || is_stated;
            let rule = if is_known { Rule::Partial } else { rule };
            findings.general(rule, format!("{name}: {difference}"));
        }
    }

    /// How many a rank has.
    pub(crate) fn count(&self, comm: CommRef, rank: u32) -> u64 {
        let ranks = self.comms.get(&comm).map(|sequence| &sequence.ranks);
        ranks
            .and_then(|ranks| ranks.get(&rank))
            .map_or(0, |rank| rank.count as u64)
    }

    /// Whether a communicator has any.
    pub(crate) fn has_some(&self, comm: CommRef) -> bool {
        let sequence = self.comms.get(&comm);
        sequence.is_some_and(|sequence| !sequence.measure.is_empty())
    }

    /// No more events: the members of each communicator have equally many.
    pub(crate) fn end(
        &self,
        trace: &Trace,
        account: &Completeness,
        members: &Members,
        unreadable: &BTreeSet<LocationRef>,
        findings: &mut Findings,
    ) {
        for (comm, sequence) in &self.comms {
            for (rank, location) in (0..).zip(members.of(*comm)) {
                if !trace.has_events(*location) || unreadable.contains(location) {
                    continue;
                }
                let here = self.count(*comm, rank);
                let most = sequence.measure.len() as u64;
                if here < most {
                    let name = trace.comm_name(*comm);
                    let is_stated = account.matching.is_stated(&name);
                    let rule = if account.is_partial() || is_stated {
                        Rule::Partial
                    } else {
                        Rule::CollectiveRank
                    };
                    let longest = sequence.whose.last().map_or(0, |(_, rank)| *rank);
                    let message = format!(
                        "{name}: rank {rank} takes part in {here} collectives, rank {longest} in {most}"
                    );
                    findings.general(rule, message);
                }
            }
        }
    }
}

impl Sequence {
    fn number(&mut self, part: Part) -> u32 {
        if let Some(number) = self.numbers.get(&part) {
            return *number;
        }
        let number = u32::try_from(self.parts.len()).unwrap_or(u32::MAX);
        self.parts.push(part);
        self.numbers.insert(part, number);
        number
    }

    /// The next collective of a rank: in what it differs from what the others did there.
    fn add(&mut self, rank: u32, part: Part) -> Option<(Rule, String)> {
        let state = self.ranks.entry(rank).or_default();
        let place = state.count;
        state.count += 1;
        if state.is_lost {
            return None;
        }
        let Some(number) = self.measure.get(place).copied() else {
            let number = self.number(part);
            self.measure.push(number);
            if self.whose.last().is_none_or(|(_, whose)| *whose != rank) {
                self.whose.push((place, rank));
            }
            return None;
        };
        let measure = self.parts.get(usize::try_from(number).ok()?)?;
        let before = self.whose.partition_point(|(from, _)| *from <= place);
        let (_, other) = self.whose.get(before.checked_sub(1)?)?;
        let (rule, difference) = difference(measure, &part, *other, rank)?;
        if rule == Rule::CollectiveOrder
            && let Some(state) = self.ranks.get_mut(&rank)
        {
            state.is_lost = true;
        }
        // Counted from 1, as in the archive's list of mismatches and in `hang`.
        let at = place + 1;
        let message = format!("collective {at}: rank {other} and rank {rank} {difference}");
        Some((rule, message))
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
        let text = format!(
            "send {} and {} bytes, receive {} and {}",
            a.sent, b.sent, a.received, b.received
        );
        (Rule::CollectiveBytes, text)
    })
}
