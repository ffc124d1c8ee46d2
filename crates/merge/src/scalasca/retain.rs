//! Keeps the NCCL operations that can be moved to first threads.

use std::collections::BTreeMap;

use exports::scalasca::rank::{End, Operation, Rank};

use super::host::{Gap, Host};
use super::order::{self, OperationId, Part};

pub(super) type Hosts<'a> = BTreeMap<u32, Host<'a>>;

pub(super) struct Communicator {
    pub(super) name: String,
    pub(super) members: Vec<u32>,
    pub(super) ranks: Vec<Rank>,
}

pub(super) fn operations(rank: &Rank) -> usize {
    rank.collectives.len() + rank.sends.len()
}

/// Moves operations between the same MPI collectives in all processes; returns how many have no place.
pub(super) fn retain(communicator: &mut Communicator, hosts: &Hosts<'_>) -> u64 {
    let Communicator { members, ranks, .. } = communicator;
    let hosts: Vec<&Host<'_>> = members.iter().filter_map(|rank| hosts.get(rank)).collect();
    let before: usize = ranks.iter().map(operations).sum();
    let gaps: Vec<Vec<Option<Gap>>> = hosts
        .iter()
        .zip(&*ranks)
        .map(|(host, rank)| rank.collectives.iter().map(|it| host.longest_gap(it.begin, it.end)).collect())
        .collect();
    let has_room = |number: usize| {
        let at = |gaps: &Vec<Option<Gap>>| gaps.get(number).copied().flatten().map(|gap| gap.collectives);
        let mut all = gaps.iter().map(at);
        let first = all.next().flatten();
        first.is_some() && all.all(|other| other == first)
    };
    for (rank, gaps) in ranks.iter_mut().zip(&gaps) {
        let collectives = std::mem::take(&mut rank.collectives).into_iter().zip(gaps).enumerate();
        rank.collectives = collectives
            .filter_map(|(number, (operation, gap))| {
                let gap = gap.filter(|_| has_room(number))?;
                Some(Operation { begin: gap.begin, end: gap.end, ..operation })
            })
            .collect();
    }
    retain_messages(&hosts, ranks);
    let after: usize = ranks.iter().map(operations).sum();
    (before - after) as u64
}

/// A message: sender, receiver, and index. Sends and receives of two ranks match in order.
type MessageNumber = (u32, u32, usize);

fn retain_ends(ranks: &mut [Rank], mut keep: impl FnMut(MessageNumber, (u32, bool), &mut End) -> bool) {
    for (own, rank) in (0..).zip(ranks) {
        for (is_send, list) in [(true, &mut rank.sends), (false, &mut rank.receives)] {
            let mut numbers: BTreeMap<u32, usize> = BTreeMap::new();
            list.retain_mut(|end| {
                let number = numbers.entry(end.peer).or_default();
                *number += 1;
                let (from, to) = if is_send { (own, end.peer) } else { (end.peer, own) };
                keep((from, to, *number), (own, is_send), end)
            });
        }
    }
}

/// Keeps messages whose ends both have a place between the same MPI collectives, and moves them there.
fn retain_messages(hosts: &[&Host<'_>], ranks: &mut [Rank]) {
    let gap = |own: u32, end: &End| hosts.get(usize::try_from(own).ok()?)?.longest_gap(end.begin, end.end);
    let mut gaps: BTreeMap<MessageNumber, Vec<Option<Gap>>> = BTreeMap::new();
    retain_ends(ranks, |key, (own, _), end| {
        gaps.entry(key).or_default().push(gap(own, end));
        true
    });
    retain_ends(ranks, |key, (own, _), end| {
        let found = gaps.get(&key).map(Vec::as_slice);
        let has_room = matches!(found, Some([Some(a), Some(b)]) if a.collectives == b.collectives);
        let gap = gap(own, end).filter(|_| has_room);
        if let Some(gap) = gap {
            (end.begin, end.end) = (gap.begin, gap.end);
        }
        gap.is_some()
    });
}

/// Keeps operations that can be replayed along with other communicators'. Returns, by communicator, how many cannot.
pub(super) fn retain_replayable(communicators: &mut [Communicator]) -> Vec<(String, u64)> {
    let mut parts: BTreeMap<u32, Vec<Part>> = BTreeMap::new();
    for (communicator, it) in communicators.iter_mut().enumerate() {
        for (rank, member) in it.ranks.iter().zip(&it.members) {
            let collectives = rank.collectives.iter().enumerate().map(|(number, operation)| Part {
                begin: operation.begin,
                end: operation.end,
                id: OperationId::Collective { communicator, number },
                is_send: false,
            });
            parts.entry(*member).or_default().extend(collectives);
        }
        let members = &it.members;
        retain_ends(&mut it.ranks, |(from, to, number), (own, is_send), end| {
            let member = usize::try_from(own).ok().and_then(|own| members.get(own));
            let id = OperationId::Message { communicator, from, to, number };
            let part = Part { begin: end.begin, end: end.end, id, is_send };
            member.map(|member| parts.entry(*member).or_default().push(part)).is_some()
        });
    }
    let left_out = order::left_out(&parts.into_values().collect::<Vec<_>>());
    let mut numbers = Vec::new();
    for (communicator, it) in communicators.iter_mut().enumerate() {
        let before: usize = it.ranks.iter().map(operations).sum();
        for rank in &mut it.ranks {
            let mut number = 0..;
            rank.collectives.retain(|_| {
                let id = number.next().map(|number| OperationId::Collective { communicator, number });
                id.is_some_and(|id| !left_out.contains(&id))
            });
        }
        retain_ends(&mut it.ranks, |(from, to, number), _, _| {
            !left_out.contains(&OperationId::Message { communicator, from, to, number })
        });
        let after: usize = it.ranks.iter().map(operations).sum();
        if before > after {
            numbers.push((it.name.clone(), (before - after) as u64));
        }
    }
    numbers
}
