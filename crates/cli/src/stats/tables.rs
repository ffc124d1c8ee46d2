//! A sheet for each question, and the cells of all sheets.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use crate::output;
use crate::output::{Cell, NumberTable};
use crate::stats::SHORT;
use analysis::results::{
    Baseline, Budget, Cause, CauseKind, Fit, Link, LinkKey, Nic, OperationClass, PathPart, Phase, Quantiles, Rank,
    Report, Run, Step, Why,
};
use analysis::units;
use analysis::units::{count, plural, real};
use clap::ValueEnum;
use nccl_events::archive::path_of_ranges;
use nccl_events::ids::index;
use nccl_events::sort::{Gather, sort_by_key};
use serde::Serialize;

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum TableKind {
    /// Causes of lost time
    Causes,
    /// Function, communicator and size: durations and bandwidths
    Operations,
    /// Ranks: waiting, transfer, how often last
    Ranks,
    /// Sender and receiver: latency, rate
    Pairs,
    /// Channels: latency, rate
    Channels,
    /// Network interfaces: traffic, rate, share of their speed
    #[value(alias = "nics")]
    Nic,
    /// Messages between ranks, and how long ranks waited for each other
    Messages,
    /// Overlap of communication and computation
    Overlap,
    /// Critical path, by rank and activity (only with --by)
    Path,
    /// Collectives that took far longer than others of their kind
    Anomalies,
    /// Operations by the NVTX range of the program that they were called in
    #[value(alias = "phases")]
    Phase,
    /// Steps of the program: duration, share of communication
    #[value(alias = "steps")]
    Step,
    /// Calls that create or destroy communicators: duration, last caller
    Init,
}

/// A table. Where it is one of several, communicators of one shape are one row.
pub(super) fn sheet(report: &Report, by: TableKind, wanted: &[u32], is_alone: bool) -> NumberTable {
    let mut sheet = match by {
        TableKind::Causes => causes(report),
        TableKind::Operations if is_alone => operations(report, &report.operations, communicator),
        TableKind::Operations => operations_by_shape(report),
        // Where no operation ended, as in a hang at the first one, no rank has a time.
        TableKind::Ranks if !is_alone && report.ranks.iter().all(|rank| rank.budget.operations_ns == 0) => {
            NumberTable::new("ranks", &[])
        }
        TableKind::Ranks => ranks(report, wanted, !is_alone),
        TableKind::Pairs => links("network, by sender and receiver", report, &report.pairs, wanted),
        // What a channel lost is lost on its slow pairs, unless it is slow itself.
        TableKind::Channels if !is_alone && !report.causes.iter().any(is_of_channel) => {
            NumberTable::new("network, by channel", &[])
        }
        TableKind::Channels => links("network, by channel", report, &report.channels, &[]),
        TableKind::Nic if !is_alone && report.nics.iter().all(|nic| nic.sent_bytes.is_none()) => {
            NumberTable::new("network interfaces", &[])
        }
        TableKind::Nic => nics(report),
        TableKind::Messages => messages(report, wanted),
        TableKind::Overlap => overlap(report, wanted),
        TableKind::Path => path(report, wanted),
        TableKind::Anomalies => anomalies(report),
        TableKind::Phase => phases(report),
        TableKind::Step => steps(report),
        TableKind::Init => communicators(report),
    };
    sheet.empty = match by {
        TableKind::Phase => NO_PHASES,
        TableKind::Step => NO_STEPS,
        TableKind::Init => NO_COMMUNICATORS,
        TableKind::Nic => no_nics(report),
        TableKind::Path => NO_PATH,
        TableKind::Causes | TableKind::Anomalies => "none found",
        TableKind::Pairs | TableKind::Channels if !report.run.has_steps => Run::LINKS_NOT_MEASURED,
        TableKind::Pairs | TableKind::Channels => {
            "no transfer has a size: NCCL before 2.27 reports none, or nothing was transferred"
        }
        TableKind::Overlap if !report.run.has_other_kernels => {
            "kernels of the program were not recorded: that needs CUPTI and NCCL_OTF2_CUPTI_KERNELS=all"
        }
        _ => sheet.empty,
    };
    sheet
}

pub(super) fn is_column(report: &Report, name: &str) -> bool {
    TableKind::value_variants().iter().any(|by| sheet(report, *by, &[], true).has(name))
}

fn causes(report: &Report) -> NumberTable {
    NumberTable::from_rows(
        "causes of lost time (times overlap and do not add up)",
        report.causes.iter().map(|cause| (report, cause)),
        &[
            ("lost", |(_, row)| time(row.lost_ns)),
            ("share", |(_, row)| optional(row.share, Cell::Share)),
            ("cause", |(report, row)| text(cause(report, row))),
            ("since", |(_, row)| optional(row.since_ns, time)),
            ("until", |(_, row)| optional(row.until_ns, time)),
            ("+sentence", |(_, row)| text(&row.sentence)),
        ],
    )
}

fn cause(report: &Report, cause: &Cause) -> String {
    let who = cause.rank.map(|number| rank(report, number));
    let hosts = cause.host.clone().map(|host| [Some(host), cause.to_host.clone()]);
    let hosts = hosts.map(|hosts| hosts.into_iter().flatten().collect::<Vec<_>>().join(" → "));
    let who = who.or(cause.link.map(|key| link(report, &key))).or(hosts);
    let what = format!("{}: {}", word(cause.kind), who.unwrap_or_default());
    what.trim_end_matches(": ").to_owned()
}

/// As [`operations`], with one row for the communicators of one shape.
fn operations_by_shape(report: &Report) -> NumberTable {
    fn shape(report: &Report, number: u32) -> String {
        report.communicators.get(index(number)).map(|communicator| communicator.shape.clone()).unwrap_or_default()
    }
    let mut groups: Vec<(_, Vec<&OperationClass>)> = Vec::new();
    for class in &report.operations {
        let size_bits = u64::BITS - class.bytes_max.leading_zeros();
        let key = (shape(report, class.communicator), &class.function, size_bits);
        match groups.iter_mut().find(|(known, _)| *known == key) {
            Some((_, group)) => group.push(class),
            None => groups.push((key, vec![class])),
        }
    }
    let is_any_merged = groups.len() < report.operations.len();
    let classes: Vec<OperationClass> = groups.into_iter().map(|(_, group)| together(&group)).collect();
    let mut sheet = operations(report, &classes, shape);
    let remark = "a row of several communicators has the median of their medians and the highest p99";
    sheet.remarks.extend(is_any_merged.then(|| remark.to_owned()));
    sheet
}

/// The classes of several communicators as one.
fn together(classes: &[&OperationClass]) -> OperationClass {
    let middle = |mut all: Vec<f64>| (!all.is_empty()).then(|| analysis::median(&mut all));
    let quantiles = |get: fn(&OperationClass) -> Option<Quantiles>| {
        let all: Vec<Quantiles> = classes.iter().filter_map(|class| get(class)).collect();
        let median = middle(all.iter().map(|one| one.median).collect())?;
        Some(Quantiles { median, p99: all.iter().map(|one| one.p99).fold(0.0, f64::max), ..*all.first()? })
    };
    let sum = |get: fn(&OperationClass) -> u64| classes.iter().map(|class| get(class)).sum();
    let median =
        |get: fn(&OperationClass) -> Option<f64>| middle(classes.iter().filter_map(|class| get(class)).collect());
    let (mut timing, mut budget) = (BTreeMap::<String, u64>::new(), Budget::default());
    for class in classes {
        budget += class.budget;
        class.timing.iter().for_each(|(name, count)| *timing.entry(name.clone()).or_default() += count);
    }
    let Some(first) = classes.first() else { return OperationClass::default() };
    let share = median(|class| class.baseline.map(|baseline| baseline.share));
    let baseline = first.baseline.zip(share).map(|(baseline, share)| Baseline { share, ..baseline });
    OperationClass {
        bytes_max: classes.iter().map(|class| class.bytes_max).max().unwrap_or_default(),
        count: sum(|class| class.count),
        unfinished: sum(|class| class.unfinished),
        comparable: sum(|class| class.comparable),
        duration_ns: quantiles(|class| class.duration_ns),
        busbw: quantiles(|class| class.busbw),
        transfer_busbw: quantiles(|class| class.transfer_busbw),
        expected_busbw: median(|class| class.expected_busbw),
        expected_share: median(|class| class.expected_share),
        timing,
        budget,
        baseline,
        ..(*first).clone()
    }
}

fn operations(report: &Report, classes: &[OperationClass], name: fn(&Report, u32) -> String) -> NumberTable {
    fn duration(class: &OperationClass, get: fn(&Quantiles) -> f64) -> Cell {
        optional(class.duration_ns.as_ref(), |quantiles| Cell::Time(get(quantiles)))
    }
    fn skew(class: &OperationClass, get: fn(&Quantiles) -> f64) -> Cell {
        optional(class.skew_ns.as_ref(), |quantiles| Cell::Time(get(quantiles)))
    }
    fn median(rates: Option<&Quantiles>) -> Cell {
        optional(rates, |quantiles| Cell::Rate(quantiles.median))
    }
    let has_bound = |class: &OperationClass| class.expected_busbw.is_some();
    let lacks_bound = report.topology.is_some() && !report.operations.iter().any(has_bound);
    let is_any_unfinished = classes.iter().any(|class| class.unfinished > 0);
    let unfinished = if is_any_unfinished { "unfinished" } else { "+unfinished" };
    let mut sheet = NumberTable::from_rows(
        "operations, counted on every rank",
        classes.iter().map(|class| (name(report, class.communicator), class)),
        &[
            ("function", |(_, row)| text(&row.function)),
            ("bytes", |(_, row)| Cell::Bytes(row.bytes_max)),
            ("count", |(_, row)| Cell::Count(row.count)),
            ("median", |(_, row)| duration(row, |row| row.median)),
            ("p99", |(_, row)| duration(row, |row| row.p99)),
            ("busbw", |(_, row)| median(row.busbw.as_ref())),
            ("transfer_busbw", |(_, row)| median(row.transfer_busbw.as_ref())),
            ("expected_busbw", |(_, row)| optional(row.expected_busbw, Cell::Rate)),
            ("of_expected", |(_, row)| optional(row.expected_share, Cell::Share)),
            ("of_baseline", |(_, row)| optional(row.baseline, |row| Cell::Share(row.share))),
            ("waiting", |(_, row)| compared(&row.budget, row.budget.waiting_ns)),
            ("communicator", |(name, _)| text(name)),
            ("+reduced_by", |(_, row)| words(&row.reduced_by)),
            ("timing", |(_, row)| optional(timing(&row.timing), text)),
            ("+bytes_min", |(_, row)| Cell::Bytes(row.bytes_min)),
            (unfinished, |(_, class)| Cell::Count(class.unfinished)),
            ("+min", |(_, row)| duration(row, |row| row.min)),
            ("+p95", |(_, row)| duration(row, |row| row.p95)),
            ("+max", |(_, row)| duration(row, |row| row.max)),
            ("+total", |(_, row)| duration(row, |row| row.total)),
            ("+algbw", |(_, row)| median(row.algbw.as_ref())),
            ("+baseline", |(_, row)| optional(row.baseline, |row| Cell::Rate(row.busbw))),
            ("+comparable", |(_, row)| Cell::Count(row.comparable)),
            ("+skew_median", |(_, row)| skew(row, |row| row.median)),
            ("+skew_p99", |(_, row)| skew(row, |row| row.p99)),
            ("+transfer", |(_, row)| compared(&row.budget, row.budget.transfer_ns)),
            ("+unclear", |(_, row)| compared(&row.budget, row.budget.unclear_ns)),
        ],
    );
    let why = "no expected_busbw: NCCL did not report the algorithm, ranks of the communicator were not recorded, or \
               NCCL's graph of a host does not have all of its ranks";
    sheet.remarks.extend(few_have_bandwidth(classes));
    sheet.details.extend(lacks_bound.then(|| why.to_owned()));
    sheet
}

/// A remark on how many collectives have a bandwidth; `None` unless they are fewer than half of a class.
fn few_have_bandwidth(classes: &[OperationClass]) -> Option<String> {
    // Sends and receives have no arrivals to compare, and no bus bandwidth.
    let classes = classes.iter().filter(|class| class.comparable > 0);
    let numbers = classes.map(|class| {
        let with = class.busbw.as_ref().map_or(0, |busbw| busbw.count);
        (with, class.count.saturating_sub(class.unfinished))
    });
    let numbers: Vec<(u64, u64)> = numbers.collect();
    numbers.iter().any(|(with, ended)| 2 * with < *ended).then(|| {
        let (with, ended) = numbers.iter().fold((0, 0), |sum, row| (sum.0 + row.0, sum.1 + row.1));
        format!(
            "busbw and transfer_busbw are those of {} of {} collectives: the others share a kernel, lack ranks, or \
             were not measured",
            count(with),
            count(ended)
        )
    })
}

/// For example "kernelch", or "event 16, kernelch 12"; `None` if no operation ended.
fn timing(timing: &BTreeMap<String, u64>) -> Option<String> {
    if timing.len() < 2 {
        return timing.keys().next().cloned();
    }
    Some(timing.iter().map(|(name, count)| format!("{name} {count}")).collect::<Vec<_>>().join(", "))
}

const fn is_of_channel(cause: &Cause) -> bool {
    matches!(cause.kind, CauseKind::SlowChannel | CauseKind::SlowConnection)
}

/// `is_short`: only the first rows are shown, so late ranks come first.
fn ranks(report: &Report, wanted: &[u32], is_short: bool) -> NumberTable {
    // Whether anything shows who waited for whom.
    fn is_unknown(report: &Report, rank: &Rank) -> bool {
        let Budget { waiting_ns, transfer_ns, .. } = report.budget;
        rank.budget.operations_ns == 0 || rank.awaited_ns == 0 && waiting_ns + transfer_ns == 0
    }
    fn part(rank: &Rank, get: fn(&Budget) -> u64) -> Cell {
        share(get(&rank.budget), rank.budget.operations_ns)
    }
    let ranks = (0..).zip(&report.ranks).filter(|(number, _)| is_wanted(report, Some(*number), wanted));
    let mut ranks: Vec<&Rank> = ranks.map(|(_, rank)| rank).collect();
    if is_short && ranks.len() > SHORT {
        sort_by_key(&mut ranks, |rank| Reverse(rank.lost_ns));
    }
    NumberTable::from_rows(
        "ranks: their time in operations, and how late they come",
        ranks.into_iter().map(|rank| (report, rank)),
        &[
            ("rank", |(_, row)| text(&row.name)),
            ("operations", |(_, row)| unless(row.budget.operations_ns == 0, time(row.budget.operations_ns))),
            ("waiting", |(_, row)| compared(&row.budget, row.budget.waiting_ns)),
            ("transfer", |(_, row)| compared(&row.budget, row.budget.transfer_ns)),
            ("unclear", |(_, row)| compared(&row.budget, row.budget.unclear_ns)),
            ("awaited", |(report, row)| unless(is_unknown(report, row), time(row.awaited_ns))),
            ("own", |(_, row)| optional(row.own_ns, time)),
            ("typical", |(_, row)| optional(row.typical_ns, Cell::Time)),
            ("longer", |(_, row)| optional(row.longer_ns, time)),
            ("late_in", |(_, row)| optional(row.late_in, Cell::Share)),
            ("lost", |(_, row)| optional(row.lost_ns, time)),
            ("chance", |(_, row)| optional(row.p_value, Cell::Probability)),
            ("host", |(_, row)| text(&row.host)),
            ("+why", |(_, row)| optional(row.why.as_ref().map(reason_text), text)),
            ("+not_compared", |(_, row)| part(row, |budget| budget.not_compared_ns)),
            ("+alone", |(_, row)| optional(row.alone_ns, time)),
            ("+last", |(_, row)| Cell::Count(row.last)),
            ("+caused", |(_, row)| time(row.caused_ns)),
            ("+collectives", |(_, row)| Cell::Count(row.instances)),
            ("+trend_per_s", |(_, row)| optional(row.trend_ns_per_s, Cell::Time)),
            ("+changed_at", |(_, row)| optional(row.change.map(|change| change.at_ns), time)),
            ("+before", |(_, row)| optional(row.change.map(|change| change.before), Cell::Time)),
            ("+after", |(_, row)| optional(row.change.map(|change| change.after), Cell::Time)),
            ("+process", |(_, row)| text(&row.process)),
        ],
    )
}

fn links(title: &'static str, report: &Report, links: &[Link], wanted: &[u32]) -> NumberTable {
    fn latency(fit: Option<Fit>) -> Cell {
        optional(fit.and_then(|fit| fit.latency_ns), Cell::Time)
    }
    fn rate(fit: Option<Fit>) -> Cell {
        optional(fit.and_then(|fit| fit.rate), Cell::Rate)
    }
    fn r_squared(fit: Option<Fit>) -> Cell {
        optional(fit.and_then(|fit| fit.r_squared), Cell::Number)
    }
    let is_wanted = |key: &LinkKey| [key.from, key.to].into_iter().any(|end| is_wanted(report, end, wanted));
    NumberTable::from_rows(
        title,
        links.iter().filter(|link| is_wanted(&link.key)).map(|link| (report, link)),
        &[
            ("from", |(report, row)| optional(row.key.from, |number| text(rank(report, number)))),
            ("to", |(report, row)| optional(receiver(report, &row.key), text)),
            ("channel", |(_, row)| optional(row.key.channel.map(u64::from), Cell::Count)),
            ("steps", |(_, row)| Cell::Count(row.steps)),
            ("bytes", |(_, row)| Cell::Bytes(row.bytes)),
            ("latency", |(_, row)| latency(row.all)),
            ("latency_least", |(_, row)| latency(row.least)),
            ("rate_fit", |(_, row)| rate(row.all)),
            ("rate_least", |(_, row)| rate(row.least)),
            ("rate", |(_, row)| optional(row.rate, Cell::Rate)),
            ("slowdown", |(_, row)| optional(row.slowdown, Cell::Number)),
            ("slow_steps", |(_, row)| optional(row.slow_steps, Cell::Count)),
            ("lost", |(_, row)| optional(row.lost_ns, time)),
            ("nic", |(report, row)| names(report, &row.from_nics)),
            ("path", |(_, row)| words(&row.nic_paths)),
            ("communicator", |(report, row)| text(communicator(report, row.key.communicator))),
            ("+to_nic", |(report, row)| names(report, &row.to_nics)),
            ("+typical_slowdown", |(_, row)| optional(row.typical_slowdown, Cell::Number)),
            ("+chance", |(_, row)| optional(row.chance, Cell::Probability)),
            ("+busy", |(_, row)| time(row.busy_ns)),
            ("+r_squared", |(_, row)| r_squared(row.all)),
            ("+r_squared_least", |(_, row)| r_squared(row.least)),
            ("+changed_at", |(_, row)| optional(row.change.map(|change| change.at_ns), time)),
            ("+before", |(_, row)| optional(row.change.map(|change| change.before), Cell::Number)),
            ("+after", |(_, row)| optional(row.change.map(|change| change.after), Cell::Number)),
            ("+send_gpu_wait", |(_, row)| time(row.waits.send_gpu_ns)),
            ("+send_peer_wait", |(_, row)| time(row.waits.send_peer_ns)),
            ("+send_wait", |(_, row)| time(row.waits.send_ns)),
            ("+recv_wait", |(_, row)| time(row.waits.recv_ns)),
            ("+recv_flush_wait", |(_, row)| time(row.waits.recv_flush_ns)),
            ("+recv_gpu_wait", |(_, row)| time(row.waits.recv_gpu_ns)),
        ],
    )
}

fn messages(report: &Report, wanted: &[u32]) -> NumberTable {
    let mut messages: Vec<_> = report.messages.iter().collect();
    messages.retain(|pair| is_wanted(report, pair.from, wanted) || is_wanted(report, pair.to, wanted));
    sort_by_key(&mut messages, |pair| Reverse(pair.late_sender_ns + pair.late_receiver_ns));
    NumberTable::from_rows(
        "messages between ranks: how long one end waited for the other",
        messages.into_iter().map(|pair| (report, pair)),
        &[
            ("from", |(report, row)| optional(row.from, |number| text(rank(report, number)))),
            ("to", |(report, row)| optional(row.to, |number| text(rank(report, number)))),
            ("count", |(_, row)| Cell::Count(row.count)),
            ("bytes", |(_, row)| Cell::Bytes(row.bytes)),
            ("late_sender", |(_, row)| time(row.late_sender_ns)),
            ("late_receiver", |(_, row)| time(row.late_receiver_ns)),
            ("communicator", |(report, row)| text(communicator(report, row.communicator))),
        ],
    )
}

fn overlap(report: &Report, wanted: &[u32]) -> NumberTable {
    let ranks = report.overlap.iter().flatten().filter(|overlap| is_wanted(report, Some(overlap.rank), wanted));
    NumberTable::from_rows(
        "kernels: overlap of communication and computation",
        ranks.map(|overlap| (report, overlap)),
        &[
            ("rank", |(report, row)| text(rank(report, row.rank))),
            ("communication", |(_, row)| time(row.communication_ns)),
            ("computation", |(_, row)| time(row.computation_ns)),
            ("overlap", |(_, row)| time(row.overlap_ns)),
            ("exposed", |(_, row)| time(row.exposed_ns)),
            ("exposed_share", |(_, row)| share(row.exposed_ns, row.communication_ns)),
        ],
    )
}

fn anomalies(report: &Report) -> NumberTable {
    NumberTable::from_rows(
        "collectives that took far longer than others of their kind",
        report.anomalies.iter().map(|anomaly| (report, anomaly)),
        &[
            ("lost", |(_, row)| time(row.lost_ns)),
            ("+start", |(_, row)| time(row.start_ns)),
            ("+end", |(_, row)| time(row.end_ns)),
            ("+median", |(_, row)| Cell::Time(row.median_ns)),
            ("+skew", |(_, row)| time(row.skew_ns)),
            ("+sequence", |(_, row)| optional(row.sequence, Cell::Count)),
            ("+cause", |(_, row)| text(word(row.kind))),
            ("+event", |(_, row)| optional(row.event, |event| text(event.to_string()))),
            ("+event_on", |(report, row)| optional(rank_at(report, row.location), text)),
            ("what", |(_, row)| text(&row.sentence)),
        ],
    )
}

/// The rank whose operations are on a location.
fn rank_at(report: &Report, location: u64) -> Option<String> {
    let has_it = |rank: &&Rank| rank.members.iter().any(|member| member.location == location);
    report.ranks.iter().find(has_it).map(|rank| rank.name.clone())
}

pub(super) const NO_PHASES: &str = "no ranges of the program were recorded: that needs a program with NVTX ranges, \
    and NVTX_INJECTION64_PATH, which nccl-otf2 run sets unless another tool has set it";
pub(super) const NO_STEPS: &str = "no range around operations repeats at least three times on all processes and lasts \
    as long as its operations: put a range around each step, or choose one with --step";
pub(super) const NO_COMMUNICATORS: &str =
    "no NCCL calls were recorded through NVTX: that needs NVTX_INJECTION64_PATH, which nccl-otf2 run sets";
/// The path of operations that were called outside of ranges.
const OUTSIDE: &str = "(outside of ranges)";

/// Cuts paths after `levels` ranges, and sums the phases that then have the same path.
pub(super) fn up_to(phases: Vec<Phase>, levels: u32) -> Vec<Phase> {
    let levels = usize::try_from(levels).unwrap_or(usize::MAX);
    let mut sums: BTreeMap<Vec<String>, Phase> = BTreeMap::new();
    for phase in phases {
        let is_inside = phase.path.len() > levels;
        let path: Vec<String> = phase.path.iter().take(levels).cloned().collect();
        let sum = sums.entry(path.clone()).or_insert_with(|| Phase { path, ..Phase::default() });
        // The time of a range contains that of ranges inside it.
        if !is_inside {
            sum.ranges += phase.ranges;
            sum.ranges_ns += phase.ranges_ns;
        }
        sum.operations += phase.operations;
        sum.bytes = sum.bytes.saturating_add(phase.bytes);
        sum.budget += phase.budget;
    }
    let mut phases: Vec<Phase> = sums.into_values().collect();
    sort_by_key(&mut phases, |phase| Reverse((phase.budget.operations_ns, phase.ranges_ns)));
    phases
}

pub(super) fn phases(report: &Report) -> NumberTable {
    let mut sheet = NumberTable::from_rows(
        "phases: ranges of the program, and the operations that were called in them",
        report.phases.iter().map(|row| (report, row)),
        &[
            ("phase", |(_, row)| {
                text(if row.path.is_empty() { OUTSIDE.to_owned() } else { path_of_ranges(&row.path) })
            }),
            ("ranges", |(_, row)| unless(row.path.is_empty(), Cell::Count(row.ranges))),
            ("longest_on", |(report, row)| optional(row.longest, |longest| text(rank(report, longest.rank)))),
            ("longest", |(_, row)| optional(row.longest, |longest| time(longest.ns))),
            ("others", |(_, row)| optional(row.longest, |longest| time(longest.others_ns))),
            ("operations", |(_, row)| Cell::Count(row.operations)),
            ("in_operations", |(_, row)| unless(row.budget.operations_ns == 0, time(row.budget.operations_ns))),
            ("waiting", |(_, row)| compared(&row.budget, row.budget.waiting_ns)),
            ("transfer", |(_, row)| compared(&row.budget, row.budget.transfer_ns)),
            ("+unclear", |(_, row)| compared(&row.budget, row.budget.unclear_ns)),
            ("bytes", |(_, row)| unless(row.operations == 0, Cell::Bytes(row.bytes))),
            ("+rate", |(_, row)| rate(row.bytes, row.budget.operations_ns)),
            ("+time", |(_, row)| unless(row.path.is_empty(), time(row.ranges_ns))),
        ],
    );
    let remark = "longest: the time of the rank that spent most in the range; others: the median of the other ranks";
    sheet.remarks.extend(report.phases.iter().any(|phase| phase.longest.is_some()).then(|| remark.to_owned()));
    sheet
}

fn rate(bytes: u64, ns: u64) -> Cell {
    if ns == 0 { Cell::None } else { Cell::Rate(real(bytes) * 1e9 / real(ns)) }
}

pub(super) fn steps(report: &Report) -> NumberTable {
    // A step without operations may not have been recorded where recording was off for a part of the run.
    fn part(report: &Report, step: &Step, part_ns: u64) -> Cell {
        let may_lack = report.completeness.switches > 0 && step.budget.operations_ns == 0;
        if may_lack { Cell::None } else { share(part_ns, step.ranks_ns) }
    }
    let steps = report.steps.iter().flat_map(|steps| &steps.steps);
    let mut sheet = NumberTable::from_rows(
        "steps of the program: time on the slowest rank, and the cost of operations called in the step",
        steps.map(|step| (report, step)),
        &[
            ("step", |(_, row)| Cell::Count(row.number)),
            ("time", |(_, row)| time(row.duration_ns)),
            ("fastest", |(_, row)| time(row.shortest_ns)),
            ("communication", |(report, row)| part(report, row, row.budget.operations_ns)),
            ("waiting", |(report, row)| part(report, row, row.budget.waiting_ns)),
            ("transfer", |(report, row)| part(report, row, row.budget.transfer_ns)),
            ("+unclear", |(report, row)| part(report, row, row.budget.unclear_ns)),
            ("begin", |(_, row)| time(row.start_ns)),
            ("slowest_rank", |(report, row)| optional(row.slowest, |number| text(rank(report, number)))),
        ],
    );
    sheet.remarks.extend(report.steps.as_ref().map(|steps| {
        let median = output::cell_text(&optional(steps.duration_ns, |quantiles| Cell::Time(quantiles.median)));
        let trend = steps.trend_ns_per_step.map_or_else(String::new, |trend| {
            let what = if trend < 0.0 { "shorter" } else { "longer" };
            format!("; each {} {what} than the one before", output::cell_text(&Cell::Time(trend.abs())))
        });
        format!("a step is {:?}: median {median}{trend}", output::shortened(&steps.name, 60))
    }));
    sheet
}

pub(super) fn communicators(report: &Report) -> NumberTable {
    NumberTable::from_rows(
        "calls that create or destroy communicators",
        &report.communicator_calls,
        &[
            ("call", |row| text(&row.function)),
            ("communicator", |row| text(&row.communicator)),
            ("ranks", |row| Cell::Count(row.ranks)),
            ("unfinished", |row| Cell::Count(row.unfinished)),
            ("begin", |row| time(row.start_ns)),
            ("time", |row| time(row.duration_ns)),
            ("first_to_last", |row| time(row.skew_ns)),
            ("last_rank", |row| optional(row.last_rank.map(u64::from), Cell::Count)),
            ("last_process", |row| text(&row.last_process)),
        ],
    )
}

/// Why there are no interfaces.
pub(super) fn no_nics(report: &Report) -> &'static str {
    match &report.topology {
        Some(topology) if !topology.unused.is_empty() => {
            "NCCL's dumps of its topology could not be used: `stats --json` has the reasons, in topology.unused"
        }
        _ => "NCCL's topology was not recorded: that needs nccl-otf2 run without --topology off",
    }
}

/// Limit on names of interfaces in a cell.
const MOST_NAMES: usize = 4;

/// The sheet of network interfaces.
pub(super) fn nics(report: &Report) -> NumberTable {
    let mut sheet = NumberTable::from_rows(
        "network interfaces: what they sent and received",
        report.nics.iter().map(|nic| (report, nic)),
        &[
            ("host", |(report, row)| text(host(report, row))),
            ("nic", |(_, row)| text(&row.name)),
            ("sent", |(_, row)| optional(row.sent_bytes, Cell::Bytes)),
            ("received", |(_, row)| optional(row.received_bytes, Cell::Bytes)),
            ("busy", |(_, row)| optional(row.busy_ns, time)),
            ("rate", |(_, row)| optional(row.rate, Cell::Rate)),
            ("speed", |(_, row)| optional(row.speed, Cell::Rate)),
            ("share", |(_, row)| optional(row.share, Cell::Share)),
            ("slowdown", |(_, row)| optional(row.slowdown, Cell::Number)),
            ("+steps", |(_, row)| Cell::Count(row.steps)),
            ("+pci", |(_, row)| text(&row.pci)),
            ("+gdr", |(_, row)| text(if row.gdr { "yes" } else { "no" })),
        ],
    );
    let sizes = "NCCL reported no sizes of network steps: it does so from 2.27 on";
    let sizes = if report.run.has_steps { sizes } else { Run::LINKS_NOT_MEASURED };
    let is_unknown = report.nics.iter().all(|nic| nic.sent_bytes.is_none());
    let (elsewhere, unused) =
        report.topology.as_ref().map_or((0, &[][..]), |topology| (topology.bytes_elsewhere, &topology.unused));
    let bytes = units::bytes(elsewhere);
    let details = [
        is_unknown.then(|| sizes.to_owned()),
        report.nics.iter().any(|nic| nic.rate.is_some() && nic.speed.is_some() && nic.share.is_none()).then(|| {
            "no share is shown if the speed is below the rate: NCCL assumes a speed if the system states \
            none"
                .to_owned()
        }),
        (elsewhere > 0).then(|| format!("another {bytes} were sent over interfaces that NCCL's graphs do not name")),
        unused.first().map(|first| {
            let dumps = plural(unused.len() as u64, "dump", "dumps");
            format!(
                "{dumps} of NCCL's topology could not be used: {first}{}",
                if unused.len() > 1 { "; …" } else { "" }
            )
        }),
    ];
    sheet.details.extend(details.into_iter().flatten());
    sheet
}

fn host(report: &Report, nic: &Nic) -> String {
    let hosts = report.topology.as_ref().map(|topology| &topology.hosts);
    hosts.and_then(|hosts| hosts.get(index(nic.host))).map(|host| host.name.clone()).unwrap_or_default()
}

/// As in `mlx5_0, mlx5_1`; empty if none is known.
pub(super) fn names(report: &Report, nics: &[u32]) -> Cell {
    let names: BTreeSet<&str> =
        nics.iter().filter_map(|number| report.nics.get(index(*number))).map(|nic| nic.name.as_str()).gather();
    let shown: Vec<&str> = names.iter().copied().take(MOST_NAMES).collect();
    match (names.len(), shown.join(", ")) {
        (0, _) => Cell::None,
        (number, shown) if number > MOST_NAMES => text(format!("{shown} …")),
        (_, shown) => text(shown),
    }
}

/// Words separated by commas; empty if there is none.
pub(super) fn words(words: &[String]) -> Cell {
    if words.is_empty() { Cell::None } else { text(words.join(", ")) }
}

pub(super) fn text(text: impl Into<String>) -> Cell {
    Cell::Text(text.into())
}

pub(super) fn time(ns: u64) -> Cell {
    Cell::Time(real(ns))
}

/// Nothing where there can be no value.
fn unless(is_none: bool, cell: Cell) -> Cell {
    if is_none { Cell::None } else { cell }
}

pub(super) fn optional<T>(value: Option<T>, cell: impl Fn(T) -> Cell) -> Cell {
    value.map_or(Cell::None, cell)
}

pub(super) fn share(part: u64, whole: u64) -> Cell {
    if whole == 0 { Cell::None } else { Cell::Share(real(part) / real(whole)) }
}

pub(super) fn rank(report: &Report, number: u32) -> String {
    report.ranks.get(index(number)).map(|rank| rank.name.clone()).unwrap_or_default()
}

/// The share of a part; empty if nothing is known of how the time divides.
pub(super) fn compared(budget: &Budget, part_ns: u64) -> Cell {
    let is_known = part_ns > 0 || budget.unclear_ns + budget.not_compared_ns < budget.operations_ns;
    if is_known { share(part_ns, budget.operations_ns) } else { Cell::None }
}

pub(super) fn communicator(report: &Report, number: u32) -> String {
    report.communicators.get(index(number)).map(|communicator| communicator.name.clone()).unwrap_or_default()
}

/// Whether a rank of the job has one of these numbers in any of its communicators.
pub(super) fn is_wanted(report: &Report, number: Option<u32>, wanted: &[u32]) -> bool {
    let rank = number.and_then(|number| report.ranks.get(usize::try_from(number).ok()?));
    wanted.is_empty() || rank.is_some_and(|rank| rank.members.iter().any(|member| wanted.contains(&member.rank)))
}

pub(super) fn word(kind: impl Serialize) -> String {
    serde_json::to_value(kind).unwrap_or_default().as_str().unwrap_or_default().to_owned()
}

pub(super) fn receiver(report: &Report, key: &LinkKey) -> Option<String> {
    // A rank that was not recorded has no number in the job.
    let in_communicator = |peer| {
        let comm = report.communicators.get(usize::try_from(key.communicator).ok()?)?;
        Some(format!("rank {peer} of {}", comm.name))
    };
    key.to.map(|number| rank(report, number)).or_else(|| key.peer.and_then(in_communicator))
}

/// For example "rank 3 → rank 11" or "channel 5".
pub(super) fn link(report: &Report, key: &LinkKey) -> String {
    let channel = key.channel.map(|channel| format!("channel {channel}"));
    let pair = key.from.zip(receiver(report, key)).map(|(from, to)| format!("{} → {to}", rank(report, from)));
    [pair, channel].into_iter().flatten().collect::<Vec<_>>().join(", ")
}

pub(super) const NO_PATH: &str =
    "no critical path: no operation has ended, or --comm or --function leaves out operations on it";

/// For example "call 9.84 ms late, in step # > load".
pub(super) fn reason_text(why: &Why) -> String {
    let Some((reason, later_ns)) = why.reason.zip(why.later_ns) else {
        return why.missing.as_ref().map_or_else(String::new, |missing| format!("unknown: {missing}"));
    };
    let phase = why.phase.as_ref().map(|phase| format!(", in {}", path_of_ranges(&phase.path)));
    format!("{} {} late{}", word(reason), units::time(later_ns), phase.unwrap_or_default())
}

pub(super) fn path(report: &Report, wanted: &[u32]) -> NumberTable {
    let parts = report.critical_path.iter().flat_map(|path| &path.parts);
    let parts = parts.filter(|part| part.rank.is_none() || is_wanted(report, part.rank, wanted));
    let mut sheet = NumberTable::from_rows(
        "critical path: what determines the time from the first operation to the last",
        parts.map(|part| (report, part)),
        &[
            ("part", |(_, row)| text(word(row.kind))),
            ("rank", |(report, row)| optional(row.rank, |number| text(rank(report, number)))),
            ("in", |(report, row)| text(place(report, row))),
            ("at_most", |(_, row)| time(row.ns)),
            ("share", |(_, row)| Cell::Share(row.share)),
            ("lost", |(_, row)| optional(row.lost_ns, time)),
            ("times", |(_, row)| Cell::Count(row.times)),
            ("communicator", |(report, row)| optional(row.communicator, |number| text(communicator(report, number)))),
        ],
    );
    sheet.remarks.extend(report.critical_path.as_ref().map(|path| path.sentence.clone()));
    sheet.remarks.push("at_most: the run would be shorter by at most this if the part took no time".to_owned());
    sheet.remarks.push("lost: time that other ranks lose because this one is late".to_owned());
    sheet
}

/// The function and the link, or the ranges of the program.
fn place(report: &Report, part: &PathPart) -> String {
    let link = part.link.map(|key| link(report, &key));
    let phase =
        part.phase.as_ref().map(|phase| format!("{:.0} % in {}", phase.share * 100.0, path_of_ranges(&phase.path)));
    part.function.clone().into_iter().chain(link).chain(phase).collect::<Vec<_>>().join(", ")
}
