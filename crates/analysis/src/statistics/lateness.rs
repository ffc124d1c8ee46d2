//! The rows of ranks: how often each was last, its own times and what others lose by it, and its lateness over time.

use crate::lateness::late::{LateRank, Lateness as LateRanks};
use crate::read::archive::{Trace, in_parallel};
use crate::read::{JobRank, Tables};
use crate::results::{Change, Heat, Member, Rank};
use crate::statistics::collectives::{Instance, Instances, is_awaited, is_root};
use crate::statistics::numeric::{change, trend};
use crate::statistics::waiting::Waiting;
use crate::units::{real, whole};
use nccl_events::collective::Flow;
use nccl_events::ids::index as large;

const BINS: u64 = 120;
/// The mean of this many arrivals shows how late a rank is even if it is late at every third only.
const MEAN_OF: usize = 21;

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
    pub(super) fn new(
        trace: &Trace,
        tables: &Tables,
        instances: &Instances,
        waiting: &Waiting,
        late: &LateRanks,
        length_ns: u64,
    ) -> Self {
        let rows = rows(tables, instances);
        let bin_ns = length_ns.div_ceil(BINS).max(1);
        let ranks = tables.members.job_ranks.iter().zip(&rows).enumerate();
        let made = in_parallel(ranks, |(number, (rank, rows))| {
            let arrivals = arrivals(tables, instances, rows);
            let heat = heat(&arrivals, bin_ns);
            let last = times_last(tables, instances, &arrivals, number);
            (rank_row(trace, tables, waiting, (number, rank), &arrivals, (last, late)), heat)
        });
        let (ranks, heat) = made.into_iter().unzip();
        Self { ranks, heat: Heat { from_ns: 0, bin_ns, ranks: heat } }
    }
}

/// Whether lateness in an instance counts. It does not in a first collective, in which NCCL delays ranks by connecting
/// them.
fn counts(instance: &Instance) -> bool {
    instance.is_comparable() && !instance.is_warm_up
}

/// How often a rank was last by more than the clocks' error. Others wait for a root that sends, also where another rank
/// arrives after it: then it was not last.
fn times_last(tables: &Tables, instances: &Instances, arrivals: &[Arrival], rank: usize) -> u64 {
    let is_last = |arrival: &&Arrival| {
        let instance = &instances.all[large(arrival.instance)];
        let starts = || instances.operations(instance).iter().map(|row| tables.operations.start_ns[large(*row)]);
        let has_come_last = instance.flow != Flow::FromRoot || starts().all(|start_ns| start_ns <= arrival.time_ns);
        instance.last.is_some_and(|last| large(tables.members.row(last).job_rank) == rank) && has_come_last
    };
    arrivals.iter().filter(|arrival| arrival.is_awaited).filter(is_last).count() as u64
}

/// The operations of each rank of the job whose arrivals count.
fn rows(tables: &Tables, instances: &Instances) -> Vec<Vec<u32>> {
    let mut rows = vec![Vec::new(); tables.members.job_ranks.len()];
    for instance in instances.all.iter().filter(|instance| counts(instance)) {
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
        let (number, operation) = (instances.instance_of_operation(*row)?, tables.operations.row(large(*row)));
        let (instance, time_ns) = (&instances.all[large(number)], operation.start_ns);
        let late_ns = real(time_ns) - real(instance.arrivals.median_ns);
        let is_awaited = is_awaited(instance.flow, is_root(tables, &operation));
        Some(Arrival { instance: number, time_ns, late_ns, is_awaited })
    };
    let mut arrivals: Vec<Arrival> = rows.iter().filter_map(arrival).collect();
    arrivals.sort_unstable_by_key(|arrival| (arrival.time_ns, arrival.instance));
    arrivals
}

fn rank_row(
    trace: &Trace,
    tables: &Tables,
    waiting: &Waiting,
    (number, rank): (usize, &JobRank),
    arrivals: &[Arrival],
    (last, lateness): (u64, &LateRanks),
) -> Rank {
    let members = || rank.members.iter().map(|row| tables.members.row(*row));
    let series: Vec<(u64, f64)> = arrivals.iter().map(|arrival| (arrival.time_ns, arrival.late_ns)).collect();
    let errors = rank.members.iter().map(|row| tables.members.own_error_ns(*row, false, false));
    let uncertainty_ns = errors.max().flatten();
    let own = lateness.own.get(number).copied().unwrap_or_default();
    let late = lateness.late.ranks.iter().find(|late| large(late.rank) == number);
    // A probability beside a rank that costs the others nothing would read as an accusation.
    let is_suspect = lateness.perhaps.ranks.iter().any(|late| large(late.rank) == number);
    let is_longer = lateness.late.ranks.is_empty() && lateness.is_longer(&own);
    let matters = late.is_some() || is_suspect || is_longer;
    let windows = |late: &LateRank| lateness.series[late.series].own.rows() as u64;
    Rank {
        name: name(trace, rank),
        number: rank.number,
        process: trace.group_name(rank.process).to_owned(),
        host: trace.host_name(rank.process).unwrap_or_default().to_owned(),
        members: members()
            .map(|member| Member {
                communicator: member.communicator,
                rank: member.rank,
                location: member.location.get(),
            })
            .collect(),
        uncertainty_ns,
        budget: waiting.ranks[number],
        instances: arrivals.len() as u64,
        last,
        caused_ns: waiting.caused[number],
        awaited_ns: lateness.awaited_ns.get(number).copied().unwrap_or(0),
        own_ns: own.own_ns.map(whole),
        typical_ns: own.typical_ns,
        p_value: own.p_value.filter(|_| matters),
        longer_ns: late.map(|late| whole(late.longer_ns())),
        late_in: late.map(|late| real(late.usually_longer().0) / real(windows(late).max(1))),
        lost_ns: late.map(|late| whole(late.lost_ns)),
        alone_ns: late.map(|late| whole(late.alone_ns.max(0.0))),
        trend_ns_per_s: trend(&series),
        change: change(&series).filter(|change| is_measurable(change, uncertainty_ns)),
        why: None,
    }
}

/// Whether a change is larger than the clocks' error, and than 1 ns, the unit in which they count.
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

/// The mean lateness in each bin. A bin with fewer than [`MEAN_OF`] arrivals takes those around its middle: the share of
/// late ones among two or three varies from bin to bin.
fn heat(arrivals: &[Arrival], bin_ns: u64) -> Vec<Option<f64>> {
    let least = (arrivals.len() / 8).clamp(1, MEAN_OF);
    let begin = |bin: u64| arrivals.partition_point(|arrival| arrival.time_ns < bin * bin_ns);
    let mean = |bin: u64| {
        let (mut from, mut to) = (begin(bin), if bin + 1 < BINS { begin(bin + 1) } else { arrivals.len() });
        if from == to {
            return None;
        }
        if to - from < least {
            from = usize::midpoint(from, to).saturating_sub(least / 2).min(arrivals.len() - least);
            to = from + least;
        }
        let sum: f64 = arrivals[from..to].iter().map(|arrival| arrival.late_ns).sum();
        Some(sum / real((to - from) as u64))
    };
    (0..BINS).map(mean).collect()
}

#[cfg(test)]
mod tests {
    mod lateness {
        use crate::results::Change;
        use crate::statistics::lateness::{Arrival, BINS, heat, is_measurable};

        #[test]
        fn a_change_from_0_ns_to_0_ns_is_none() {
            let to = |after| Change { at_ns: 5, before: 0.1, after };
            assert!(!is_measurable(&to(0.4), None) && is_measurable(&to(2.0), Some(0)));
            assert!(!is_measurable(&to(900.0), Some(1_000)) && is_measurable(&to(-2_000.0), Some(1_000)));
        }

        #[test]
        fn lateness_at_every_third_collective_is_the_same_at_all_times() {
            let of = |late: fn(u64) -> bool| {
                let arrival = |number: u64| Arrival {
                    instance: 0,
                    time_ns: number * 1_000,
                    late_ns: if late(number) { 3_000.0 } else { 0.0 },
                    is_awaited: true,
                };
                heat(&(0..300).map(arrival).collect::<Vec<_>>(), 300_000 / BINS)
            };
            let means = of(|number| number % 3 == 0);
            assert!(means.iter().all(|mean| mean.is_some_and(|mean| (mean - 1_000.0).abs() < 1.0)), "{means:?}");
            let means = of(|number| number >= 150);
            assert_eq!([means[40], means[80]], [Some(0.0), Some(3_000.0)]);
        }
    }
}
