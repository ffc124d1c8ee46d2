//! Compares an archive's sends and receives with their other ends.

use std::collections::BTreeMap;

use super::pairing::Pairing;
use super::ranks::OfRank;
use crate::archive::Trace;
use crate::derived::filter::Filter;
use crate::derived::maths::union::{Covered, union};
use crate::parallel::in_parallel;
use crate::tables::{Tables, large};

#[derive(Debug, Default)]
pub(in crate::derived) struct Messages {
    pub(in crate::derived) pairing: Pairing,
    /// By rank of the job.
    pub(in crate::derived) ranks: Vec<OfRank>,
    /// Times at which both ends of messages between two job ranks had arrived; ascending.
    met: BTreeMap<(u32, u32), Vec<u64>>,
    /// By member of a communicator: end times of its operations other than messages; ascending.
    others: BTreeMap<u32, Vec<u64>>,
    /// The periods each job rank spent in operations.
    pub(in crate::derived) inside: Vec<Covered>,
}

impl Messages {
    pub(in crate::derived) fn of(trace: &Trace, tables: &Tables, filter: &Filter) -> Self {
        let count = tables.members.job_ranks.len();
        let mut found = Self { pairing: Pairing::of(trace, tables), ..Self::default() };
        let mut rows: Vec<Vec<u32>> = vec![Vec::new(); count];
        let mut inside: Vec<Vec<(u64, u64)>> = vec![Vec::new(); count];
        for (row, operation) in (0..).zip(tables.operations.rows()) {
            let rank = tables.job_rank(row);
            inside[large(rank)].push((operation.start_ns, operation.stop_ns.max(operation.start_ns)));
            if !operation.is_known() {
                continue;
            }
            if !found.pairing.is_message(row) {
                found.others.entry(operation.member).or_default().push(operation.stop_ns);
                continue;
            }
            let is_known = |row: &u32| tables.operations.row(large(*row)).is_known();
            if let Some(other) = found.pairing.other(row).filter(|_| found.pairing.is_send(row)).filter(is_known) {
                let both_ns = operation.start_ns.max(tables.operations.start_ns[large(other)]);
                found.met.entry(in_order((rank, tables.job_rank(other)))).or_default().push(both_ns);
            }
            if filter.wants(trace, &tables.members, &operation) {
                rows[large(rank)].push(row);
            }
        }
        found.met.values_mut().chain(found.others.values_mut()).for_each(|times| times.sort_unstable());
        found.ranks = in_parallel(rows, |rows| OfRank::of(tables, &found.pairing, rows));
        found.inside = in_parallel(inside, |times| Covered::of(union(times)));
        found
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
        let ends = both
            .filter_map(|(of_a, of_b)| Some((last(self.others.get(&of_a), a.1)?, last(self.others.get(&of_b), b.1)?)));
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
