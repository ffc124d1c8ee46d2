//! The file `collectives` of a part: the collective calls of every rank in order, gathered from the process's records.
//! The manifest has their number and a hash; the file is read only if hashes differ.
//!
//! The comparison covers what must be equal on all ranks: function, number of elements, datatype, root. NCCL reports no
//! reduction operator. Functions that only move bytes are compared by bytes, as NCCL itself treats them.

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;

use crate::error::{Error, unreadable};
use crate::part::files::write_json;
use journal::format::Symbol;
use journal::part::read_json;
use journal::reader::Symbols;
use model::communicators::Comms;
use model::process::Links;
use model::tables::ranges::Coverage;
use model::tables::{CollApi, OperationRow, Tables};
use nccl_events::Span;
use nccl_events::collective::{Collective, element_bytes};
use nccl_events::ids::{index, index_u32};
use regular_files::{FNV_SEED, MOST_MANIFEST_BYTES, fnv};
use rustc_hash::FxHashMap;
use serde::{Deserialize, Serialize};

pub(crate) const CALLS: &str = "collectives";

const FORMAT: u32 = 1;

/// The properties of a collective that all ranks must agree on.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) struct Call {
    pub(crate) func: String,
    /// Elements; bytes where the function only moves them.
    pub(crate) count: u64,
    /// Type of the elements; empty for bytes.
    pub(crate) datatype: String,
    /// The root; -1 if there is none.
    pub(crate) root: i32,
}

impl Call {
    /// A hash of the content, the same in every process.
    pub(crate) fn hash(&self) -> u64 {
        let words = [&self.func, &self.datatype].into_iter();
        let hashed = words.fold(FNV_SEED, |seed, word| fnv(fnv(seed, word.as_bytes()), &[0xff]));
        fnv(fnv(hashed, &self.count.to_le_bytes()), &self.root.to_le_bytes())
    }
}

impl fmt::Display for Call {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let datatype = match self.datatype.as_str() {
            "" => "bytes",
            datatype => datatype,
        };
        write!(out, "{} of {} {datatype}", self.func, self.count)?;
        if self.root >= 0 {
            write!(out, " root {}", self.root)?;
        }
        Ok(())
    }
}

/// One rank's collectives: indices into [`CallLists::calls`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct RankCalls {
    /// An index into the manifest's communicators.
    pub(crate) comm: u32,
    pub(crate) rank: u32,
    /// The calls; `None` if calls were not recorded.
    pub(crate) called: Option<Vec<u32>>,
    /// What NCCL enqueued; `None` if that does not show what was called.
    pub(crate) enqueued: Option<Vec<u32>>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct CallLists {
    format: u32,
    /// Distinct calls.
    pub(crate) calls: Vec<Call>,
    pub(crate) ranks: Vec<RankCalls>,
}

impl CallLists {
    pub(crate) fn new(calls: Vec<Call>, ranks: Vec<RankCalls>) -> Self {
        Self { format: FORMAT, calls, ranks }
    }

    pub(crate) fn write(&self, path: &Path) -> Result<(), Error> {
        write_json(path, self)
    }

    /// Reads a part's file; `None` if there is none that this version can parse. An error if the system does not read
    /// it: another attempt may.
    pub(crate) fn read(part: &Path) -> Result<Option<Self>, Error> {
        let path = part.join(CALLS);
        let lists: Option<Self> = read_json(&path, MOST_MANIFEST_BYTES).map_err(unreadable(&path))?;
        Ok(lists.filter(|lists| lists.format == FORMAT))
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct RankDigest {
    /// An index into the manifest's communicators.
    pub comm: u32,
    pub rank: u32,
    /// Calls of the API; `None` if they were not recorded.
    pub called: Option<Digest>,
    /// What NCCL enqueued; `None` if CUDA graphs were replayed, because it then does not show the calls.
    pub enqueued: Option<Digest>,
    /// The step ranges that the digests cover; `None` if they cover everything, or the ranges are unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step_ranges: Option<StepRanges>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Digest {
    pub count: u64,
    pub hash: u64,
}

impl Default for Digest {
    fn default() -> Self {
        Self { count: 0, hash: FNV_SEED }
    }
}

impl Digest {
    pub(crate) fn new(hashes: &[u64], order: &[u32]) -> Self {
        let hash = |call: &u32| hashes.get(index(*call)).copied().unwrap_or(0);
        order.iter().fold(Self::default(), |digest, call| digest.and(hash(call)))
    }

    pub(crate) fn and(self, call: u64) -> Self {
        Self { count: self.count + 1, hash: fnv(self.hash, &call.to_le_bytes()) }
    }
}

/// The step ranges that a rank reached or will reach next: first and last collective, in order.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) struct StepRanges {
    pub spans: Vec<(u32, u32)>,
    /// Whether the program names its steps: between the ranges a rank may have called more than others.
    #[serde(default, skip_serializing_if = "is_false")]
    pub is_named: bool,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde's interface")]
const fn is_false(flag: &bool) -> bool {
    !*flag
}

impl StepRanges {
    pub(crate) fn new(spans: &[Span], is_named: bool) -> Self {
        Self { spans: spans.iter().map(|span| (span.first, span.last)).collect(), is_named }
    }

    pub(crate) fn spans(&self) -> impl Iterator<Item = Span> {
        self.spans.iter().map(|&(first, last)| Span { first, last })
    }
}

impl fmt::Display for StepRanges {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let spans: Vec<String> = self.spans().map(|span| span.to_string()).collect();
        formatter.write_str(&spans.join(","))
    }
}

/// A collective and its order: start, id, number of the call.
type TimedCall = (u64, u64, u32);

#[derive(Debug, Default)]
struct CallsOfRank {
    called: Vec<TimedCall>,
    enqueued: Vec<TimedCall>,
    uses_graphs: bool,
}

/// A call before its strings are looked up.
type RawCall = (Symbol, u64, Symbol, i32);

#[derive(Debug, Default)]
struct CallNumbers {
    by_raw: FxHashMap<RawCall, u32>,
    by_call: BTreeMap<Call, u32>,
}

impl CallNumbers {
    fn number(&mut self, raw: RawCall, symbols: &Symbols) -> u32 {
        if let Some(&number) = self.by_raw.get(&raw) {
            return number;
        }
        let next = index_u32(self.by_call.len());
        let number = *self.by_call.entry(call(raw, symbols)).or_insert(next);
        self.by_raw.insert(raw, number);
        number
    }
}

fn call((func, count, datatype, root): RawCall, symbols: &Symbols) -> Call {
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
    let mut ranks: Vec<CallsOfRank> = Vec::new();
    ranks.resize_with(comms.members.len(), CallsOfRank::default);
    let mut known = CallNumbers::default();
    for call in &tables.events.coll_apis {
        let CollApi { func, count, datatype, root, .. } = call.fields;
        if let Some(rank) = call.context_at().and_then(|context| ranks.get_mut(index(context))) {
            let number = known.number((func, count, datatype, root), symbols);
            rank.called.push((call.start, call.id, number));
        }
    }
    for linked in &links.operations.all {
        let root = match linked.operation {
            OperationRow::Coll(row) => tables[row].fields.root,
            OperationRow::CeColl(row) => tables[row].fields.root,
            OperationRow::P2p(_) => continue,
        };
        let operation = tables.operation(linked.operation);
        if let Some(rank) = operation.context_at().and_then(|context| ranks.get_mut(index(context))) {
            let raw = (operation.func, operation.count, operation.datatype, root);
            rank.enqueued.push((operation.start, operation.id, known.number(raw, symbols)));
            rank.uses_graphs |= linked.shows_graphs(tables);
        }
    }
    let lists = lists(comms, ranks, known);
    let hashes: Vec<u64> = lists.calls.iter().map(Call::hash).collect();
    let digest = |list: &Option<Vec<u32>>| list.as_ref().map(|list| Digest::new(&hashes, list));
    let digests = (0..).zip(&lists.ranks).map(|(context, rank)| RankDigest {
        comm: rank.comm,
        rank: rank.rank,
        called: digest(&rank.called),
        enqueued: digest(&rank.enqueued),
        step_ranges: match tables.coverage(context) {
            Coverage::StepRanges(ranges) => Some(StepRanges::new(&ranges, false)),
            Coverage::NamedSteps(ranges) => Some(StepRanges::new(&ranges, true)),
            _ => None,
        },
    });
    let digests = digests.collect();
    (lists, digests)
}

/// Numbers the calls by content, so that the order of recording does not matter.
fn lists(comms: &Comms, ranks: Vec<CallsOfRank>, known: CallNumbers) -> CallLists {
    let mut numbers = vec![0; known.by_call.len()];
    for (number, &before) in (0..).zip(known.by_call.values()) {
        if let Some(slot) = numbers.get_mut(index(before)) {
            *slot = number;
        }
    }
    let in_order = |mut calls: Vec<TimedCall>| -> Vec<u32> {
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
