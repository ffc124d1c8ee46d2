//! Which ranks are late, how often, by how much, and since when.

mod blame;
mod outside;

use nccl_events::collective::Flow;

use super::arrivals::is_awaited;
use super::instances::{Instance, Instances, is_root};
use super::maths::change::{change, trend};
use super::maths::sample::{median, real};
use super::waiting::Waiting;
use crate::archive::Trace;
use crate::parallel::in_parallel;
use crate::report::{Change, Heat, Member, Rank};
use crate::tables::{JobRank, Tables};
use nccl_events::ids::index as large;

pub(super) use blame::{Late, late};
pub(super) use outside::{IMPROBABLE, Outside};

const BINS: u64 = 120;

struct Arrival {
    instance: u32,
    time_ns: u64,
    /// Relative to the median of the ranks.
    late_ns: f64,
    is_awaited: bool,
}

pub(super) struct Lateness {
    pub(super) ranks: Vec<Rank>,
    pub(super) heat: Heat,
}

impl Lateness {
    pub(super) fn of(
        trace: &Trace,
        tables: &Tables,
        instances: &Instances,
        waiting: &Waiting,
        late: &[Late],
        length_ns: u64,
    ) -> Self {
        let rows = rows(tables, instances);
        let bin_ns = length_ns.div_ceil(BINS).max(1);
        let ranks = tables.members.job_ranks.iter().zip(&rows).enumerate();
        let made = in_parallel(ranks, |(number, (rank, rows))| {
            let arrivals = arrivals(tables, instances, rows);
            let heat = heat(&arrivals, bin_ns);
            let counted = Counted::of(tables, instances, &arrivals, number);
            (self::rank(trace, tables, waiting, (number, rank), &arrivals, (counted, &late[number])), heat)
        });
        let (ranks, heat) = made.into_iter().unzip();
        Self { ranks, heat: Heat { from_ns: 0, bin_ns, ranks: heat } }
    }
}

/// Whether lateness counts: in a first collective, NCCL delays ranks by connecting them.
fn counts(instance: &Instance) -> bool {
    instance.is_comparable() && !instance.is_warm_up
}

/// How often a rank was last by more than the clocks' error, and how often chance would make it last.
#[derive(Clone, Copy, Debug, Default)]
struct Counted {
    last: u64,
    expected: f64,
}

impl Counted {
    fn of(tables: &Tables, instances: &Instances, arrivals: &[Arrival], rank: usize) -> Self {
        let mut found = Self::default();
        for arrival in arrivals.iter().filter(|it| it.is_awaited) {
            let instance = &instances.all[large(arrival.instance)];
            let Some(last) = instance.last else {
                continue;
            };
            let rows = instances.operations(instance);
            let ranks = match instance.flow {
                Flow::ToRoot => rows.len().saturating_sub(1),
                Flow::AllToAll | Flow::FromRoot => rows.len(),
            };
            found.expected += 1.0 / real(ranks.max(1) as u64);
            let starts = || rows.iter().map(|row| tables.operations.start_ns[large(*row)]);
            // Others wait for a root even if it is not the very last to arrive; such a root does not count as last.
            let is_last = !matches!(instance.flow, Flow::FromRoot) || starts().max() <= Some(instance.arrivals.last_ns);
            found.last += u64::from(is_last && large(tables.members.row(last).job_rank) == rank);
        }
        found
    }
}

/// The operations of each rank of the job whose arrivals count.
fn rows(tables: &Tables, instances: &Instances) -> Vec<Vec<u32>> {
    let mut rows = vec![Vec::new(); tables.members.job_ranks.len()];
    for instance in instances.all.iter().filter(|it| counts(it)) {
        for row in instances.operations(instance) {
            // If a root sends the data, only the root's lateness counts.
            if !matches!(instance.flow, Flow::FromRoot) || is_root(tables, &tables.operations.row(large(*row))) {
                rows[large(tables.job_rank(*row))].push(*row);
            }
        }
    }
    rows
}

/// The arrivals of a rank in time order.
fn arrivals(tables: &Tables, instances: &Instances, rows: &[u32]) -> Vec<Arrival> {
    let arrival = |row: &u32| {
        let (number, operation) = (instances.of_operation(*row)?, tables.operations.row(large(*row)));
        let (instance, time_ns) = (&instances.all[large(number)], operation.start_ns);
        let late_ns = real(time_ns) - real(instance.arrivals.median_ns);
        let is_awaited = is_awaited(instance.flow, is_root(tables, &operation));
        Some(Arrival { instance: number, time_ns, late_ns, is_awaited })
    };
    let mut arrivals: Vec<Arrival> = rows.iter().filter_map(arrival).collect();
    arrivals.sort_unstable_by_key(|it| (it.time_ns, it.instance));
    arrivals
}

fn rank(
    trace: &Trace,
    tables: &Tables,
    waiting: &Waiting,
    (number, rank): (usize, &JobRank),
    arrivals: &[Arrival],
    (counted, late): (Counted, &Late),
) -> Rank {
    let members = || rank.members.iter().map(|row| tables.members.row(*row));
    let (caused_ns, caused_alone_ns) = waiting.caused[number];
    let series: Vec<(u64, f64)> = arrivals.iter().map(|it| (it.time_ns, it.late_ns)).collect();
    let errors = rank.members.iter().map(|row| tables.members.own_error_ns(*row, false, false));
    let uncertainty_ns = errors.max().flatten();
    Rank {
        name: name(trace, rank),
        number: rank.number,
        process: trace.group_name(rank.process).to_owned(),
        host: trace.host_name(rank.process).unwrap_or_default().to_owned(),
        members: members()
            .map(|it| Member { communicator: it.communicator, rank: it.rank, location: it.location.get() })
            .collect(),
        uncertainty_ns,
        budget: waiting.ranks[number],
        instances: arrivals.len() as u64,
        last: counted.last,
        last_expected: counted.expected,
        p_value: late.p_value,
        caused_ns,
        caused_alone_ns,
        inherited_ns: caused_ns.saturating_sub(late.waited.collectives_ns),
        late_sender_ns: late.waited.receives_ns,
        late_receiver_ns: late.waited.sends_ns,
        awaited_ns: late.waited.all_ns(),
        lost_ns: late.lost_ns,
        lateness_ns: median(&mut arrivals.iter().map(|it| it.late_ns).collect::<Vec<f64>>()),
        trend_ns_per_s: trend(&series),
        change: change(&series).filter(|change| is_measurable(change, uncertainty_ns)),
        why: None,
    }
}

/// Whether the clocks, which count whole ns, can show such a change.
fn is_measurable(change: &Change, uncertainty_ns: Option<u64>) -> bool {
    (change.after - change.before).abs() >= real(uncertainty_ns.unwrap_or(0).max(1))
}

fn name(trace: &Trace, rank: &JobRank) -> String {
    match rank.number {
        Some(number) => format!("rank {number}"),
        None if rank.group == rank.process => trace.group_name(rank.group).to_owned(),
        None => format!("{} of {}", trace.group_name(rank.group), trace.group_name(rank.process)),
    }
}

fn heat(arrivals: &[Arrival], bin_ns: u64) -> Vec<Option<f64>> {
    let bins = usize::try_from(BINS).unwrap_or(1);
    let mut sums = vec![(0.0, 0_u64); bins];
    for arrival in arrivals {
        let sum = &mut sums[usize::try_from(arrival.time_ns / bin_ns).unwrap_or(bins).min(bins - 1)];
        sum.0 += arrival.late_ns;
        sum.1 += 1;
    }
    sums.into_iter().map(|(sum, count)| (count > 0).then(|| sum / real(count))).collect()
}

#[cfg(test)]
mod tests {
    use super::{Change, is_measurable};

    #[test]
    fn a_change_from_0_ns_to_0_ns_is_none() {
        let to = |after| Change { at_ns: 5, before: 0.1, after };
        assert!(!is_measurable(&to(0.4), None) && is_measurable(&to(2.0), Some(0)));
        assert!(!is_measurable(&to(900.0), Some(1_000)) && is_measurable(&to(-2_000.0), Some(1_000)));
    }
}
