//! Compares an archive's sends and receives with their other ends.

use std::collections::BTreeMap;
use std::ops::Range;

use super::pairing::Pairing;
use super::ranks::OfRank;
use crate::archive::Trace;
use crate::derived::filter::Filter;
use crate::derived::maths::union::{Covered, union};
use crate::parallel::in_parallel;
use crate::tables::{Operations, Tables};
use nccl_events::ids::index as large;

#[derive(Debug, Default)]
pub(in crate::derived) struct Messages {
    pub(in crate::derived) pairing: Pairing,
    /// By rank of the job: its measured sends and receives that the filter wants.
    rows: Vec<Vec<u32>>,
    /// Times at which both ends of messages between two job ranks had arrived; ascending.
    met: BTreeMap<(u32, u32), Vec<u64>>,
    /// By member of a communicator: its operations other than messages, by their ends.
    others: BTreeMap<u32, Vec<u32>>,
    /// The periods each job rank spent in operations.
    pub(in crate::derived) inside: Vec<Covered>,
}

impl Messages {
    pub(in crate::derived) fn of(trace: &Trace, tables: &Tables, filter: &Filter) -> Self {
        let count = tables.members.job_ranks.len();
        let mut found = Self { pairing: Pairing::of(trace, tables), rows: vec![Vec::new(); count], ..Self::default() };
        let mut rows: Vec<Vec<u32>> = vec![Vec::new(); count];
        for (row, operation) in (0..).zip(tables.operations.rows()) {
            let rank = tables.job_rank(row);
            rows[large(rank)].push(row);
            if !operation.is_known() {
                continue;
            }
            if !found.pairing.is_message(row) {
                found.others.entry(operation.member).or_default().push(row);
                continue;
            }
            let is_known = |row: &u32| tables.operations.row(large(*row)).is_known();
            if let Some(other) = found.pairing.other(row).filter(|_| found.pairing.is_send(row)).filter(is_known) {
                let both_ns = operation.start_ns.max(tables.operations.start_ns[large(other)]);
                found.met.entry(in_order((rank, tables.job_rank(other)))).or_default().push(both_ns);
            }
            if filter.wants(trace, &tables.members, &operation) {
                found.rows[large(rank)].push(row);
            }
        }
        let Operations { start_ns, stop_ns, .. } = &tables.operations;
        found.met.values_mut().for_each(|times| times.sort_unstable());
        found.others.values_mut().for_each(|rows| rows.sort_by_key(|row| stop_ns[large(*row)]));
        let interval = |row: u32| (start_ns[large(row)], stop_ns[large(row)].max(start_ns[large(row)]));
        found.inside = in_parallel(rows, |rows| Covered::of(&union(rows.into_iter().map(interval).collect())));
        found
    }

    /// The waits of some ranks of the job in messages, which only these need at a time.
    pub(in crate::derived) fn waits(&self, tables: &Tables, ranks: Range<usize>) -> Vec<OfRank> {
        in_parallel(&self.rows[ranks], |rows| OfRank::of(tables, &self.pairing, rows.clone()))
    }

    pub(in crate::derived) fn into_pairing(self) -> Pairing {
        self.pairing
    }

    /// Whether two ranks exchanged no message before a time: for the first, NCCL delays ranks by connecting them.
    pub(super) fn is_first(&self, ranks: (u32, u32), before_ns: u64) -> bool {
        self.met.get(&in_order(ranks)).and_then(|times| times.first()).is_none_or(|ns| *ns > before_ns)
    }

    /// When two job ranks last met, in a message or a collective, before the times given with them.
    pub(super) fn last_met_ns(&self, tables: &Tables, a: (u32, u64), b: (u32, u64)) -> u64 {
        let collective = self.last_ends_ns(tables, a, b).map(|ends| ends.0.min(ends.1));
        collective.max(last(self.met.get(&in_order((a.0, b.0))), a.1.min(b.1))).unwrap_or(0)
    }

    /// When the last common collective of two job ranks ended on each, before the time given with it.
    fn last_ends_ns(&self, tables: &Tables, a: (u32, u64), b: (u32, u64)) -> Option<(u64, u64)> {
        let members = |rank: u32| tables.members.job_ranks[large(rank)].members.iter().copied();
        let communicator = |member: u32| tables.members.row(member).communicator;
        let both = members(a.0).flat_map(|a| members(b.0).map(move |b| (a, b)));
        let both = both.filter(|(a, b)| communicator(*a) == communicator(*b));
        let stops = &tables.operations.stop_ns;
        let last_ns = |member: u32, before_ns: u64| {
            let rows = self.others.get(&member)?;
            let ended = rows.partition_point(|row| stops[large(*row)] <= before_ns);
            Some(stops[large(*rows[..ended].last()?)])
        };
        let ends = both.filter_map(|(of_a, of_b)| Some((last_ns(of_a, a.1)?, last_ns(of_b, b.1)?)));
        ends.max_by_key(|ends| ends.0.min(ends.1))
    }
}

/// The last of ascending times that is not after `before_ns`.
fn last(times: Option<&Vec<u64>>, before_ns: u64) -> Option<u64> {
    let times = times.map_or(&[][..], Vec::as_slice);
    times[..times.partition_point(|ns| *ns <= before_ns)].last().copied()
}

const fn in_order((a, b): (u32, u32)) -> (u32, u32) {
    if a < b { (a, b) } else { (b, a) }
}
