//! A sheet for each question.

use std::collections::BTreeMap;

use analysis::results::{Budget, Cause, Fit, Link, LinkKey, OperationClass, Quantiles, Rank, Report, Run};
use analysis::units::count;
use clap::ValueEnum;

use super::cells::{communicator, compared, is_wanted, link, of, rank, receiver, share, text, time, word};
use super::{explained, program, wires};
use crate::sheet::{Cell, Sheet};

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
        By::Nic => wires::nics(report),
        By::Messages => messages(report, wanted),
        By::Overlap => overlap(report, wanted),
        By::Path => explained::path(report, wanted),
        By::Anomalies => anomalies(report),
        By::Phase => program::phases(report),
        By::Step => program::steps(report),
        By::Init => program::communicators(report),
    };
    sheet.empty = match by {
        By::Phase => program::NO_PHASES,
        By::Step => program::NO_STEPS,
        By::Init => program::NO_COMMUNICATORS,
        By::Nic => wires::no_nics(report),
        By::Path => explained::NO_PATH,
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
            ("+reduced_by", |(_, it)| wires::words(&it.reduced_by)),
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
            ("+why", |it| of(it.why.as_ref().map(explained::why), text)),
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
            ("nic", |(report, it)| wires::names(report, &it.from_nics)),
            ("path", |(_, it)| wires::words(&it.nic_paths)),
            ("communicator", |(report, it)| text(communicator(report, it.key.communicator))),
            ("+to_nic", |(report, it)| wires::names(report, &it.to_nics)),
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
