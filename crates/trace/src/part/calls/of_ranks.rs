//! The collective calls of a process's ranks, from its records.

use std::collections::BTreeMap;

use rustc_hash::FxHashMap;

use super::{Call, CallLists, Digest, RankCalls, RankDigest, StepRanges};
use journal::format::Symbol;
use journal::reader::Symbols;
use nccl_events::collective::{Collective, element_bytes};
use nccl_events::ids::{index, index_u32};
use process_model::links::Links;
use tables::communicators::Comms;
use tables::switches::Coverage;
use tables::{CollApi, OperationRow, Tables};

/// A collective and its order: start, id, number of the call.
type Timed = (u64, u64, u32);

#[derive(Debug, Default)]
struct Rank {
    called: Vec<Timed>,
    enqueued: Vec<Timed>,
    uses_graphs: bool,
}

/// A call before its strings are looked up.
type Raw = (Symbol, u64, Symbol, i32);

#[derive(Debug, Default)]
struct Known {
    by_raw: FxHashMap<Raw, u32>,
    by_call: BTreeMap<Call, u32>,
}

impl Known {
    fn number(&mut self, raw: Raw, symbols: &Symbols) -> u32 {
        if let Some(&number) = self.by_raw.get(&raw) {
            return number;
        }
        let next = index_u32(self.by_call.len());
        let number = *self.by_call.entry(call(raw, symbols)).or_insert(next);
        self.by_raw.insert(raw, number);
        number
    }
}

fn call((func, count, datatype, root): Raw, symbols: &Symbols) -> Call {
    let func = symbols.text(func);
    let collective = Collective::named(func);
    let datatype = symbols.text(datatype);
    let element = element_bytes(datatype);
    let (count, datatype) = if collective.is_some_and(Collective::moves_bytes) && element > 0 {
        (count.saturating_mul(element), "")
    } else {
        (count, datatype)
    };
    let has_root = collective.is_some_and(Collective::has_root);
    Call { func: func.to_owned(), count, datatype: datatype.to_owned(), root: if has_root { root } else { -1 } }
}

/// The collectives of each rank of a process, and their digests for the manifest.
pub(crate) fn calls_of_ranks(
    tables: &Tables,
    links: &Links,
    comms: &Comms,
    symbols: &Symbols,
) -> (CallLists, Vec<RankDigest>) {
    let mut ranks: Vec<Rank> = Vec::new();
    ranks.resize_with(comms.members.len(), Rank::default);
    let mut known = Known::default();
    for call in &tables.events.coll_apis {
        let CollApi { func, count, datatype, root, .. } = call.fields;
        if let Some(rank) = call.context_at().and_then(|context| ranks.get_mut(index(context))) {
            let number = known.number((func, count, datatype, root), symbols);
            rank.called.push((call.start, call.id, number));
        }
    }
    for activity in &links.activities.all {
        let root = match activity.operation {
            OperationRow::Coll(row) => tables[row].fields.root,
            OperationRow::CeColl(row) => tables[row].fields.root,
            OperationRow::P2p(_) => continue,
        };
        let operation = tables.operation(activity.operation);
        if let Some(rank) = operation.context_at().and_then(|context| ranks.get_mut(index(context))) {
            let raw = (operation.func, operation.count, operation.datatype, root);
            rank.enqueued.push((operation.start, operation.id, known.number(raw, symbols)));
            rank.uses_graphs |= activity.shows_graphs(tables);
        }
    }
    let lists = lists(comms, ranks, known);
    let hashes: Vec<u64> = lists.calls.iter().map(Call::hash).collect();
    let digest = |list: &Option<Vec<u32>>| list.as_ref().map(|list| Digest::of(&hashes, list));
    let digests = (0..).zip(&lists.ranks).map(|(context, rank)| RankDigest {
        comm: rank.comm,
        rank: rank.rank,
        called: digest(&rank.called),
        enqueued: digest(&rank.enqueued),
        step_ranges: match tables.coverage(context) {
            Coverage::StepRanges(ranges) => Some(StepRanges::of(&ranges, false)),
            Coverage::NamedSteps(ranges) => Some(StepRanges::of(&ranges, true)),
            _ => None,
        },
    });
    let digests = digests.collect();
    (lists, digests)
}

/// Numbers the calls by content, so that the order of recording does not matter.
fn lists(comms: &Comms, ranks: Vec<Rank>, known: Known) -> CallLists {
    let mut numbers = vec![0; known.by_call.len()];
    for (number, &before) in (0..).zip(known.by_call.values()) {
        if let Some(slot) = numbers.get_mut(index(before)) {
            *slot = number;
        }
    }
    let in_order = |mut calls: Vec<Timed>| -> Vec<u32> {
        nccl_events::sort::sort(&mut calls);
        calls.into_iter().map(|(_, _, call)| numbers.get(index(call)).copied().unwrap_or(0)).collect()
    };
    let ranks = comms.members.iter().zip(ranks).map(|(member, rank)| {
        // Only a rank with collectives shows whether calls are recorded.
        let knows_calls = !rank.called.is_empty() || rank.enqueued.is_empty();
        RankCalls {
            comm: member.comm,
            rank: member.rank,
            called: knows_calls.then(|| in_order(rank.called)),
            enqueued: (!rank.uses_graphs).then(|| in_order(rank.enqueued)),
        }
    });
    let ranks = ranks.collect();
    CallLists::new(known.by_call.into_keys().collect(), ranks)
}
