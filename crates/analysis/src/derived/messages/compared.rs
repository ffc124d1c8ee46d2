//! The sends and receives of an archive, compared with their other ends.

use std::collections::BTreeMap;

use rayon::prelude::*;

use super::pairing::Pairing;
use super::ranks::OfRank;
use super::waits::is_known;
use crate::archive::Trace;
use crate::derived::filter::Filter;
use crate::tables::{Tables, large, small};

/// The sends and receives of an archive.
#[derive(Debug, Default)]
pub(in crate::derived) struct Messages {
    pairing: Pairing,
    /// By rank of the job.
    pub(super) ranks: Vec<OfRank>,
    /// When messages of a rank of the job with another one ended; ascending.
    met: BTreeMap<(u32, u32), Vec<u64>>,
    /// When other operations of a rank of the job ended; ascending.
    others: Vec<Vec<u64>>,
}

impl Messages {
    pub(in crate::derived) fn of(trace: &Trace, tables: &Tables, filter: &Filter) -> Self {
        let count = tables.members.job_ranks.len();
        let mut found =
            Self { pairing: Pairing::of(trace, tables), others: vec![Vec::new(); count], ..Self::default() };
        let mut rows: Vec<Vec<u32>> = vec![Vec::new(); count];
        for row in (0..small(tables.operations.len())).filter(|row| is_known(tables, *row)) {
            let operation = tables.operations.row(large(row));
            let rank = job_rank(tables, row);
            if !found.pairing.is_message(row) {
                found.others[large(rank)].push(operation.stop_ns);
                continue;
            }
            if let Some(other) = found.pairing.other(row) {
                let pair = (rank, job_rank(tables, other));
                found.met.entry(pair).or_default().push(operation.stop_ns);
            }
            if filter.wants(trace, &tables.members, &operation) {
                rows[large(rank)].push(row);
            }
        }
        found.met.values_mut().chain(&mut found.others).for_each(|times| times.sort_unstable());
        found.ranks = rows.into_par_iter().map(|rows| OfRank::of(tables, &found.pairing, rows)).collect();
        found
    }

    /// What each rank of the job waited for in its messages.
    pub(in crate::derived) fn of_ranks(&self) -> &[OfRank] {
        &self.ranks
    }

    /// Whether an operation is a send or receive that is compared with its other end.
    pub(in crate::derived) fn is_compared(&self, row: u32) -> bool {
        self.pairing.is_message(row)
    }

    /// When a rank was done with what it last did with another one before a time: a message, or a collective.
    pub(super) fn last_met_ns(&self, pair: (u32, u32), before_ns: u64) -> u64 {
        let last = |times: Option<&Vec<u64>>| {
            let times = times.map_or(&[][..], Vec::as_slice);
            times[..times.partition_point(|ns| *ns <= before_ns)].last().copied().unwrap_or(0)
        };
        last(self.met.get(&pair)).max(last(self.others.get(large(pair.0))))
    }
}

/// The rank of the job that an operation is of.
pub(super) fn job_rank(tables: &Tables, row: u32) -> u32 {
    tables.members.row(tables.operations.member[large(row)]).job_rank
}
