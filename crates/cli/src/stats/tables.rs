//! A sheet for each question, and the cells of all sheets.

use std::collections::{BTreeMap, BTreeSet};

use crate::output;
use crate::output::{Cell, Sheet};
use analysis::results::{
    Budget, Cause, Fit, Link, LinkKey, Nic, OperationClass, PathPart, Phase, Quantiles, Rank, Report, Run, Why,
};
use analysis::units;
use analysis::units::{count, plural, real};
use clap::ValueEnum;
use nccl_events::archive::path_of_ranges;
use nccl_events::ids::index;
use nccl_events::sort::Gather;
use serde::Serialize;

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum By {
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
    /// What ranks sent to each other, and how long they waited for each other
    Messages,
    /// Communication beside computation
    Overlap,
    /// The critical path: by rank and by what it consists of (only with --by)
    Path,
    /// Single collectives that took far longer than others
    Anomalies,
    /// Ranges of the program (NVTX): operations called in them
    #[value(alias = "phases")]
    Phase,
    /// Steps of the program: how long, and how much of it was communication
    #[value(alias = "steps")]
    Step,
    /// Calls that make and end communicators: how long, and who called last
    Init,
}

pub(super) fn sheet(report: &Report, by: By, wanted: &[u32]) -> Sheet {
    let mut sheet = match by {
        By::Causes => causes(report),
        By::Operations => operations(report),
        By::Ranks => ranks(report, wanted),
        By::Pairs => links("network, by sender and receiver", report, &report.pairs, wanted),
        By::Channels => links("network, by channel", report, &report.channels, &[]),
        By::Nic => nics(report),
        By::Messages => messages(report, wanted),
        By::Overlap => overlap(report, wanted),
        By::Path => path(report, wanted),
        By::Anomalies => anomalies(report),
        By::Phase => phases(report),
        By::Step => steps(report),
        By::Init => communicators(report),
    };
    sheet.empty = match by {
        By::Phase => NO_PHASES,
        By::Step => NO_STEPS,
        By::Init => NO_COMMUNICATORS,
        By::Nic => no_nics(report),
        By::Path => NO_PATH,
        By::Causes | By::Anomalies => "none was found",
        By::Pairs | By::Channels if !report.run.has_steps => Run::CONNECTIONS_NOT_MEASURED,
        By::Pairs | By::Channels => "no transfer has a size: NCCL before 2.27 reports none, or nothing was transferred",
        By::Overlap if !report.run.has_other_kernels => {
            "kernels of the program were not recorded, which takes CUPTI and NCCL_OTF2_CUPTI_KERNELS=all"
        }
        _ => sheet.empty,
    };
    sheet
}

pub(super) fn is_column(report: &Report, name: &str) -> bool {
    By::value_variants().iter().any(|by| sheet(report, *by, &[]).has(name))
}

fn causes(report: &Report) -> Sheet {
    Sheet::of(
        "causes of lost time: times overlap and do not add up",
        report.causes.iter().map(|cause| (report, cause)),
        &[
            ("lost", |(_, it)| time(it.lost_ns)),
            ("share", |(_, it)| of(it.share, Cell::Share)),
            ("cause", |(report, it)| text(cause(report, it))),
            ("since", |(_, it)| of(it.since_ns, time)),
            ("+sentence", |(_, it)| text(&it.sentence)),
        ],
    )
}

fn cause(report: &Report, cause: &Cause) -> String {
    let who = cause.rank.map(|number| rank(report, number));
    let who = who.or(cause.link.map(|key| link(report, &key))).or(cause.host.clone());
    let what = format!("{}: {}", word(cause.kind), who.unwrap_or_default());
    what.trim_end_matches(": ").to_owned()
}

fn operations(report: &Report) -> Sheet {
    fn duration(class: &OperationClass, get: fn(&Quantiles) -> f64) -> Cell {
        of(class.duration_ns.as_ref(), |it| Cell::Time(get(it)))
    }
    fn skew(class: &OperationClass, get: fn(&Quantiles) -> f64) -> Cell {
        of(class.skew_ns.as_ref(), |it| Cell::Time(get(it)))
    }
    fn median(rates: Option<&Quantiles>) -> Cell {
        of(rates, |it| Cell::Rate(it.median))
    }
    let has_bound = |class: &OperationClass| class.expected_busbw.is_some();
    let lacks_bound = report.topology.is_some() && !report.operations.iter().any(has_bound);
    let is_any_unfinished = report.operations.iter().any(|class| class.unfinished > 0);
    let unfinished = if is_any_unfinished { "unfinished" } else { "+unfinished" };
    let mut sheet = Sheet::of(
        "operations, counted on every rank",
        report.operations.iter().map(|class| (report, class)),
        &[
            ("function", |(_, it)| text(&it.function)),
            ("bytes", |(_, it)| Cell::Bytes(it.bytes_max)),
            ("count", |(_, it)| Cell::Count(it.count)),
            ("median", |(_, it)| duration(it, |it| it.median)),
            ("p99", |(_, it)| duration(it, |it| it.p99)),
            ("busbw", |(_, it)| median(it.busbw.as_ref())),
            ("transfer_busbw", |(_, it)| median(it.transfer_busbw.as_ref())),
            ("expected_busbw", |(_, it)| of(it.expected_busbw, Cell::Rate)),
            ("of_expected", |(_, it)| of(it.expected_share, Cell::Share)),
            ("of_baseline", |(_, it)| of(it.baseline, |it| Cell::Share(it.share))),
            ("waiting", |(_, it)| compared(&it.budget, it.budget.waiting_ns)),
            ("communicator", |(report, it)| text(communicator(report, it.communicator))),
            ("+reduced_by", |(_, it)| words(&it.reduced_by)),
            ("timing", |(_, it)| of(timing(&it.timing), text)),
            ("+bytes_min", |(_, it)| Cell::Bytes(it.bytes_min)),
            (unfinished, |(_, it)| Cell::Count(it.unfinished)),
            ("+min", |(_, it)| duration(it, |it| it.min)),
            ("+p95", |(_, it)| duration(it, |it| it.p95)),
            ("+max", |(_, it)| duration(it, |it| it.max)),
            ("+total", |(_, it)| duration(it, |it| it.total)),
            ("+algbw", |(_, it)| median(it.algbw.as_ref())),
            ("+baseline", |(_, it)| of(it.baseline, |it| Cell::Rate(it.busbw))),
            ("+comparable", |(_, it)| Cell::Count(it.comparable)),
            ("+skew_median", |(_, it)| skew(it, |it| it.median)),
            ("+skew_p99", |(_, it)| skew(it, |it| it.p99)),
            ("+transfer", |(_, it)| compared(&it.budget, it.budget.transfer_ns)),
            ("+unclear", |(_, it)| compared(&it.budget, it.budget.unclear_ns)),
        ],
    );
    let why = "no expected_busbw: the algorithm, the graph or a rank of the communicator is unknown";
    let remarks = [lacks_bound.then(|| why.to_owned()), few_have_bandwidth(report)].into_iter().flatten();
    sheet.remark = Some(remarks.collect::<Vec<_>>().join(". ")).filter(|all| !all.is_empty());
    sheet
}

/// How many collectives have a bandwidth, if in a class they are fewer than half.
fn few_have_bandwidth(report: &Report) -> Option<String> {
    // Sends and receives have no arrivals to compare, and no bus bandwidth.
    let classes = report.operations.iter().filter(|class| class.comparable > 0);
    let numbers = classes.map(|class| {
        let with = class.busbw.as_ref().map_or(0, |busbw| busbw.count);
        (with, class.count.saturating_sub(class.unfinished))
    });
    let numbers: Vec<(u64, u64)> = numbers.collect();
    numbers.iter().any(|(with, ended)| 2 * with < *ended).then(|| {
        let (with, ended) = numbers.iter().fold((0, 0), |sum, it| (sum.0 + it.0, sum.1 + it.1));
        format!(
            "busbw and transfer_busbw are those of {} of {} collectives: the others share a kernel, were not measured, lack \
             ranks, or are in a communicator of unknown size (NCCL before 2.27)",
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

fn ranks(report: &Report, wanted: &[u32]) -> Sheet {
    fn part(rank: &Rank, get: fn(&Budget) -> u64) -> Cell {
        share(get(&rank.budget), rank.budget.operations_ns)
    }
    let ranks = (0..).zip(&report.ranks).filter(|(number, _)| is_wanted(report, Some(*number), wanted));
    Sheet::of(
        "ranks: their time in operations, and how late they come",
        ranks.map(|(_, rank)| rank),
        &[
            ("rank", |it| text(&it.name)),
            ("operations", |it| time(it.budget.operations_ns)),
            ("waiting", |it| part(it, |budget| budget.waiting_ns)),
            ("transfer", |it| part(it, |budget| budget.transfer_ns)),
            ("unclear", |it| part(it, |budget| budget.unclear_ns)),
            ("last", |it| Cell::Count(it.last)),
            ("expected", |it| Cell::Number(it.last_expected)),
            ("caused", |it| time(it.caused_ns)),
            ("inherited", |it| time(it.inherited_ns)),
            ("awaited", |it| time(it.awaited_ns)),
            ("lateness", |it| Cell::Time(it.lateness_ns)),
            ("host", |it| text(&it.host)),
            ("+why", |it| of(it.why.as_ref().map(why), text)),
            ("+not_compared", |it| part(it, |budget| budget.not_compared_ns)),
            ("+late_sender", |it| time(it.late_sender_ns)),
            ("+late_receiver", |it| time(it.late_receiver_ns)),
            ("+caused_alone", |it| time(it.caused_alone_ns)),
            ("+lost", |it| time(it.lost_ns)),
            ("+collectives", |it| Cell::Count(it.instances)),
            ("+p_value", |it| Cell::Number(it.p_value)),
            ("+trend_per_s", |it| of(it.trend_ns_per_s, Cell::Time)),
            ("+changed_at", |it| of(it.change.map(|change| change.at_ns), time)),
            ("+before", |it| of(it.change.map(|change| change.before), Cell::Time)),
            ("+after", |it| of(it.change.map(|change| change.after), Cell::Time)),
            ("+process", |it| text(&it.process)),
        ],
    )
}

fn links(title: &'static str, report: &Report, links: &[Link], wanted: &[u32]) -> Sheet {
    fn latency(fit: Option<Fit>) -> Cell {
        of(fit.and_then(|it| it.latency_ns), Cell::Time)
    }
    fn rate(fit: Option<Fit>) -> Cell {
        of(fit.and_then(|it| it.rate), Cell::Rate)
    }
    fn r_squared(fit: Option<Fit>) -> Cell {
        of(fit.and_then(|it| it.r_squared), Cell::Number)
    }
    let is_wanted = |key: &LinkKey| [key.from, key.to].into_iter().any(|end| is_wanted(report, end, wanted));
    Sheet::of(
        title,
        links.iter().filter(|link| is_wanted(&link.key)).map(|link| (report, link)),
        &[
            ("from", |(report, it)| of(it.key.from, |number| text(rank(report, number)))),
            ("to", |(report, it)| of(receiver(report, &it.key), text)),
            ("channel", |(_, it)| of(it.key.channel.map(u64::from), Cell::Count)),
            ("steps", |(_, it)| Cell::Count(it.steps)),
            ("bytes", |(_, it)| Cell::Bytes(it.bytes)),
            ("latency", |(_, it)| latency(it.all)),
            ("latency_least", |(_, it)| latency(it.least)),
            ("rate_fit", |(_, it)| rate(it.all)),
            ("rate_least", |(_, it)| rate(it.least)),
            ("rate", |(_, it)| of(it.rate, Cell::Rate)),
            ("slowdown", |(_, it)| of(it.slowdown, Cell::Number)),
            ("nic", |(report, it)| names(report, &it.from_nics)),
            ("path", |(_, it)| words(&it.nic_paths)),
            ("communicator", |(report, it)| text(communicator(report, it.key.communicator))),
            ("+to_nic", |(report, it)| names(report, &it.to_nics)),
            ("+excess", |(_, it)| time(it.excess_ns)),
            ("+busy", |(_, it)| time(it.busy_ns)),
            ("+r_squared", |(_, it)| r_squared(it.all)),
            ("+r_squared_least", |(_, it)| r_squared(it.least)),
            ("+changed_at", |(_, it)| of(it.change.map(|change| change.at_ns), time)),
            ("+before", |(_, it)| of(it.change.map(|change| change.before), Cell::Number)),
            ("+after", |(_, it)| of(it.change.map(|change| change.after), Cell::Number)),
            ("+send_gpu_wait", |(_, it)| time(it.waits.send_gpu_ns)),
            ("+send_peer_wait", |(_, it)| time(it.waits.send_peer_ns)),
            ("+send_wait", |(_, it)| time(it.waits.send_ns)),
            ("+recv_wait", |(_, it)| time(it.waits.recv_ns)),
            ("+recv_flush_wait", |(_, it)| time(it.waits.recv_flush_ns)),
            ("+recv_gpu_wait", |(_, it)| time(it.waits.recv_gpu_ns)),
        ],
    )
}

fn messages(report: &Report, wanted: &[u32]) -> Sheet {
    let mut messages: Vec<_> = report.messages.iter().collect();
    messages.retain(|it| is_wanted(report, it.from, wanted) || is_wanted(report, it.to, wanted));
    nccl_events::sort::sort_by_key(&mut messages, |it| std::cmp::Reverse(it.late_sender_ns + it.late_receiver_ns));
    Sheet::of(
        "messages between ranks: how long one end waited because the other came late",
        messages.into_iter().map(|it| (report, it)),
        &[
            ("from", |(report, it)| of(it.from, |number| text(rank(report, number)))),
            ("to", |(report, it)| of(it.to, |number| text(rank(report, number)))),
            ("count", |(_, it)| Cell::Count(it.count)),
            ("bytes", |(_, it)| Cell::Bytes(it.bytes)),
            ("late_sender", |(_, it)| time(it.late_sender_ns)),
            ("late_receiver", |(_, it)| time(it.late_receiver_ns)),
            ("communicator", |(report, it)| text(communicator(report, it.communicator))),
        ],
    )
}

fn overlap(report: &Report, wanted: &[u32]) -> Sheet {
    let ranks = report.overlap.iter().flatten().filter(|it| is_wanted(report, Some(it.rank), wanted));
    Sheet::of(
        "kernels: communication beside computation",
        ranks.map(|it| (report, it)),
        &[
            ("rank", |(report, it)| text(rank(report, it.rank))),
            ("communication", |(_, it)| time(it.communication_ns)),
            ("computation", |(_, it)| time(it.computation_ns)),
            ("overlap", |(_, it)| time(it.overlap_ns)),
            ("exposed", |(_, it)| time(it.exposed_ns)),
            ("exposed_share", |(_, it)| share(it.exposed_ns, it.communication_ns)),
        ],
    )
}

fn anomalies(report: &Report) -> Sheet {
    Sheet::of(
        "collectives that took far longer than others of their kind",
        &report.anomalies,
        &[
            ("lost", |it| time(it.lost_ns)),
            ("what", |it| text(&it.sentence)),
            ("+start", |it| time(it.start_ns)),
            ("+end", |it| time(it.end_ns)),
            ("+median", |it| Cell::Time(it.median_ns)),
            ("+skew", |it| time(it.skew_ns)),
            ("+sequence", |it| of(it.sequence, Cell::Count)),
            ("+cause", |it| text(word(it.kind))),
            ("+location", |it| Cell::Count(it.location)),
            ("+event", |it| of(it.event, Cell::Count)),
        ],
    )
}

pub(super) const NO_PHASES: &str = "no ranges of the program were recorded: that takes a program that names ranges through \
    NVTX, and NVTX_INJECTION64_PATH, which nccl-otf2 run sets unless another tool has it";
pub(super) const NO_STEPS: &str = "no range around operations repeats three times or more on all processes and lasts \
    as long as its operations: name one around a whole step, or choose one with --step";
pub(super) const NO_COMMUNICATORS: &str =
    "no calls of NCCL were recorded through NVTX: that takes NVTX_INJECTION64_PATH, which nccl-otf2 run sets";
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
    nccl_events::sort::sort_by_key(&mut phases, |phase| {
        std::cmp::Reverse((phase.budget.operations_ns, phase.ranges_ns))
    });
    phases
}

pub(super) fn phases(report: &Report) -> Sheet {
    Sheet::of(
        "phases: operations by the ranges of the program that they were called in",
        &report.phases,
        &[
            ("phase", |it| text(if it.path.is_empty() { OUTSIDE.to_owned() } else { path_of_ranges(&it.path) })),
            ("ranges", |it| Cell::Count(it.ranges)),
            ("time", |it| time(it.ranges_ns)),
            ("operations", |it| Cell::Count(it.operations)),
            ("in_operations", |it| time(it.budget.operations_ns)),
            ("waiting", |it| compared(&it.budget, it.budget.waiting_ns)),
            ("transfer", |it| compared(&it.budget, it.budget.transfer_ns)),
            ("unclear", |it| compared(&it.budget, it.budget.unclear_ns)),
            ("bytes", |it| Cell::Bytes(it.bytes)),
            ("rate", |it| rate(it.bytes, it.budget.operations_ns)),
        ],
    )
}

fn rate(bytes: u64, ns: u64) -> Cell {
    if ns == 0 { Cell::None } else { Cell::Rate(real(bytes) * 1e9 / real(ns)) }
}

pub(super) fn steps(report: &Report) -> Sheet {
    let steps = report.steps.iter().flat_map(|steps| &steps.steps);
    let mut sheet = Sheet::of(
        "steps of the program: time on the slowest rank, and what operations called in the step cost",
        steps.map(|step| (report, step)),
        &[
            ("step", |(_, it)| Cell::Count(it.number)),
            ("time", |(_, it)| time(it.duration_ns)),
            ("fastest", |(_, it)| time(it.shortest_ns)),
            ("communication", |(_, it)| share(it.budget.operations_ns, it.ranks_ns)),
            ("waiting", |(_, it)| share(it.budget.waiting_ns, it.ranks_ns)),
            ("transfer", |(_, it)| share(it.budget.transfer_ns, it.ranks_ns)),
            ("begin", |(_, it)| time(it.start_ns)),
            ("+slowest_rank", |(report, it)| of(it.slowest, |number| text(rank(report, number)))),
        ],
    );
    sheet.remark = report.steps.as_ref().map(|steps| {
        let median = output::cell_text(&of(steps.duration_ns, |it| Cell::Time(it.median)));
        let trend = steps.trend_ns_per_step.map_or_else(String::new, |trend| {
            let what = if trend < 0.0 { "shorter" } else { "longer" };
            format!("; each {} {what} than the one before", output::cell_text(&Cell::Time(trend.abs())))
        });
        format!("a step is {:?}: median {median}{trend}", output::shortened(&steps.name, 60))
    });
    sheet
}

pub(super) fn communicators(report: &Report) -> Sheet {
    Sheet::of(
        "calls that make and end communicators",
        &report.communicator_calls,
        &[
            ("call", |it| text(&it.function)),
            ("communicator", |it| text(&it.communicator)),
            ("ranks", |it| Cell::Count(it.ranks)),
            ("unfinished", |it| Cell::Count(it.unfinished)),
            ("begin", |it| time(it.start_ns)),
            ("time", |it| time(it.duration_ns)),
            ("first_to_last", |it| time(it.skew_ns)),
            ("last_rank", |it| of(it.last_rank.map(u64::from), Cell::Count)),
            ("last_process", |it| text(&it.last_process)),
        ],
    )
}

/// Why there are no interfaces.
pub(super) fn no_nics(report: &Report) -> &'static str {
    match &report.topology {
        Some(topology) if !topology.unused.is_empty() => {
            "NCCL's dumps of its topology could not be used: `stats --json` has the reasons, in topology.unused"
        }
        _ => "NCCL's topology was not recorded: that takes nccl-otf2 run, without --topology off",
    }
}

/// More names of interfaces in a cell are left out.
const MOST_NAMES: usize = 4;

/// The sheet of network interfaces.
pub(super) fn nics(report: &Report) -> Sheet {
    let mut sheet = Sheet::of(
        "network interfaces: what they sent and received",
        report.nics.iter().map(|nic| (report, nic)),
        &[
            ("host", |(report, it)| text(host(report, it))),
            ("nic", |(_, it)| text(&it.name)),
            ("sent", |(_, it)| of(it.sent_bytes, Cell::Bytes)),
            ("received", |(_, it)| of(it.received_bytes, Cell::Bytes)),
            ("busy", |(_, it)| of(it.busy_ns, time)),
            ("rate", |(_, it)| of(it.rate, Cell::Rate)),
            ("speed", |(_, it)| of(it.speed, Cell::Rate)),
            ("share", |(_, it)| of(it.share, Cell::Share)),
            ("slowdown", |(_, it)| of(it.slowdown, Cell::Number)),
            ("+steps", |(_, it)| Cell::Count(it.steps)),
            ("+pci", |(_, it)| text(&it.pci)),
            ("+gdr", |(_, it)| text(if it.gdr { "yes" } else { "no" })),
        ],
    );
    let sizes = "NCCL reported no sizes of network steps, which it does from 2.27 on";
    let sizes = if report.run.has_steps { sizes } else { Run::CONNECTIONS_NOT_MEASURED };
    let is_unknown = report.nics.iter().all(|nic| nic.sent_bytes.is_none());
    let (elsewhere, unused) = report.topology.as_ref().map_or((0, &[][..]), |it| (it.bytes_elsewhere, &it.unused));
    let bytes = units::bytes(elsewhere);
    let remarks = [
        is_unknown.then(|| sizes.to_owned()),
        report.nics.iter().any(|nic| nic.rate.is_some() && nic.speed.is_some() && nic.share.is_none()).then(|| {
            "no share is shown of a speed below the rate: NCCL assumes a speed where the system states none".to_owned()
        }),
        (elsewhere > 0).then(|| format!("{bytes} more were sent over interfaces that NCCL's graphs do not name")),
        unused.first().map(|first| {
            let dumps = plural(unused.len() as u64, "dump", "dumps");
            format!(
                "{dumps} of NCCL's topology could not be used: {first}{}",
                if unused.len() > 1 { "; …" } else { "" }
            )
        }),
    ];
    let remarks: Vec<String> = remarks.into_iter().flatten().collect();
    sheet.remark = (!remarks.is_empty()).then(|| remarks.join(". "));
    sheet
}

fn host(report: &Report, nic: &Nic) -> String {
    let hosts = report.topology.as_ref().map(|it| &it.hosts);
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

pub(super) fn of<T>(value: Option<T>, cell: impl Fn(T) -> Cell) -> Cell {
    value.map_or(Cell::None, cell)
}

pub(super) fn share(part: u64, whole: u64) -> Cell {
    if whole == 0 { Cell::None } else { Cell::Share(real(part) / real(whole)) }
}

pub(super) fn rank(report: &Report, number: u32) -> String {
    report.ranks.get(index(number)).map(|it| it.name.clone()).unwrap_or_default()
}

/// The share of a part; empty if nothing is compared across ranks.
pub(super) fn compared(budget: &Budget, part_ns: u64) -> Cell {
    if budget.not_compared_ns == budget.operations_ns { Cell::None } else { share(part_ns, budget.operations_ns) }
}

pub(super) fn communicator(report: &Report, number: u32) -> String {
    report.communicators.get(index(number)).map(|it| it.name.clone()).unwrap_or_default()
}

/// Whether a rank of the job has one of these numbers in any of its communicators.
pub(super) fn is_wanted(report: &Report, number: Option<u32>, wanted: &[u32]) -> bool {
    let rank = number.and_then(|number| report.ranks.get(usize::try_from(number).ok()?));
    wanted.is_empty() || rank.is_some_and(|rank| rank.members.iter().any(|it| wanted.contains(&it.rank)))
}

pub(super) fn word(kind: impl Serialize) -> String {
    serde_json::to_value(kind).unwrap_or_default().as_str().unwrap_or_default().to_owned()
}

pub(super) fn receiver(report: &Report, key: &LinkKey) -> Option<String> {
    key.to.map(|number| rank(report, number)).or(key.peer.map(|peer| format!("rank {peer}")))
}

/// For example "rank 3 → rank 11" or "channel 5".
pub(super) fn link(report: &Report, key: &LinkKey) -> String {
    let channel = key.channel.map(|channel| format!("channel {channel}"));
    let pair = key.from.zip(receiver(report, key)).map(|(from, to)| format!("{} → {to}", rank(report, from)));
    [pair, channel].into_iter().flatten().collect::<Vec<_>>().join(", ")
}

pub(super) const NO_PATH: &str =
    "there is none: no operation has ended, or --comm or --function leaves out operations that it may go through";

/// For example "call 9.84 ms late, in step # > load".
pub(super) fn why(why: &Why) -> String {
    let Some((reason, later_ns)) = why.reason.zip(why.later_ns) else {
        return why.missing.as_ref().map_or_else(String::new, |missing| format!("unknown: {missing}"));
    };
    let phase = why.phase.as_ref().map(|phase| format!(", in {}", path_of_ranges(&phase.path)));
    format!("{} {} late{}", word(reason), units::time(later_ns), phase.unwrap_or_default())
}

pub(super) fn path(report: &Report, wanted: &[u32]) -> Sheet {
    let parts = report.critical_path.iter().flat_map(|path| &path.parts);
    let parts = parts.filter(|part| part.rank.is_none() || is_wanted(report, part.rank, wanted));
    let mut sheet = Sheet::of(
        "critical path: what the length of the run consists of",
        parts.map(|part| (report, part)),
        &[
            ("part", |(_, it)| text(word(it.kind))),
            ("rank", |(report, it)| of(it.rank, |number| text(rank(report, number)))),
            ("in", |(report, it)| text(place(report, it))),
            ("at_most", |(_, it)| time(it.ns)),
            ("share", |(_, it)| Cell::Share(it.share)),
            ("times", |(_, it)| Cell::Count(it.times)),
            ("communicator", |(report, it)| of(it.communicator, |number| text(communicator(report, number)))),
        ],
    );
    sheet.remark = report.critical_path.as_ref().map(|path| {
        format!(
            "{} Without a part the run is shorter by at_most; less if another path is nearly as long.",
            path.sentence
        )
    });
    sheet
}

/// The function and the link, or the ranges of the program.
fn place(report: &Report, part: &PathPart) -> String {
    let link = part.link.map(|key| link(report, &key));
    let phase = part.phase.as_ref().map(|it| format!("{:.0} % in {}", it.share * 100.0, path_of_ranges(&it.path)));
    part.function.clone().into_iter().chain(link).chain(phase).collect::<Vec<_>>().join(", ")
}
