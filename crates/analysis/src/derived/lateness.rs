//! Who comes late, how often, by how much, and since when.

use nccl_events::collective::Flow;
use rayon::prelude::*;
use statrs::distribution::{Binomial, DiscreteCDF};

use super::instances::{Instance, Instances};
use super::maths::change::{change, trend};
use super::maths::sample::{median, real};
use super::waiting::Waiting;
use crate::archive::Trace;
use crate::report::{Heat, Member, Rank};
use crate::tables::{JobRank, Tables, large};

/// Bins of the heat map.
const BINS: u64 = 120;

/// An arrival of a rank.
struct Arrival {
    instance: u32,
    time_ns: u64,
    /// After the median of the ranks.
    late_ns: f64,
}

/// The ranks of the job and how late they came.
pub(super) struct Lateness {
    pub(super) ranks: Vec<Rank>,
    pub(super) heat: Heat,
}

impl Lateness {
    pub(super) fn of(trace: &Trace, tables: &Tables, instances: &Instances, waiting: &Waiting, length_ns: u64) -> Self {
        let arrivals = arrivals(tables, instances);
        let bin_ns = length_ns.div_ceil(BINS).max(1);
        let made = tables.members.job_ranks.par_iter().zip(&arrivals).enumerate().map(|(number, (rank, arrivals))| {
            let heat = heat(arrivals, bin_ns);
            (self::rank(trace, tables, instances, waiting, (number, rank), arrivals), heat)
        });
        let (ranks, heat) = made.unzip();
        Self { ranks, heat: Heat { from_ns: 0, bin_ns, ranks: heat } }
    }
}

/// Whether lateness of any rank counts: where one has the data only that one's does.
fn counts(instance: &Instance) -> bool {
    instance.is_comparable() && !matches!(instance.flow, Flow::FromRoot { .. })
}

/// The arrivals of each rank in the order of time.
fn arrivals(tables: &Tables, instances: &Instances) -> Vec<Vec<Arrival>> {
    let mut arrivals: Vec<Vec<Arrival>> = Vec::new();
    arrivals.resize_with(tables.members.job_ranks.len(), Vec::new);
    for (number, instance) in (0..).zip(&instances.all).filter(|(_, it)| counts(it)) {
        for row in instances.operations(instance) {
            let time_ns = tables.operations.start_ns[large(*row)];
            let rank = tables.members.row(tables.operations.member[large(*row)]).job_rank;
            let late_ns = real(time_ns) - real(instance.median_ns);
            arrivals[large(rank)].push(Arrival { instance: number, time_ns, late_ns });
        }
    }
    arrivals.par_iter_mut().for_each(|it| it.sort_unstable_by_key(|it| (it.time_ns, it.instance)));
    arrivals
}

fn rank(
    trace: &Trace,
    tables: &Tables,
    instances: &Instances,
    waiting: &Waiting,
    (number, rank): (usize, &JobRank),
    arrivals: &[Arrival],
) -> Rank {
    let members = || rank.members.iter().map(|row| tables.members.row(*row));
    let (mut last, mut claimed, mut expected) = (0, 0, 0.0);
    for arrival in arrivals {
        let instance = &instances.all[large(arrival.instance)];
        if let Some(who) = instance.last {
            claimed += 1;
            expected += 1.0 / real(instances.operations(instance).len() as u64);
            last += u64::from(rank.members.contains(&who));
        }
    }
    let (caused_ns, caused_alone_ns) = waiting.caused_by(number);
    let series: Vec<(u64, f64)> = arrivals.iter().map(|it| (it.time_ns, it.late_ns)).collect();
    let errors = rank.members.iter().map(|row| tables.members.own_error_ns(*row, false, false));
    Rank {
        name: name(trace, rank),
        number: rank.number,
        process: trace.group_name(rank.process).to_owned(),
        host: trace.host(rank.process).and_then(|host| trace.node_name(host)).unwrap_or_default().to_owned(),
        members: members()
            .map(|it| Member { communicator: it.communicator, rank: it.rank, location: it.location.get() })
            .collect(),
        uncertainty_ns: errors.max().flatten(),
        budget: waiting.of_rank(number),
        instances: arrivals.len() as u64,
        last,
        last_expected: expected,
        p_value: at_least(last, claimed, expected),
        caused_ns,
        caused_alone_ns,
        lateness_ns: median(&mut arrivals.iter().map(|it| it.late_ns).collect::<Vec<f64>>()),
        trend_ns_per_s: trend(&series),
        change: change(&series),
    }
}

fn name(trace: &Trace, rank: &JobRank) -> String {
    match rank.number {
        Some(number) => format!("rank {number}"),
        None if rank.group == rank.process => trace.group_name(rank.group).to_owned(),
        None => format!("{} of {}", trace.group_name(rank.group), trace.group_name(rank.process)),
    }
}

/// How probable it is that chance has it `times` or more often among `all`, where `expected` is what chance has on
/// average.
fn at_least(times: u64, all: u64, expected: f64) -> f64 {
    if times == 0 || all == 0 {
        return 1.0;
    }
    let probability = (expected / real(all)).clamp(0.0, 1.0);
    Binomial::new(probability, all).map_or(1.0, |it| it.sf(times - 1))
}

/// The mean lateness in each bin.
fn heat(arrivals: &[Arrival], bin_ns: u64) -> Vec<Option<f64>> {
    let bins = usize::try_from(BINS).unwrap_or(1);
    let mut sums = vec![(0.0, 0_u64); bins];
    for arrival in arrivals {
        let bin = usize::try_from(arrival.time_ns / bin_ns).unwrap_or(bins);
        let sum = &mut sums[bin.min(bins - 1)];
        sum.0 += arrival.late_ns;
        sum.1 += 1;
    }
    sums.into_iter().map(|(sum, count)| (count > 0).then(|| sum / real(count))).collect()
}
