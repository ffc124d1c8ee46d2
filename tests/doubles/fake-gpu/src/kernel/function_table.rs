//! The table of device functions: a function number stands for collective, operator, type, algorithm and protocol.

use crate::log::warning;
use crate::prims::Proto;
use crate::reduce::{Op, Type};
use std::collections::HashMap;

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Coll {
    SendRecv,
    AllGather,
    Broadcast,
    AllGatherV,
    AllReduce,
    Reduce,
    ReduceScatter,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Func {
    pub(crate) coll: Coll,
    pub(crate) op: Op,
    pub(crate) ty: Type,
    pub(crate) algo: usize,
    pub(crate) proto: Proto,
}

pub(super) const ALGO_TREE: usize = 0;
pub(super) const ALGO_RING: usize = 1;

/// Order of the algorithms of all-gather and reduce-scatter: ring, collnet-direct, nvls, pat.
const SHORT: [usize; 4] = [ALGO_RING, 2, 4, 6];
const LONG: [usize; 6] = [0, 1, 2, 3, 4, 5];

const PROTOS: [Proto; 3] = [Proto::Ll, Proto::Ll128, Proto::Simple];

/// Rows of a table with so many data types, with or without the variable all-gather.
fn rows_of(types: usize, all_gather_v: bool) -> usize {
    let moves = 1 + SHORT.len() * 3 + 3 + if all_gather_v { 3 } else { 0 };
    moves + 5 * types * (LONG.len() + 1 + SHORT.len()) * 3
}

fn functions(types: usize, all_gather_v: bool) -> impl Iterator<Item = Func> {
    let plain = Func { coll: Coll::SendRecv, op: Op::Sum, ty: Type::I8, algo: ALGO_RING, proto: Proto::Simple };
    let with_protos = |func: Func| PROTOS.into_iter().map(move |proto| Func { proto, ..func });
    let all_gather = SHORT.into_iter().flat_map(move |algo| with_protos(Func { coll: Coll::AllGather, algo, ..plain }));
    let mut rooted = vec![Coll::Broadcast];
    if all_gather_v {
        rooted.push(Coll::AllGatherV);
    }
    let rooted = rooted.into_iter().flat_map(move |coll| with_protos(Func { coll, ..plain }));
    let reductions: [(Coll, &[usize]); 3] =
        [(Coll::AllReduce, &LONG), (Coll::Reduce, &[ALGO_RING]), (Coll::ReduceScatter, &SHORT)];
    let reductions = reductions.into_iter().flat_map(move |(coll, algos)| {
        Op::ALL.into_iter().flat_map(move |op| {
            Type::ALL.into_iter().take(types).flat_map(move |ty| {
                algos.iter().flat_map(move |&algo| with_protos(Func { coll, op, ty, algo, ..plain }))
            })
        })
    });
    std::iter::once(plain).chain(all_gather).chain(rooted).chain(reductions)
}

/// Inverts the table from (collective, operator, type, algorithm, protocol) to function number. Its length says
/// how many types there are and whether the variable all-gather is one of the collectives; some releases have a
/// row more at the end.
pub(crate) fn decode_table(rows: &[i32]) -> HashMap<i32, Func> {
    let shapes = [(10, false), (12, false), (12, true), (10, true)];
    let fits = |&(types, all_gather_v): &(usize, bool)| {
        let want = rows_of(types, all_gather_v);
        rows.len() == want || rows.len() == want + 1
    };
    let (types, all_gather_v) = shapes.into_iter().find(fits).unwrap_or_else(|| {
        warning!("function table of {} rows: unknown shape", rows.len());
        (12, rows.len() > rows_of(12, false))
    });
    let mut numbered = HashMap::new();
    for (&number, func) in rows.iter().zip(functions(types, all_gather_v)) {
        if number >= 0 {
            numbered.entry(number).or_insert(func);
        }
    }
    numbered
}
