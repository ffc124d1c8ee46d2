//! Why ranks that use several communicators wait for each other: which calls would have to be left out, added or moved
//! for their orders to agree.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use crate::compare::{Explanation, expected};
use crate::graph::Graph;
use crate::graph::parts::{Described, Part};
use crate::job::{Actor, Member};

/// How the calls of some ranks differ from those of the others.
pub(super) struct Order {
    pub(super) deviants: Vec<Member>,
    pub(super) others: Vec<Member>,
    pub(super) comm: usize,
    pub(super) function: String,
    /// [`Explanation::OnlyThis`]: either side may be wrong.
    pub(super) kind: Explanation,
    /// Whether what ranks did before tells which side is wrong.
    pub(super) is_likely: bool,
}

/// A call: its communicator and function.
type Called = (usize, String);

fn called(graph: &Graph<'_>, part: &Part) -> Called {
    let functions = part.operations.iter().filter_map(|one| graph.played.job.described(part.member, *one));
    let functions: BTreeSet<String> = functions
        .map(|call| match call {
            Described::Collective(call) => format!("nccl{}", call.what.func),
            Described::Message(message) => message.func().to_owned(),
        })
        .collect();
    (part.member.0, functions.into_iter().collect::<Vec<_>>().join("+"))
}

/// The calls of a rank in these communicators, in order: those that are over, and those that are left.
fn calls(graph: &Graph<'_>, actor: Actor, comms: &BTreeSet<usize>) -> [Vec<Called>; 2] {
    let mut parts: Vec<(u64, u32)> = (0..)
        .zip(&graph.played.parts.all)
        .filter(|(_, part)| part.actor == actor && comms.contains(&part.member.0) && !part.is_replay)
        .map(|(id, part)| (part.order_ns, id))
        .collect();
    parts.sort_unstable();
    let (over, left): (Vec<u32>, Vec<u32>) =
        parts.into_iter().map(|(_, id)| id).partition(|id| graph.played.is_over(*id));
    [over, left].map(|ids| {
        ids.into_iter().filter_map(|id| graph.played.parts.get(id)).map(|part| called(graph, part)).collect()
    })
}

pub(super) fn explain_order(graph: &Graph<'_>, actors: &BTreeSet<Actor>, comms: &BTreeSet<usize>) -> Option<Order> {
    let mut groups: BTreeMap<Vec<Called>, Vec<Actor>> = BTreeMap::new();
    let mut before: BTreeMap<Actor, Vec<Called>> = BTreeMap::new();
    for actor in actors {
        let [over, left] = calls(graph, *actor, comms);
        if left.is_empty() {
            return None;
        }
        groups.entry(left).or_default().push(*actor);
        before.insert(*actor, over);
    }
    let mut groups: Vec<(Vec<Called>, Vec<Actor>)> = groups.into_iter().collect();
    groups.sort_by_key(|(calls, actors)| (Reverse(actors.len()), Reverse(calls.len())));
    let [(usual, most), (other, few)] = groups.as_slice() else {
        return None;
    };
    let first = usual.iter().zip(other).position(|(one, two)| one != two).unwrap_or(usual.len().min(other.len()));
    let (one, two) = (usual.get(first), other.get(first));
    let rest = |calls: &'_ [Called], from: usize| calls.get(from..).unwrap_or_default().to_vec();
    let is_left_out = one.is_some() && rest(usual, first + 1) == rest(other, first);
    let is_added = two.is_some() && rest(usual, first) == rest(other, first + 1);
    let members = |actors: &[Actor]| actors.iter().filter_map(|actor| graph.member_of(*actor)).collect::<Vec<_>>();
    let (most_members, few_members) = (members(most), members(few));
    let is_tie = most.len() <= few.len();
    let order = |deviants: &[Member], others: &[Member], of: &Called, kind, is_likely| Order {
        deviants: deviants.to_vec(),
        others: others.to_vec(),
        comm: of.0,
        function: of.1.clone(),
        kind,
        is_likely,
    };
    if !is_left_out && !is_added {
        let sorted = |calls: &[Called]| {
            let mut calls = calls.to_vec();
            calls.sort();
            calls
        };
        let is_reordered = !is_tie && sorted(usual) == sorted(other);
        return is_reordered.then(|| {
            order(&few_members, &most_members, one.or(two).unwrap_or(&usual[0]), Explanation::Swapped, false)
        });
    }
    // With as many ranks on each side, what they did after the same calls before says who deviates.
    let history = most.first().and_then(|actor| before.get(actor)).map_or(&[][..], Vec::as_slice);
    let before: Vec<Called> = history.iter().chain(usual.iter().take(first)).cloned().collect();
    let usually = if is_tie { expected(&before, |one, other| one == other).cloned() } else { one.cloned() };
    let (one_of, two_of) = (one.or(two)?, two.or(one)?);
    Some(match usually {
        Some(usually) if Some(&usually) == one && is_left_out => {
            order(&few_members, &most_members, one_of, Explanation::LeftOut, is_tie)
        }
        Some(usually) if Some(&usually) == one => {
            order(&few_members, &most_members, two_of, Explanation::OneTooMany, is_tie)
        }
        Some(usually) if Some(&usually) == two && is_left_out => {
            order(&most_members, &few_members, one_of, Explanation::OneTooMany, is_tie)
        }
        Some(usually) if Some(&usually) == two => {
            order(&most_members, &few_members, two_of, Explanation::LeftOut, is_tie)
        }
        _ => {
            order(&few_members, &most_members, if is_left_out { one_of } else { two_of }, Explanation::OnlyThis, false)
        }
    })
}
