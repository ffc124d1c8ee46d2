//! Goes back in time: through an operation to the rank that it waited for, then to that rank's previous operation.

use analysis::tables::Tables;
use analysis::{Analysis, Awaits, Filter};
use nccl_events::ids::index;

/// A period outside of operations.
#[derive(Clone, Copy, Debug)]
pub(super) struct Gap {
    pub(super) from_ns: u64,
    pub(super) to_ns: u64,
    /// The operation that begins at its end: a row.
    pub(super) next: u32,
}

/// A period in an operation.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stay {
    pub(super) row: u32,
    /// The operation that it waited for before; its own row for none.
    pub(super) other: u32,
    pub(super) stop_ns: u64,
    pub(super) transfer_ns: u64,
    pub(super) unclear_ns: u64,
    pub(super) is_warm_up: bool,
}

#[derive(Debug, Default)]
pub(super) struct Walk {
    pub(super) from_ns: u64,
    pub(super) to_ns: u64,
    pub(super) operations: u64,
    pub(super) gaps: Vec<Gap>,
    pub(super) stays: Vec<Stay>,
}

/// The operations of each rank of the job that ended: rows, by their end.
struct Ended<'a> {
    tables: &'a Tables,
    ranks: Vec<Vec<u32>>,
}

impl<'a> Ended<'a> {
    fn of(tables: &'a Tables, filter: &Filter) -> Self {
        let mut ranks = vec![Vec::new(); tables.members.job_ranks.len()];
        for (row, it) in (0..).zip(tables.operations.rows()) {
            if !it.is_unfinished && it.stop_ns >= it.start_ns && filter.to_ns.is_none_or(|to_ns| it.start_ns <= to_ns) {
                ranks[index(tables.job_rank(row))].push(row);
            }
        }
        let mut found = Self { tables, ranks: Vec::new() };
        ranks.iter_mut().for_each(|rows| rows.sort_unstable_by_key(|row| (found.kernel(*row), *row)));
        found.ranks = ranks;
        found
    }

    /// Operations of a rank that have one interval share a kernel.
    fn kernel(&self, row: u32) -> (u64, u64, u32) {
        let operations = &self.tables.operations;
        (operations.stop_ns[index(row)], operations.start_ns[index(row)], operations.member[index(row)])
    }

    /// The last kernel of a rank that began before a time and ended by then: the rows of its operations.
    fn before(&self, rank: u32, ns: u64) -> Option<&[u32]> {
        let rows = &self.ranks[index(rank)];
        let behind = rows.partition_point(|row| self.kernel(*row).0 <= ns);
        let last = rows[..behind].iter().rposition(|row| self.kernel(*row).1 < ns)?;
        let kernel = self.kernel(rows[last]);
        let first = rows[..last].partition_point(|row| self.kernel(*row) < kernel);
        Some(&rows[first..=last])
    }

    fn last(&self) -> Option<(u32, u64)> {
        let ends = (0..).zip(&self.ranks).filter_map(|(rank, rows)| Some((rank, self.kernel(*rows.last()?).0)));
        ends.max_by_key(|(_, stop_ns)| *stop_ns)
    }
}

impl Walk {
    pub(super) fn of(analysis: &Analysis, filter: &Filter) -> Option<Self> {
        let ended = Ended::of(&analysis.tables, filter);
        let (mut rank, to_ns) = ended.last()?;
        let mut found = Self { from_ns: to_ns, to_ns, ..Self::default() };
        let mut next = None;
        while let Some(rows) = ended.before(rank, found.from_ns) {
            if filter.from_ns.is_some_and(|from_ns| found.from_ns <= from_ns) {
                break;
            }
            let (stop_ns, start_ns, _) = ended.kernel(rows[0]);
            if let Some(next) = next.filter(|_| stop_ns < found.from_ns) {
                found.gaps.push(Gap { from_ns: stop_ns, to_ns: found.from_ns, next });
            }
            let stay = stay(analysis, rows, start_ns, stop_ns);
            found.stays.push(stay);
            found.operations += 1;
            found.from_ns = stop_ns - stay.transfer_ns - stay.unclear_ns;
            rank = analysis.tables.job_rank(stay.other);
            next = Some(stay.other);
        }
        found.clip(filter);
        (found.operations > 0).then_some(found)
    }

    /// Leaves the parts that are in the time of the filter.
    fn clip(&mut self, filter: &Filter) {
        self.from_ns = self.from_ns.max(filter.from_ns.unwrap_or(0));
        self.to_ns = self.to_ns.min(filter.to_ns.unwrap_or(u64::MAX));
        let (from_ns, to_ns) = (self.from_ns, self.to_ns);
        let at = |ns: u64| ns.clamp(from_ns, to_ns.max(from_ns));
        for gap in &mut self.gaps {
            (gap.from_ns, gap.to_ns) = (at(gap.from_ns), at(gap.to_ns));
        }
        self.gaps.retain(|gap| gap.from_ns < gap.to_ns);
        for stay in &mut self.stays {
            let transfer_from_ns = stay.stop_ns - stay.transfer_ns;
            let unclear_from_ns = transfer_from_ns - stay.unclear_ns;
            stay.transfer_ns = at(stay.stop_ns) - at(transfer_from_ns);
            stay.unclear_ns = at(transfer_from_ns) - at(unclear_from_ns);
        }
        self.stays.retain(|stay| stay.transfer_ns + stay.unclear_ns > 0);
        self.operations = self.stays.len() as u64;
    }
}

/// What the operations of a kernel waited for: the last of all. Time goes back in any case, or the way would not end.
fn stay(analysis: &Analysis, rows: &[u32], start_ns: u64, stop_ns: u64) -> Stay {
    let row = rows[0];
    let instance = analysis.instances.of_operation(row).map(|number| &analysis.instances.all[index(number)]);
    let is_warm_up = instance.is_some_and(|instance| instance.is_warm_up);
    let whole = Stay { row, other: row, stop_ns, transfer_ns: stop_ns - start_ns, unclear_ns: 0, is_warm_up };
    if is_warm_up {
        return whole;
    }
    let (mut other, mut unclear) = (None, None);
    for row in rows {
        match analysis.awaits(*row, rows.len() == 1) {
            Awaits::Nobody => {}
            Awaits::Other { row: awaited, until_ns } => other = other.max(Some((until_ns, awaited, *row))),
            Awaits::Unclear { until_ns } => unclear = unclear.max(Some(until_ns.clamp(start_ns, stop_ns))),
        }
    }
    match (other, unclear) {
        (Some((until_ns, other, row)), _) if until_ns < stop_ns && Some(until_ns) >= unclear => {
            Stay { row, other, transfer_ns: stop_ns - until_ns.max(start_ns), ..whole }
        }
        (Some(_), None) => Stay { transfer_ns: 0, unclear_ns: stop_ns - start_ns, ..whole },
        (_, Some(until_ns)) => Stay { transfer_ns: stop_ns - until_ns, unclear_ns: until_ns - start_ns, ..whole },
        (None, None) => whole,
    }
}
