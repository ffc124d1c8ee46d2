//! Who comes late, how often, by how much, and since when.

mod blame;
mod messages;

use nccl_events::collective::Flow;
use rayon::prelude::*;

use blame::{Blame, Trial, blame};

use super::arrivals::is_awaited;
use super::instances::{Instance, Instances, Split, is_root};
use super::maths::change::{change, trend};
use super::maths::sample::{median, real, whole};
use super::messages::Messages;
use super::waiting::Waiting;
use crate::archive::Trace;
use crate::report::{Heat, Member, Rank};
use crate::tables::{JobRank, NONE, Tables, large, small};

pub(super) use blame::IMPROBABLE;
pub(super) use messages::{Late, late};

/// Bins of the heat map.
const BINS: u64 = 120;

/// An arrival of a rank.
struct Arrival {
    instance: u32,
    time_ns: u64,
    /// After the median of the ranks.
    late_ns: f64,
    /// Whether others wait for it.
    is_awaited: bool,
}

/// The ranks of the job and how late they came.
pub(super) struct Lateness {
    pub(super) ranks: Vec<Rank>,
    pub(super) heat: Heat,
}

impl Lateness {
    pub(super) fn of(
        trace: &Trace,
        tables: &Tables,
        instances: &Instances,
        messages: &Messages,
        waiting: &Waiting,
        length_ns: u64,
    ) -> Self {
        let arrivals = arrivals(tables, instances);
        let trials = trials(tables, instances, messages, waiting);
        let of_rank = arrivals.iter().map(|arrivals| {
            let awaited = arrivals.iter().filter(|it| it.is_awaited && trials[large(it.instance)].is_some());
            awaited.map(|it| it.instance).collect()
        });
        let of_rank: Vec<Vec<u32>> = of_rank.collect();
        let blames = blame(&trials, &of_rank);
        let bin_ns = length_ns.div_ceil(BINS).max(1);
        let made = tables.members.job_ranks.par_iter().zip(&arrivals).enumerate().map(|(number, (rank, arrivals))| {
            let heat = heat(arrivals, bin_ns);
            let counted = Counted::of(&trials, &of_rank[number], number);
            (self::rank(trace, tables, waiting, (number, rank), arrivals, (&counted, &blames[number])), heat)
        });
        let (ranks, heat) = made.unzip();
        Self { ranks, heat: Heat { from_ns: 0, bin_ns, ranks: heat } }
    }
}

/// Whether lateness counts: in the first collective NCCL makes ranks late that connect.
fn counts(instance: &Instance) -> bool {
    instance.is_comparable() && !instance.is_warm_up
}

/// For each instance who came last, where somebody did.
fn trials(tables: &Tables, instances: &Instances, messages: &Messages, waiting: &Waiting) -> Vec<Option<Trial>> {
    let made = instances.all.par_iter().enumerate().map(|(number, instance)| {
        let member = instance.last.filter(|_| counts(instance))?;
        let rows = instances.operations(instance);
        let starts = || rows.iter().map(|row| tables.operations.start_ns[large(*row)]);
        let (last, ranks) = match instance.flow {
            Flow::AllToAll => (tables.members.row(member).job_rank, rows.len()),
            Flow::ToRoot => (tables.members.row(member).job_rank, rows.len().saturating_sub(1)),
            Flow::FromRoot if starts().max() > Some(instance.last_ns) => (NONE, rows.len()),
            Flow::FromRoot => (tables.members.row(member).job_rank, rows.len()),
        };
        let own_share = if last == NONE { 1.0 } else { own_share(tables, messages, instance, rows, member) };
        let waiting_ns = whole(real(waiting.in_instance(number)) * own_share);
        Some(Trial {
            communicator: instance.communicator,
            time_ns: instance.first_ns,
            last,
            ranks: small(ranks),
            waiting_ns,
        })
    });
    made.collect()
}

/// The share of the waiting in an instance that the last rank is to blame for.
fn own_share(tables: &Tables, messages: &Messages, instance: &Instance, rows: &[u32], last: u32) -> f64 {
    let rank = |member: u32| tables.members.row(member).job_rank;
    let (mut own_ns, mut all_ns) = (0, 0);
    for row in rows {
        let Split::Waits(until_ns) = instance.split(tables, *row) else {
            continue;
        };
        let (start_ns, member) = (tables.operations.start_ns[large(*row)], tables.operations.member[large(*row)]);
        all_ns += until_ns.saturating_sub(start_ns);
        own_ns += messages.own_ns(tables, (rank(last), until_ns), (rank(member), start_ns));
    }
    if all_ns > 0 { real(own_ns) / real(all_ns) } else { 1.0 }
}

/// How often a rank came last, and how often chance would have it.
#[derive(Debug, Default)]
struct Counted {
    last: u64,
    expected: f64,
    /// What others waited in those in which it came last, as far as it is to blame.
    own_ns: u64,
}

impl Counted {
    fn of(trials: &[Option<Trial>], of_rank: &[u32], rank: usize) -> Self {
        let mut found = Self::default();
        for trial in of_rank.iter().filter_map(|trial| trials[large(*trial)]) {
            found.expected += 1.0 / f64::from(trial.ranks.max(1));
            if large(trial.last) == rank {
                found.last += 1;
                found.own_ns += trial.waiting_ns;
            }
        }
        found
    }
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
            let is_awaited = is_awaited(instance.flow, is_root(tables, &tables.operations.row(large(*row))));
            // Where one has the data only that one's lateness counts.
            if is_awaited || !matches!(instance.flow, Flow::FromRoot) {
                arrivals[large(rank)].push(Arrival { instance: number, time_ns, late_ns, is_awaited });
            }
        }
    }
    arrivals.par_iter_mut().for_each(|it| it.sort_unstable_by_key(|it| (it.time_ns, it.instance)));
    arrivals
}

fn rank(
    trace: &Trace,
    tables: &Tables,
    waiting: &Waiting,
    (number, rank): (usize, &JobRank),
    arrivals: &[Arrival],
    (counted, blame): (&Counted, &Blame),
) -> Rank {
    let members = || rank.members.iter().map(|row| tables.members.row(*row));
    let (caused_ns, caused_alone_ns) = waiting.caused_by(number);
    let (late_sender_ns, late_receiver_ns) = waiting.messages.of_rank(small(number));
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
        last: counted.last,
        last_expected: counted.expected,
        p_value: blame.p_value,
        caused_ns,
        caused_alone_ns,
        inherited_ns: caused_ns.saturating_sub(counted.own_ns),
        late_sender_ns,
        late_receiver_ns,
        awaited_ns: caused_ns + late_sender_ns + late_receiver_ns,
        lost_ns: blame.lost_ns,
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
