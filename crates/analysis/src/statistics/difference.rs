//! The parts of a comparison of two runs: the sample of each run, the difference between quantiles with its interval,
//! ranges of the program, and sentences.
//!
//! A sample has one value per collective, because ranks of a collective end together and are not independent.
//! [`QuantileDifference`] is the difference of two samples.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use crate::names::{MOST_COLUMNS, columns, shortened};
use crate::read::archive::Trace;
use crate::read::{Operation, Tables};
use crate::results::{
    Communicator, Compared, Comparison, Difference, Finding, Group, Kind, Outcome, RangeChange, Rank, Report, Run,
};
use crate::statistics::collectives::{Filter, Instances, Split, own_error_ns};
use crate::statistics::numeric::quantile;
use crate::statistics::program::names_of;
use crate::units::{bytes, plural, real, time, whole};
use nccl_events::archive::path_of_ranges;
use nccl_events::ids::{index as large, index_u32 as small};
use nccl_events::sort::Gather;
use otf2::LocationRef;
use statrs::distribution::{ContinuousCDF as _, StudentsT};

/// The placement of a communicator's ranks: for each, its host, numbered in order of appearance, and its rank in the
/// job relative to the first member's. `None` for ranks that were not recorded.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Placement(Vec<Option<(u32, Option<u32>)>>);

/// Operations of two runs are matched by shape and by this: function, binary logarithm of the size, timing.
pub(super) type Class = (String, u32, &'static str);

#[derive(Clone, Debug, Default)]
pub(super) struct Sample {
    pub(super) kind: Kind,
    /// For each collective in time order, the means over its ranks of time, waiting and transfer.
    pub(super) durations: Vec<f64>,
    pub(super) waiting: Vec<f64>,
    pub(super) transfer: Vec<f64>,
    /// Largest error of a duration; `None` if the error of any duration is unknown.
    pub(super) duration_error_ns: Option<u64>,
    is_measured: bool,
    /// Largest error between the arrivals of two ranks.
    pub(super) arrival_error_ns: u64,
}

/// An operation: its collective, or its position on its rank; start, duration and waiting.
struct Value {
    unit: (u32, Option<u32>, u32),
    start_ns: u64,
    duration_ns: f64,
    waiting_ns: Option<f64>,
}

impl Placement {
    pub fn new(communicator: &Communicator, ranks: &[Rank]) -> Self {
        let members = communicator.members.iter().map(|member| ranks.get(large((*member)?)));
        let first = members.clone().flatten().find_map(|rank| rank.number);
        let mut hosts: Vec<&str> = Vec::new();
        let mut shape = Vec::new();
        for rank in members {
            let Some(rank) = rank else {
                shape.push(None);
                continue;
            };
            let host = hosts.iter().position(|host| *host == rank.host).unwrap_or(hosts.len());
            if host == hosts.len() {
                hosts.push(&rank.host);
            }
            // A later member may have a lower number: the difference wraps, and equal shapes still compare equal.
            shape.push(Some((small(host), rank.number.zip(first).map(|(number, first)| number.wrapping_sub(first)))));
        }
        Self(shape)
    }

    /// The number of ranks of each host, descending; `None` if a rank was not recorded.
    pub fn hosts(&self) -> Option<Vec<u32>> {
        let mut counts = BTreeMap::<u32, u32>::new();
        for rank in &self.0 {
            *counts.entry((*rank)?.0).or_default() += 1;
        }
        let mut counts: Vec<u32> = counts.into_values().collect();
        nccl_events::sort::sort_by(&mut counts, |a, b| b.cmp(a));
        Some(counts)
    }

    /// Whether two shapes agree as far as both are known.
    pub fn fits(&self, other: &Self) -> bool {
        let fits = |(a, b): (&Option<(u32, Option<u32>)>, _)| match (a, b) {
            (Some((host, rank)), &Some((other_host, other_rank))) => {
                *host == other_host && rank.zip(other_rank).is_none_or(|(a, b): (u32, u32)| a == b)
            }
            _ => true,
        };
        self.0.len() == other.0.len() && self.0.iter().zip(&other.0).all(fits)
    }
}

pub(super) fn samples(
    trace: &Trace,
    tables: &Tables,
    instances: &Instances,
    report: &Report,
    filter: &Filter,
) -> BTreeMap<(Placement, Class), Sample> {
    let shapes: Vec<Placement> =
        report.communicators.iter().map(|communicator| Placement::new(communicator, &report.ranks)).collect();
    let mut samples = BTreeMap::<(Placement, Class), (Sample, Vec<Value>)>::new();
    let mut rows: BTreeMap<_, Vec<u32>> = BTreeMap::new();
    for (row, operation) in (0..).zip(tables.operations.rows()) {
        if filter.wants(trace, &tables.members, &operation) && filter.wants_rank(&tables.members, operation.member) {
            let communicator = tables.members.row(operation.member).communicator;
            let key = (communicator, operation.function, operation.size_class(), operation.timing);
            rows.entry(key).or_default().push(row);
        }
    }
    for ((communicator, function, size, timing), rows) in rows {
        let class = (trace.function_name(function), size, timing.map_or("unknown", |timing| timing.name()));
        let (Some(shape), Some(known)) =
            (shapes.get(large(communicator)), report.communicators.get(large(communicator)))
        else {
            continue;
        };
        let (sample, values) = samples.entry((shape.clone(), class.clone())).or_insert_with(|| {
            let hosts = shape.0.iter().flatten().map(|(host, _)| host + 1).max().unwrap_or(0);
            (Sample::new(Kind { hosts, ranks: known.ranks, ..kind(class) }), Vec::new())
        });
        sample.kind.communicators.push(known.name.clone());
        // Positions of operations on their ranks.
        let mut places: BTreeMap<u32, u32> = BTreeMap::new();
        for row in rows {
            let operation = tables.operations.row(large(row));
            sample.count(tables, &operation);
            if !operation.is_unfinished {
                let place = places.entry(operation.member).or_default();
                values.push(sample.value(tables, instances, row, &operation, (communicator, *place)));
                *place += 1;
            }
        }
    }
    samples.into_iter().map(|(key, (sample, values))| (key, sample.with(values))).gather()
}

fn kind((function, _, timing): Class) -> Kind {
    Kind { function, timing: timing.to_owned(), bytes_min: u64::MAX, ..Kind::default() }
}

impl Sample {
    fn new(kind: Kind) -> Self {
        Self { kind, duration_error_ns: Some(0), is_measured: true, ..Self::default() }
    }

    fn count(&mut self, tables: &Tables, operation: &Operation) {
        let kind = &mut self.kind;
        kind.operations += 1;
        kind.unfinished += u64::from(operation.is_unfinished);
        kind.bytes_min = kind.bytes_min.min(operation.bytes);
        kind.bytes_max = kind.bytes_max.max(operation.bytes);
        self.is_measured &= operation.is_measured();
        // A duration is the difference of two times of one clock.
        let error_ns = own_error_ns(&tables.members, operation).map(|error_ns| 2 * error_ns);
        self.duration_error_ns = self.duration_error_ns.zip(error_ns).map(|(a, b)| a.max(b));
    }

    fn value(
        &mut self,
        tables: &Tables,
        instances: &Instances,
        row: u32,
        operation: &Operation,
        (communicator, place): (u32, u32),
    ) -> Value {
        let (start_ns, stop_ns) = (operation.start_ns, operation.stop_ns.max(operation.start_ns));
        let number = instances.instance_of_operation(row);
        let instance = number.and_then(|number| instances.all.get(large(number)));
        let waiting_ns = instance.and_then(|instance| {
            self.arrival_error_ns = self.arrival_error_ns.max(instance.arrivals.error_ns.ok()?);
            let (Split::Waits(until_ns) | Split::Unclear(until_ns)) = instance.split(tables, row);
            Some(real(until_ns.clamp(start_ns, stop_ns) - start_ns))
        });
        let unit = (communicator, number, if number.is_some() { 0 } else { place });
        Value { unit, start_ns, duration_ns: real(stop_ns - start_ns), waiting_ns }
    }

    fn with(mut self, mut values: Vec<Value>) -> Self {
        values.sort_unstable_by_key(|value| (value.unit, value.start_ns));
        let total_ns = whole(values.iter().map(|value| value.duration_ns).sum());
        self.kind.total_ns = self.is_measured.then_some(total_ns);
        let mut units: Vec<&[Value]> = values.chunk_by(|a, b| a.unit == b.unit).collect();
        units.sort_by_key(|unit| unit.first().map(|value| value.start_ns));
        self.kind.count = units.len() as u64;
        for unit in units {
            let ranks = real(unit.len() as u64);
            let duration_ns = unit.iter().map(|value| value.duration_ns).sum::<f64>() / ranks;
            self.durations.push(duration_ns);
            if let Some(waiting_ns) = unit.iter().map(|value| value.waiting_ns).sum::<Option<f64>>() {
                self.waiting.push(waiting_ns / ranks);
                self.transfer.push(duration_ns - waiting_ns / ranks);
            }
        }
        self
    }
}

/// For example "ncclAllReduce of 1 MiB on 8 ranks of 2 hosts".
pub(super) fn kind_text(kind: &Kind) -> String {
    let size = if kind.bytes_min == kind.bytes_max {
        bytes(kind.bytes_max)
    } else {
        format!("{} to {}", bytes(kind.bytes_min), bytes(kind.bytes_max))
    };
    format!("{} of {size} on {}", kind.function, ranks_text(kind))
}

fn ranks_text(kind: &Kind) -> String {
    let ranks = plural(kind.ranks.into(), "rank", "ranks");
    if kind.hosts > 1 { format!("{ranks} of {} hosts", kind.hosts) } else { ranks }
}

fn percent(share: f64) -> String {
    format!("{:+.1} %", share * 100.0).replace('-', "−")
}

fn deciding(group: &Group) -> Option<(&'static str, Difference)> {
    let measures = [("median", group.median), ("p99", group.p99)];
    let measures = measures.into_iter().filter_map(|(name, difference)| Some((name, difference?)));
    measures.into_iter().find(|(_, difference)| difference.outcome == group.outcome)
}

/// For example "the median is 1.2 ms instead of 1.0 ms, +20.1 % (+19.5 % to +20.7 %), in transfer".
fn change_text(group: &Group) -> String {
    let Some((name, difference)) = deciding(group) else {
        return String::new();
    };
    difference_text(name, &difference) + component(group)
}

/// In which part of the operations of a group the difference is.
fn component(group: &Group) -> &'static str {
    let is_so = |part: Option<Difference>| part.is_some_and(|part| part.outcome == group.outcome);
    match (is_so(group.waiting), is_so(group.transfer)) {
        (true, true) => ", in waiting and transfer",
        (true, false) => ", in waiting for the last rank",
        (false, true) => ", in transfer",
        (false, false) => "",
    }
}

/// For example "the median is 1.2 ms instead of 1.0 ms, +20.1 % (+19.5 % to +20.7 %)".
fn difference_text(name: &str, difference: &Difference) -> String {
    let mut text =
        format!("the {name} is {} instead of {}", time(whole(difference.b_ns)), time(whole(difference.a_ns)));
    if let (Some(share), Some([low, high])) = (difference.share, difference.interval_ns) {
        let [low, high] = [low, high].map(|ns| percent(ns / difference.a_ns));
        let interval = if low == high { String::new() } else { format!(" ({low} to {high})") };
        text.push_str(&format!(", {}{interval}", percent(share)));
    }
    text
}

/// For example "+20.1 % in the median".
fn share_text(group: &Group) -> String {
    let change = deciding(group).and_then(|(name, difference)| Some((name, difference.share?)));
    change.map_or_else(String::new, |(name, share)| format!("{} in the {name}", percent(share)))
}

/// For example "B did not end: HANG: …".
pub(super) fn did_not_end(name: &str, run: &Compared) -> String {
    shortened(&format!("{name} did not end: {}", run.verdict.line), MOST_COLUMNS)
}

/// The run that did not end; B if neither did.
fn stuck(of: &Comparison) -> Option<(&'static str, &Compared)> {
    let [a, b] = &of.runs;
    [("B", b), ("A", a)].into_iter().find(|(_, run)| run.verdict.finding == Finding::Unfinished)
}

/// The answer: a run that did not end is reported before differences in operations that ended.
pub(super) fn sentence(of: &Comparison) -> String {
    stuck(of).map_or_else(|| differences(of), |(name, run)| did_not_end(name, run))
}

/// What differs in the operations that ended.
fn differences(of: &Comparison) -> String {
    let number = |outcome| of.groups.iter().filter(|group| group.outcome == outcome).count() as u64;
    let compared = of.groups.len() as u64 - number(Outcome::Unclear);
    let groups = plural(compared, "group of operations", "groups of operations");
    let most = of.groups.iter().find(|group| group.outcome == of.outcome);
    match (of.outcome, most) {
        (Outcome::Slower | Outcome::Faster, Some(most)) => {
            let comparative = if of.outcome == Outcome::Slower { "slower" } else { "faster" };
            let others = match number(Outcome::Faster) {
                faster if faster > 0 && of.outcome == Outcome::Slower => format!(" and faster in {faster}"),
                _ => String::new(),
            };
            let number = number(of.outcome);
            let most_of = if number > 1 { "most in " } else { "" };
            let what = kind_text(&most.b);
            let head = match compared {
                1 => format!("B is {comparative} in {what}"),
                _ => format!("B is {comparative} in {number} of {compared} groups{others}: {most_of}{what}"),
            };
            // The basis says the rest of what does not fit.
            let changes = [change_text(most), format!("{}{}", share_text(most), component(most)), share_text(most)];
            let changes = changes.map(|change| format!("{head}, {change}."));
            let fits = changes.into_iter().find(|line| columns(line) <= MOST_COLUMNS);
            fits.unwrap_or_else(|| format!("{head}."))
        }
        (Outcome::NoDifference, _) => {
            let limits = of.groups.iter().filter(|group| group.outcome != Outcome::Unclear);
            let limit = limits.filter_map(|group| group.median?.resolution).max_by(f64::total_cmp);
            let limit = limit.map(|share| format!("changes over {:.1} %", share * 100.0));
            let (answer, shown) = match of.groups.iter().any(|group| group.is_coarse) {
                true => ("The runs do not show whether they differ", limit.map(|limit| format!(" (only {limit})"))),
                false => ("The data shows no difference", limit.map(|limit| format!(" ({limit} would show)"))),
            };
            let unclear = unclear(of).map_or_else(String::new, |unclear| format!("; unclear: {unclear}"));
            let groups = match of.groups.len() as u64 {
                all if all == compared => groups,
                all => format!("{compared} of {}", plural(all, "group", "groups")),
            };
            let lines = [shown.unwrap_or_default(), String::new()];
            let lines = lines.map(|shown| format!("{answer} in {groups}{shown}{unclear}."));
            lines.iter().find(|line| columns(line) <= MOST_COLUMNS).unwrap_or(&lines[1]).clone()
        }
        _ if of.groups.is_empty() => {
            "No operations can be compared: no two have the same function, size, timing and shape of communicator."
                .to_owned()
        }
        _ => {
            let reason = of.groups.iter().find_map(|group| group.reason.as_deref()).unwrap_or_default();
            format!("The data does not allow a comparison: {reason}.")
        }
    }
}

/// For example "2 groups, 1 range": what may have changed or not.
fn unclear(of: &Comparison) -> Option<String> {
    let groups = of.groups.iter().filter(|group| group.outcome == Outcome::Unclear).count() as u64;
    let ranges = of.ranges.iter().filter(|range| range.median.outcome == Outcome::Unclear).count() as u64;
    let parts = [(groups, plural(groups, "group", "groups")), (ranges, plural(ranges, "range", "ranges"))];
    let parts: Vec<String> = parts.into_iter().filter(|(number, _)| *number > 0).map(|(_, part)| part).collect();
    (!parts.is_empty()).then(|| parts.join(", "))
}

pub(super) fn basis(of: &Comparison) -> Vec<String> {
    let mut basis = Vec::new();
    let stuck = stuck(of).map(|(name, _)| name);
    if stuck.is_some() {
        basis.push(differences(of));
    }
    let most = of.groups.iter().find(|group| group.outcome == of.outcome && !change_text(group).is_empty());
    let most = most.filter(|_| matches!(of.outcome, Outcome::Slower | Outcome::Faster));
    let change = most.map(change_text).filter(|change| !of.sentence.contains(change));
    basis.extend(most.zip(change).map(|(group, change)| format!("In {}, {change}.", kind_text(&group.b))));
    // The answer itself names what is unclear if nothing differs.
    if matches!(of.outcome, Outcome::Slower | Outcome::Faster) {
        basis.extend(unclear(of).map(|unclear| format!("Unclear: {unclear}; column `reason` says why.")));
    }
    basis.extend(ranges(of));
    let mut measures =
        of.groups.iter().flat_map(|group| [group.median, group.p99, group.waiting, group.transfer]).flatten();
    if measures.any(|difference| difference.interval_ns.is_some()) {
        basis.push(format!(
            "The intervals hold together with {:.0} % confidence; they cover variation within these runs, not between \
            runs.",
            of.confidence * 100.0
        ));
    }
    for (name, run) in ["A", "B"].into_iter().zip(&of.runs).filter(|(name, _)| Some(*name) != stuck) {
        basis.push(format!("{name}: {}", run.verdict.line));
    }
    let [a, b] = of.runs.each_ref().map(|run| &run.run);
    basis.extend(unlike("NCCL", a, b, |run| run.nccl_versions.join(", ")));
    basis.extend(unlike("recorded", a, b, |run| run.recorded.join("; ")));
    basis.extend(unlike("hosts", a, b, |run| run.hosts.len().to_string()));
    basis.extend(unlike("processes", a, b, |run| run.processes.to_string()));
    for (name, only) in [("A", &of.only_a), ("B", &of.only_b)] {
        if let Some(first) = only.first() {
            let groups = plural(only.len() as u64, "group", "groups");
            basis.push(format!("Only {name} has {groups} of operations, such as {}.", kind_text(first)));
        }
    }
    let counts = of.groups.iter().filter(|group| group.a.count != group.b.count);
    if let Some(first) = counts.clone().next() {
        basis.push(format!(
            "Counts differ in {}: {} ran {} in A and {} in B.",
            plural(counts.count() as u64, "group", "groups"),
            kind_text(&first.b),
            plural(first.a.count, "time", "times"),
            plural(first.b.count, "time", "times"),
        ));
    }
    basis
}

/// Names the ranges whose changes cost B most and save most. If a nested range has half of the change, names that range
/// instead.
fn ranges(of: &Comparison) -> Vec<String> {
    let cost = |range: &RangeChange| (range.median.difference_ns * real(range.b)).abs();
    let most = [Outcome::Slower, Outcome::Faster].into_iter().filter_map(|outcome| {
        let all = || of.ranges.iter().filter(move |change| change.median.outcome == outcome);
        let first = all().next()?;
        let inside = all().filter(|change| change.path.starts_with(&first.path) && cost(change) >= cost(first) / 2.0);
        inside.max_by_key(|change| change.path.len())
    });
    let named = most.map(|range| {
        format!("The range `{}` changed: {}.", path_of_ranges(&range.path), difference_text("median", &range.median))
    });
    named.collect()
}

fn unlike(what: &str, a: &Run, b: &Run, get: impl Fn(&Run) -> String) -> Option<String> {
    let [a, b] = [a, b].map(|run| Some(get(run)).filter(|text| !text.is_empty()));
    let [a, b] = [a, b].map(|text| text.unwrap_or_else(|| "not stated".to_owned()));
    (a != b).then(|| format!("The runs differ in {what}: A {a}, B {b}."))
}

pub(super) const LEAST: usize = 50;

/// Why samples of at least [`LEAST`] values have no interval.
pub(super) fn too_few(a: u64, b: u64) -> String {
    format!("A has {a} and B {b}, too few for how they vary over the run")
}

/// The difference between a quantile of two runs. Its confidence interval can be computed only once the number of all
/// intervals is known.
///
/// Collectives of one run are not independent: a congested minute slows all of them. So each run is cut into sections
/// in time order. The spread of the share of values below the quantile, over the sections, bounds the true quantile
/// between two sample quantiles (Woodruff's interval), for any distribution, even one with two peaks. The intervals of
/// two runs are combined into that of the difference (Zou and Donner's MOVER).
#[derive(Clone, Debug)]
pub(super) struct QuantileDifference {
    a: Quantile,
    b: Quantile,
    error_ns: Option<u64>,
}

#[derive(Clone, Debug)]
struct Quantile {
    sorted: Vec<f64>,
    q: f64,
    value: f64,
    /// Standard error of the share of values below `value`.
    deviation: f64,
    freedom: f64,
}

impl Quantile {
    /// `values` are in time order.
    fn new(values: &[f64], q: f64) -> Self {
        let mut sorted = values.to_vec();
        sorted.sort_unstable_by(f64::total_cmp);
        let value = quantile(&sorted, q);
        let share = |part: &[f64]| {
            let below = part.iter().filter(|other| **other <= value).count();
            real(below as u64) / real(part.len().max(1) as u64)
        };
        let (length, sections) = (values.len(), (values.len() / 20).clamp(10, 30));
        let parts = (0..sections).map(|at| &values[at * length / sections..(at + 1) * length / sections]);
        let all = share(values);
        let squares: f64 = parts.map(|part| (share(part) - all).powi(2)).sum();
        let sections = real(sections as u64);
        Self { sorted, q, value, deviation: (squares / (sections * (sections - 1.0))).sqrt(), freedom: sections - 1.0 }
    }

    /// The interval that misses the true value with probability `miss`; `None` if it would exceed the sample.
    fn interval(&self, miss: f64) -> Option<[f64; 2]> {
        let t = StudentsT::new(0.0, 1.0, self.freedom).ok()?.inverse_cdf(1.0 - miss / 2.0);
        let half = if self.deviation > 0.0 { t * self.deviation } else { 0.0 };
        let is_inside = self.sorted.len() >= LEAST && self.q - half > 0.0 && self.q + half < 1.0;
        is_inside.then(|| [self.q - half, self.q + half].map(|q| quantile(&self.sorted, q)))
    }
}

impl QuantileDifference {
    /// Both samples are in time order.
    pub(super) fn new(a: &[f64], b: &[f64], q: f64, error_ns: Option<u64>) -> Option<Self> {
        (!a.is_empty() && !b.is_empty()).then(|| Self { a: Quantile::new(a, q), b: Quantile::new(b, q), error_ns })
    }

    pub(super) fn is_exact(&self) -> bool {
        self.a.sorted.len().min(self.b.sorted.len()) >= LEAST
    }

    /// The difference with the interval that misses the true value with probability `miss`.
    pub(super) fn difference(&self, miss: f64) -> Difference {
        let (a, b) = (self.a.value, self.b.value);
        let difference_ns = b - a;
        let interval_ns = self.a.interval(miss).zip(self.b.interval(miss)).map(|([a_low, a_high], [b_low, b_high])| {
            // No operation takes less than no time.
            let low = difference_ns - (b - b_low).hypot(a_high - a);
            [low.max(-a), difference_ns + (b_high - b).hypot(a - a_low)]
        });
        let outcome = match (interval_ns, self.error_ns.map(real)) {
            (Some([low, _]), Some(error)) if low > error => Outcome::Slower,
            (Some([_, high]), Some(error)) if high < -error => Outcome::Faster,
            (Some(_), Some(_)) => Outcome::NoDifference,
            _ => Outcome::Unclear,
        };
        let share_of_a = |ns: f64| (a > 0.0).then(|| ns / a);
        let bounds = interval_ns.zip(self.error_ns.map(real));
        Difference {
            a_ns: a,
            b_ns: b,
            difference_ns,
            share: share_of_a(difference_ns),
            interval_ns,
            error_ns: self.error_ns,
            resolution: bounds.and_then(|([low, high], error)| share_of_a((high - low) / 2.0 + error)),
            slower_at_most: bounds.and_then(|([_, high], error)| share_of_a(high + error)),
            outcome,
        }
    }
}

/// Limit on compared ranges, those that took longest in A: each further range widens the intervals of all.
const MOST: usize = 16;

/// Keyed by path: durations in ns, in time order. The k-th is the mean over threads of their k-th range.
pub(super) type Durations = BTreeMap<String, Vec<f64>>;

pub(super) fn durations(tables: &Tables, filter: &Filter) -> Durations {
    let mut sums: BTreeMap<u32, Vec<(f64, u64)>> = BTreeMap::new();
    let mut places: BTreeMap<(u32, LocationRef), usize> = BTreeMap::new();
    let wanted =
        tables.ranges.rows().filter(|range| !range.is_unfinished && filter.wants_time(range.start_ns, range.stop_ns));
    for range in wanted {
        let place = places.entry((range.path, range.location)).or_default();
        let path_sum = sums.entry(range.path).or_default();
        path_sum.resize(path_sum.len().max(*place + 1), (0.0, 0));
        path_sum[*place].0 += real(range.stop_ns.saturating_sub(range.start_ns));
        path_sum[*place].1 += 1;
        *place += 1;
    }
    let texts = tables.paths.texts();
    let named = sums.into_iter().filter_map(|(path, sums)| Some((texts.get(large(path))?.clone(), sums)));
    named.map(|(path, sums)| (path, sums.into_iter().map(|(ns, threads)| ns / real(threads)).collect())).gather()
}

/// A range of both runs.
pub(super) struct RangePair<'a> {
    path: &'a str,
    counts: [u64; 2],
    estimate: QuantileDifference,
}

/// The ranges of both runs that are frequent enough for an interval.
pub(super) fn pairs<'a>(a: &'a Durations, b: &Durations) -> Vec<RangePair<'a>> {
    let both =
        a.iter().filter_map(|(path, values_a)| Some((whole(values_a.iter().sum()), path, values_a, b.get(path)?)));
    let mut both: Vec<_> =
        both.filter(|(.., values_a, values_b)| values_a.len().min(values_b.len()) >= LEAST).collect();
    nccl_events::sort::sort_by_key(&mut both, |(total_ns, ..)| Reverse(*total_ns));
    both.truncate(MOST);
    // A duration is the difference of two times of one clock, which has no error here.
    let pairs = both.into_iter().filter_map(|(_, path, values_a, values_b)| {
        let counts = [values_a.len() as u64, values_b.len() as u64];
        Some(RangePair { path, counts, estimate: QuantileDifference::new(values_a, values_b, 0.5, Some(0))? })
    });
    pairs.collect()
}

/// The changes of ranges: those with a difference first, sorted by what the difference costs B.
pub(super) fn changes(pairs: &[RangePair<'_>], miss: f64) -> Vec<RangeChange> {
    let changes = pairs.iter().map(|pair| {
        let median = pair.estimate.difference(miss);
        RangeChange {
            path: names_of(pair.path),
            a: pair.counts[0],
            b: pair.counts[1],
            median,
            is_coarse: median.outcome == Outcome::NoDifference && median.is_coarse(),
            reason: (median.outcome == Outcome::Unclear).then(|| too_few(pair.counts[0], pair.counts[1])),
        }
    });
    let mut changes: Vec<RangeChange> = changes.collect();
    nccl_events::sort::sort_by_key(&mut changes, |change| {
        let is_shown = matches!(change.median.outcome, Outcome::Slower | Outcome::Faster);
        Reverse((is_shown, whole((change.median.difference_ns * real(change.b)).abs())))
    });
    changes
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Nearly half of A's values are a thousand times the others, so its median may be at either level.
    #[test]
    fn no_run_is_faster_by_more_than_all_of_its_time() {
        let a: Vec<f64> = (0..200_u32).map(|at| if at * 7 % 20 < 9 { 10_000.0 } else { 10.0 }).collect();
        let uneven: Vec<f64> =
            a.iter().enumerate().map(|(at, value)| if at % 40 < 6 { 10_000.0 } else { *value }).collect();
        let found = QuantileDifference::new(&uneven, &[10.0; 200], 0.5, Some(0)).expect("values").difference(0.05);
        let [low_ns, _] = found.interval_ns.expect("an interval");
        assert!(low_ns < 0.0 && low_ns >= -found.a_ns, "{found:?}");
    }

    #[test]
    fn a_range_in_which_only_a_large_change_would_show_is_coarse() {
        let uneven = (0..200_u32).map(|at| if at / 20 % 2 == 0 { 10_000.0 } else { 10.0 }).collect();
        let run = Durations::from([("even".to_owned(), vec![10.0; 200]), ("uneven".to_owned(), uneven)]);
        let changes = changes(&pairs(&run, &run), 0.05);
        let coarse: BTreeMap<_, _> = changes.iter().map(|change| (change.path[0].as_str(), change.is_coarse)).collect();
        assert_eq!(coarse, BTreeMap::from([("even", false), ("uneven", true)]));
    }
}
