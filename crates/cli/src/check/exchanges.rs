//! Across locations: the members of a communicator do the same collectives in the same order, and every
//! message that is sent is received.

use std::collections::{BTreeMap, BTreeSet};

use otf2::{Collective, CollectiveOp, CommRef, Event, EventKind, LocationRef, Message};

use crate::archive::{Trace, members};
use crate::completeness::Completeness;

use super::findings::{Findings, Rule};

/// What the members of all communicators did.
pub(crate) struct Exchanges {
    comms: BTreeMap<CommRef, Members>,
    /// By location: the communicators it is a member of, with its rank.
    ranks: BTreeMap<LocationRef, Vec<(CommRef, u32)>>,
    unreadable: BTreeSet<LocationRef>,
}

/// A communicator.
#[derive(Default)]
struct Members {
    locations: Vec<LocationRef>,
    /// By rank.
    collectives: Vec<Vec<Part>>,
    /// By sender, receiver and tag.
    messages: BTreeMap<(u32, u32, u32), Sizes>,
}

/// Sizes of messages as sent and as received.
type Sizes = (Vec<u64>, Vec<u64>);

/// What one rank says about a collective.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Part {
    op: CollectiveOp,
    root: Option<u32>,
    sent: u64,
    received: u64,
}

impl Exchanges {
    /// The communicators, nothing done yet.
    pub(crate) fn of(trace: &Trace) -> Self {
        let mut found = Self {
            comms: BTreeMap::new(),
            ranks: BTreeMap::new(),
            unreadable: BTreeSet::new(),
        };
        for comm in trace.definitions.comms.keys() {
            let locations = members(trace, *comm);
            for (rank, location) in (0..).zip(&locations) {
                let ranks = found.ranks.entry(*location).or_default();
                ranks.push((*comm, rank));
            }
            let members = Members {
                collectives: vec![Vec::new(); locations.len()],
                locations,
                messages: BTreeMap::new(),
            };
            found.comms.insert(*comm, members);
        }
        found
    }

    /// A location's events are not all known: nothing can be said about its exchanges.
    pub(crate) fn cannot_be_read(&mut self, location: LocationRef) {
        self.unreadable.insert(location);
    }

    /// Takes in an event of a location.
    pub(crate) fn event(&mut self, location: LocationRef, event: &Event) {
        match &event.kind {
            EventKind::MpiCollectiveEnd(collective)
            | EventKind::NonBlockingCollectiveComplete { collective, .. } => {
                self.collective(location, collective);
            }
            EventKind::MpiIsend { message, .. } | EventKind::MpiSend(message) => {
                self.message(location, message, true);
            }
            EventKind::MpiIrecv { message, .. } | EventKind::MpiRecv(message) => {
                self.message(location, message, false);
            }
            _ => {}
        }
    }

    fn rank(&self, location: LocationRef, comm: CommRef) -> Option<u32> {
        let ranks = self.ranks.get(&location)?.iter();
        let mut of_comm = ranks.filter(|(known, _)| *known == comm);
        of_comm.next().map(|(_, rank)| *rank)
    }

    fn collective(&mut self, location: LocationRef, collective: &Collective) {
        // A location that is no member was found when its row was checked.
        let Some(rank) = self.rank(location, collective.comm) else {
            return;
        };
        let members = self.comms.get_mut(&collective.comm);
        let place = usize::try_from(rank).ok();
        if let (Some(members), Some(place)) = (members, place)
            && let Some(parts) = members.collectives.get_mut(place)
        {
            parts.push(Part {
                op: collective.op,
                root: collective.root,
                sent: collective.bytes_sent,
                received: collective.bytes_received,
            });
        }
    }

    fn message(&mut self, location: LocationRef, message: &Message, is_send: bool) {
        let Some(rank) = self.rank(location, message.comm) else {
            return;
        };
        let Some(members) = self.comms.get_mut(&message.comm) else {
            return;
        };
        let (from, to) = if is_send {
            (rank, message.peer)
        } else {
            (message.peer, rank)
        };
        let (sent, received) = members.messages.entry((from, to, message.tag)).or_default();
        if is_send { sent } else { received }.push(message.bytes);
    }

    /// Compares the members of every communicator.
    pub(crate) fn check(mut self, trace: &Trace, account: &Completeness, findings: &mut Findings) {
        for (reference, members) in &mut self.comms {
            let comm = trace.definitions.comms.get(reference);
            let name = comm.and_then(|comm| trace.definitions.string(comm.name));
            let name = name.map_or_else(|| format!("{reference:?}"), str::to_owned);
            let check = Check {
                name,
                trace,
                unreadable: &self.unreadable,
                is_partial: account.is_partial(),
                has_losses: account.lost() > 0 || account.problem_count > 0,
            };
            check.ranks(members, findings);
            check.collectives(members, findings);
            check.messages(members, findings);
        }
    }
}

/// One communicator's comparison.
struct Check<'a> {
    name: String,
    trace: &'a Trace,
    unreadable: &'a BTreeSet<LocationRef>,
    /// Whether the archive says that something is missing from its end or its ranks.
    is_partial: bool,
    /// Whether something may be missing in the middle, so that places in the order mean nothing.
    has_losses: bool,
}

impl Check<'_> {
    fn is_recorded(&self, location: LocationRef) -> bool {
        let location = self.trace.definitions.locations.get(&location);
        location.is_some_and(|location| location.number_of_events > 0)
    }

    /// Ranks that can be compared.
    fn comparable(&self, members: &Members) -> Vec<usize> {
        let ranks = members.locations.iter().enumerate();
        ranks
            .filter(|(_, location)| {
                self.is_recorded(**location) && !self.unreadable.contains(location)
            })
            .map(|(rank, _)| rank)
            .collect()
    }

    fn ranks(&self, members: &Members, findings: &mut Findings) {
        let missing: Vec<String> = (0..)
            .zip(&members.locations)
            .filter(|(_, location)| !self.is_recorded(**location))
            .map(|(rank, _): (u32, _)| rank.to_string())
            .collect();
        let did_something = members.collectives.iter().any(|parts| !parts.is_empty());
        if missing.is_empty() || !did_something {
            return;
        }
        let message = format!(
            "{}: nothing is recorded of rank {}",
            self.name,
            missing.join(", ")
        );
        findings.general(Rule::RankMissing, message);
    }

    fn collectives(&self, members: &Members, findings: &mut Findings) {
        let ranks = self.comparable(members);
        let of = |rank: usize| members.collectives.get(rank).map_or(&[][..], Vec::as_slice);
        let Some(longest) = ranks.iter().copied().max_by_key(|rank| of(*rank).len()) else {
            return;
        };
        for rank in &ranks {
            let (here, there) = (of(*rank).len(), of(longest).len());
            if here < there {
                let rule = if self.is_partial {
                    Rule::Partial
                } else {
                    Rule::CollectiveRank
                };
                let message = format!(
                    "{}: rank {rank} takes part in {here} collectives, rank {longest} in {there}",
                    self.name
                );
                findings.general(rule, message);
            }
        }
        for (place, part) in of(longest).iter().enumerate() {
            for rank in &ranks {
                let Some(other) = of(*rank).get(place) else {
                    continue;
                };
                if let Some(difference) = difference(part, other, longest, *rank) {
                    let rule = if self.has_losses {
                        Rule::Partial
                    } else {
                        Rule::CollectiveMatch
                    };
                    let message = format!(
                        "{}: collective {place}: rank {longest} and rank {rank} {difference}",
                        self.name
                    );
                    findings.general(rule, message);
                    // After a first difference of operations everything differs.
                    if part.op != other.op {
                        return;
                    }
                }
            }
        }
    }

    fn messages(&self, members: &mut Members, findings: &mut Findings) {
        let ranks = self.comparable(members);
        let is_comparable = |rank: u32| {
            let rank = usize::try_from(rank);
            rank.is_ok_and(|rank| ranks.contains(&rank))
        };
        for ((from, to, _), (sent, received)) in &mut members.messages {
            if !is_comparable(*from) || !is_comparable(*to) {
                continue;
            }
            // Sizes are compared as sets: receives are recorded in the order of their ends.
            sent.sort_unstable();
            received.sort_unstable();
            if sent == received {
                continue;
            }
            let rule = if self.is_partial {
                Rule::Partial
            } else {
                Rule::MessageMatch
            };
            let sizes = if sent.len() == received.len() {
                ", their sizes differ"
            } else {
                ""
            };
            let message = format!(
                "{}: rank {from} sends {} messages to rank {to}, which receives {}{sizes}",
                self.name,
                sent.len(),
                received.len()
            );
            findings.general(rule, message);
        }
    }
}

/// In what two ranks' parts in one collective differ that must be the same.
fn difference(a: &Part, b: &Part, rank_a: usize, rank_b: usize) -> Option<String> {
    if a.op != b.op {
        return Some(format!(
            "do different operations, {:?} and {:?}",
            a.op, b.op
        ));
    }
    if a.root != b.root {
        return Some(format!(
            "name different roots, {:?} and {:?}",
            a.root, b.root
        ));
    }
    let is_root = |rank: usize| a.root.is_some_and(|root| usize::try_from(root) == Ok(rank));
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
        format!(
            "send {} and {} bytes, receive {} and {}",
            a.sent, b.sent, a.received, b.received
        )
    })
}
