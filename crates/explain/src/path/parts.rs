//! Sums up the critical path by rank and by what it consists of.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use analysis::report::{LinkKey, PathKind, PathPart};
use analysis::tables::NONE;
use analysis::units::real;
use analysis::{Analysis, Trace};
use nccl_events::collective::Function;
use nccl_events::ids::index;
use nccl_events::sort::Gather;
use otf2::RegionRef;

use super::walk::{Gap, Stay, Walk};
use crate::hosts::Hosts;

/// Reading calls and launches takes time: they are read for this many ranks, those with the longest time outside of
/// operations on the path. Ranges are named for this many, too.
const MOST_RANKS: usize = 16;

/// Rank; function, communicator; link.
type Key = (PathKind, Option<u32>, Option<(RegionRef, u32)>, Option<LinkKey>);

#[derive(Default)]
struct Sum {
    ns: u64,
    times: u64,
}

/// `hosts` has the first operations after gaps of `ranks`.
pub(super) fn of(
    trace: &Trace,
    analysis: &Analysis,
    (walk, ranks): (&Walk, &BTreeSet<u32>),
    hosts: &Hosts,
) -> Vec<PathPart> {
    let mut sums: BTreeMap<Key, Sum> = BTreeMap::new();
    let mut add = |key: Key, ns: u64| {
        if ns > 0 {
            let sum = sums.entry(key).or_default();
            (sum.ns, sum.times) = (sum.ns + ns, sum.times + 1);
        }
    };
    let usual_ns = usual_ns(analysis, hosts);
    let mut computing: BTreeMap<u32, Vec<(u64, u64)>> = BTreeMap::new();
    for gap in &walk.gaps {
        let rank = analysis.tables.job_rank(gap.next);
        let (from_ns, to_ns) = launching(gap, hosts, usual_ns);
        add((PathKind::Launching, Some(rank), None, None), to_ns - from_ns);
        add((PathKind::Computing, Some(rank), None, None), gap.to_ns - gap.from_ns - (to_ns - from_ns));
        computing.entry(rank).or_default().extend([(gap.from_ns, from_ns), (to_ns, gap.to_ns)]);
    }
    for stay in &walk.stays {
        let operation = analysis.tables.operations.row(index(stay.row));
        let what = Some((operation.function, analysis.tables.members.row(operation.member).communicator));
        let rank = Some(analysis.tables.job_rank(stay.row));
        if stay.is_warm_up {
            add((PathKind::WarmUp, rank, what, None), stay.transfer_ns);
            continue;
        }
        add((PathKind::Transfer, None, what, link(trace, analysis, stay)), stay.transfer_ns);
        add((PathKind::Unclear, rank, what, None), stay.unclear_ns);
    }
    let length_ns = walk.to_ns - walk.from_ns;
    let parts = sums.into_iter().map(|((kind, rank, what, link), Sum { ns, times })| PathPart {
        kind,
        rank,
        function: what.map(|(function, _)| trace.region_name(function)),
        communicator: what.map(|(_, communicator)| communicator),
        link,
        phase: rank
            .filter(|rank| kind == PathKind::Computing && ranks.contains(rank))
            .and_then(|rank| analysis.tables.during(trace, rank, computing.remove(&rank)?)),
        ns,
        share: share(ns, length_ns),
        times,
    });
    let mut parts: Vec<PathPart> = parts.collect();
    nccl_events::sort::sort_by_key(&mut parts, |part| Reverse(part.ns));
    parts
}

pub(super) fn share(part: u64, whole: u64) -> f64 {
    real(part) / real(whole.max(1))
}

/// The ranks that are outside of operations for longest on the path.
pub(super) fn outside(analysis: &Analysis, walk: &Walk) -> BTreeSet<u32> {
    let mut sums: BTreeMap<u32, u64> = BTreeMap::new();
    for gap in &walk.gaps {
        *sums.entry(analysis.tables.job_rank(gap.next)).or_default() += gap.to_ns - gap.from_ns;
    }
    let mut sums: Vec<(u64, u32)> = sums.into_iter().map(|(rank, ns)| (ns, rank)).collect();
    nccl_events::sort::sort_by_key(&mut sums, |it| Reverse(*it));
    sums.into_iter().take(MOST_RANKS).map(|(_, rank)| rank).gather()
}

/// The shortest time from a launch to the beginning of its operation.
fn usual_ns(analysis: &Analysis, hosts: &Hosts) -> u64 {
    let times = hosts.iter().filter_map(|(row, host)| {
        Some(analysis.tables.operations.start_ns[index(*row)].saturating_sub(host.launched_ns?))
    });
    times.min().unwrap_or(0)
}

/// The part of a gap that is launching: from the call until the GPU could begin. Afterwards it is busy with other work.
fn launching(gap: &Gap, hosts: &Hosts, usual_ns: u64) -> (u64, u64) {
    let host = hosts.get(&gap.next).copied().unwrap_or_default();
    let Some(called_ns) = host.called_ns else {
        return (gap.to_ns, gap.to_ns);
    };
    let from_ns = called_ns.clamp(gap.from_ns, gap.to_ns);
    let until_ns = host.launched_ns.map_or(gap.to_ns, |ns| ns.saturating_add(usual_ns));
    (from_ns, until_ns.clamp(from_ns, gap.to_ns))
}

/// The link that a transfer took: of a message its ends; of a collective the slow link that was found for it.
fn link(trace: &Trace, analysis: &Analysis, stay: &Stay) -> Option<LinkKey> {
    let tables = &analysis.tables;
    let Some(number) = analysis.instances.of_operation(stay.row) else {
        let operation = tables.operations.row(index(stay.row));
        let own = tables.members.row(operation.member);
        let (communicator, partner) = (own.communicator, operation.partner);
        let is_send = trace.function(operation.function).and_then(Function::is_send).filter(|_| partner != NONE)?;
        let [from, to] = if is_send { [own.rank, partner] } else { [partner, own.rank] };
        let [from, to_rank] = [from, to].map(|rank| tables.members.job_rank(communicator, rank));
        return Some(LinkKey { communicator, from, to: to_rank, peer: Some(to), channel: None });
    };
    let instance = &analysis.instances.all[index(number)];
    let is_it = |it: &LinkKey| it.communicator == instance.communicator;
    let report = &analysis.report;
    let own = report.anomalies.iter().filter(|it| it.start_ns == instance.arrivals.first_ns);
    let own = own.filter_map(|it| it.link).find(is_it);
    let causes = report.causes.iter().filter(|it| !it.is_stall && it.since_ns <= Some(instance.arrivals.last_ns));
    own.or_else(|| causes.filter_map(|it| it.link).find(is_it))
}
