//! A sheet for each question.

use analysis::report::{Anomaly, Budget, Fit, Link, LinkKey, Quantiles, Report, Run};
use clap::ValueEnum;

use crate::sheet::{Cell, Sheet};

/// The tables.
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
    /// What ranks sent to each other, and how long they waited for each other
    Messages,
    /// Communication beside computation
    Overlap,
    /// Single collectives that took far longer than others
    Anomalies,
}

/// A table of a report; of tables of ranks only those that are wanted.
pub(super) fn sheet(report: &Report, by: By, wanted: &[u32]) -> Sheet {
    let mut sheet = match by {
        By::Causes => causes(report),
        By::Operations => operations(report),
        By::Ranks => ranks(report, wanted),
        By::Pairs => links("network, by sender and receiver", report, &report.pairs, wanted),
        By::Channels => links("network, by channel", report, &report.channels, &[]),
        By::Messages => messages(report, wanted),
        By::Overlap => overlap(report, wanted),
        By::Anomalies => anomalies(report),
    };
    sheet.empty = match by {
        By::Causes | By::Anomalies => "none was found",
        By::Pairs | By::Channels if !report.run.has_steps => Run::CONNECTIONS_NOT_MEASURED,
        By::Overlap if !report.run.has_other_kernels => {
            "kernels of the program were not recorded, which takes CUPTI and NCCL_OTF2_CUPTI_KERNELS=all"
        }
        _ => sheet.empty,
    };
    sheet
}

/// Whether any table has such a column.
pub(super) fn is_column(report: &Report, name: &str) -> bool {
    By::value_variants().iter().any(|by| sheet(report, *by, &[]).has(name))
}

fn text(text: impl Into<String>) -> Cell {
    Cell::Text(text.into())
}

#[expect(clippy::cast_precision_loss, reason = "times of days are below 2⁵³ ns")]
fn time(ns: u64) -> Cell {
    Cell::Time(ns as f64)
}

fn of<T>(value: Option<T>, cell: impl Fn(T) -> Cell) -> Cell {
    value.map_or(Cell::None, cell)
}

#[expect(clippy::cast_precision_loss, reason = "a share is shown with few digits")]
fn share(part: u64, whole: u64) -> Cell {
    if whole == 0 { Cell::None } else { Cell::Share(part as f64 / whole as f64) }
}

fn communicator(report: &Report, number: u32) -> String {
    let communicator = report.communicators.get(usize::try_from(number).unwrap_or(usize::MAX));
    communicator.map(|it| it.name.clone()).unwrap_or_default()
}

fn rank(report: &Report, number: u32) -> String {
    let rank = report.ranks.get(usize::try_from(number).unwrap_or(usize::MAX));
    rank.map(|it| it.name.clone()).unwrap_or_default()
}

/// Whether a rank of the job has one of these numbers in a communicator.
fn is_wanted(report: &Report, number: Option<u32>, wanted: &[u32]) -> bool {
    let rank = number.and_then(|number| report.ranks.get(usize::try_from(number).ok()?));
    wanted.is_empty() || rank.is_some_and(|rank| rank.members.iter().any(|it| wanted.contains(&it.rank)))
}

fn causes(report: &Report) -> Sheet {
    let mut sheet = Sheet::new(
        "causes of lost time: times overlap and do not add up",
        &["lost", "share", "cause", "since", "+sentence"],
    );
    for cause in &report.causes {
        let kind = serde_json::to_value(cause.kind).unwrap_or_default();
        let who = cause.rank.map(|number| rank(report, number));
        let who = who.or(cause.link.map(|key| link(report, &key))).or(cause.host.clone());
        let what = format!("{}: {}", kind.as_str().unwrap_or_default(), who.unwrap_or_default());
        sheet.rows.push(vec![
            time(cause.lost_ns),
            of(cause.share, Cell::Share),
            text(what.trim_end_matches(": ")),
            of(cause.since_ns, time),
            text(&cause.sentence),
        ]);
    }
    sheet
}

fn operations(report: &Report) -> Sheet {
    let is_any_unfinished = report.operations.iter().any(|class| class.unfinished > 0);
    let mut sheet = Sheet::new(
        "operations, counted on every rank",
        &[
            "function",
            "bytes",
            "count",
            "median",
            "p99",
            "busbw",
            "transfer_busbw",
            "waiting",
            "communicator",
            "timing",
            "+bytes_min",
            if is_any_unfinished { "unfinished" } else { "+unfinished" },
            "+min",
            "+p95",
            "+max",
            "+total",
            "+algbw",
            "+comparable",
            "+skew_median",
            "+skew_p99",
            "+transfer",
            "+unclear",
        ],
    );
    for class in &report.operations {
        let duration = |get: fn(&Quantiles) -> f64| of(class.duration_ns.as_ref(), |it| Cell::Time(get(it)));
        let median = |of_what: &Option<Quantiles>| of(of_what.as_ref(), |it| Cell::Rate(it.median));
        let skew = |get: fn(&Quantiles) -> f64| of(class.skew_ns.as_ref(), |it| Cell::Time(get(it)));
        let budget = &class.budget;
        sheet.rows.push(vec![
            text(&class.function),
            Cell::Bytes(class.bytes_max),
            Cell::Count(class.count),
            duration(|it| it.median),
            duration(|it| it.p99),
            median(&class.busbw),
            median(&class.transfer_busbw),
            compared(budget, budget.waiting_ns),
            text(communicator(report, class.communicator)),
            text(timing(&class.timing)),
            Cell::Bytes(class.bytes_min),
            Cell::Count(class.unfinished),
            duration(|it| it.min),
            duration(|it| it.p95),
            duration(|it| it.max),
            duration(|it| it.total),
            median(&class.algbw),
            Cell::Count(class.comparable),
            skew(|it| it.median),
            skew(|it| it.p99),
            compared(budget, budget.transfer_ns),
            compared(budget, budget.unclear_ns),
        ]);
    }
    sheet
}

/// The share of a part; none where nothing is compared over ranks.
fn compared(budget: &Budget, part_ns: u64) -> Cell {
    if budget.not_compared_ns == budget.operations_ns { Cell::None } else { share(part_ns, budget.operations_ns) }
}

/// "kernelch", or "event 16, kernelch 12".
fn timing(timing: &std::collections::BTreeMap<String, u64>) -> String {
    if let (Some((only, _)), 1) = (timing.first_key_value(), timing.len()) {
        return only.clone();
    }
    timing.iter().map(|(name, count)| format!("{name} {count}")).collect::<Vec<_>>().join(", ")
}

fn ranks(report: &Report, wanted: &[u32]) -> Sheet {
    let mut sheet = Sheet::new(
        "ranks: their time in operations, and how late they come",
        &[
            "rank",
            "operations",
            "waiting",
            "transfer",
            "unclear",
            "last",
            "expected",
            "caused",
            "lateness",
            "host",
            "+not_compared",
            "+late_sender",
            "+late_receiver",
            "+caused_alone",
            "+lost",
            "+collectives",
            "+p_value",
            "+trend_per_s",
            "+changed_at",
            "+before",
            "+after",
            "+process",
        ],
    );
    for (number, rank) in (0..).zip(&report.ranks) {
        if !is_wanted(report, Some(number), wanted) {
            continue;
        }
        let Budget { operations_ns, waiting_ns, transfer_ns, unclear_ns, not_compared_ns } = rank.budget;
        sheet.rows.push(vec![
            text(&rank.name),
            time(operations_ns),
            share(waiting_ns, operations_ns),
            share(transfer_ns, operations_ns),
            share(unclear_ns, operations_ns),
            Cell::Count(rank.last),
            Cell::Number(rank.last_expected),
            time(rank.awaited_ns),
            Cell::Time(rank.lateness_ns),
            text(&rank.host),
            share(not_compared_ns, operations_ns),
            time(rank.late_sender_ns),
            time(rank.late_receiver_ns),
            time(rank.caused_alone_ns),
            time(rank.lost_ns),
            Cell::Count(rank.instances),
            Cell::Number(rank.p_value),
            of(rank.trend_ns_per_s, Cell::Time),
            of(rank.change.map(|it| it.at_ns), time),
            of(rank.change.map(|it| it.before), Cell::Time),
            of(rank.change.map(|it| it.after), Cell::Time),
            text(&rank.process),
        ]);
    }
    sheet
}

fn links(title: &'static str, report: &Report, links: &[Link], wanted: &[u32]) -> Sheet {
    let mut sheet = Sheet::new(
        title,
        &[
            "from",
            "to",
            "channel",
            "steps",
            "bytes",
            "latency",
            "latency_least",
            "rate_fit",
            "rate_least",
            "rate",
            "slowdown",
            "communicator",
            "+excess",
            "+busy",
            "+r_squared",
            "+r_squared_least",
            "+changed_at",
            "+before",
            "+after",
            "+send_gpu_wait",
            "+send_peer_wait",
            "+send_wait",
            "+recv_wait",
            "+recv_flush_wait",
            "+recv_gpu_wait",
        ],
    );
    for link in links {
        let key = &link.key;
        if !wanted.is_empty() && !is_wanted(report, key.from, wanted) && !is_wanted(report, key.to, wanted) {
            continue;
        }
        let latency = |fit: Option<Fit>| of(fit.and_then(|it| it.latency_ns), Cell::Time);
        let rate = |fit: Option<Fit>| of(fit.and_then(|it| it.rate), Cell::Rate);
        let r_squared = |fit: Option<Fit>| of(fit.and_then(|it| it.r_squared), Cell::Number);
        let to = key.to.map(|number| rank(report, number)).or(key.peer.map(|peer| format!("rank {peer}")));
        let waits = &link.waits;
        sheet.rows.push(vec![
            of(key.from, |number| text(rank(report, number))),
            of(to, text),
            of(key.channel.map(u64::from), Cell::Count),
            Cell::Count(link.steps),
            Cell::Bytes(link.bytes),
            latency(link.all),
            latency(link.least),
            rate(link.all),
            rate(link.least),
            of(link.rate, Cell::Rate),
            of(link.slowdown, Cell::Number),
            text(communicator(report, key.communicator)),
            time(link.excess_ns),
            time(link.busy_ns),
            r_squared(link.all),
            r_squared(link.least),
            of(link.change.map(|it| it.at_ns), time),
            of(link.change.map(|it| it.before), Cell::Number),
            of(link.change.map(|it| it.after), Cell::Number),
            time(waits.send_gpu_ns),
            time(waits.send_peer_ns),
            time(waits.send_ns),
            time(waits.recv_ns),
            time(waits.recv_flush_ns),
            time(waits.recv_gpu_ns),
        ]);
    }
    sheet
}

/// "rank 3 → rank 11", "channel 5".
fn link(report: &Report, key: &LinkKey) -> String {
    let channel = key.channel.map(|channel| format!("channel {channel}"));
    let to = key.to.map(|number| rank(report, number)).or(key.peer.map(|peer| format!("rank {peer}")));
    let pair = key.from.zip(to).map(|(from, to)| format!("{} → {to}", rank(report, from)));
    [pair, channel].into_iter().flatten().collect::<Vec<_>>().join(", ")
}

fn messages(report: &Report, wanted: &[u32]) -> Sheet {
    let mut sheet = Sheet::new(
        "messages between ranks: how long one end waited because the other came late",
        &["from", "to", "count", "bytes", "late_sender", "late_receiver", "communicator"],
    );
    let mut messages: Vec<_> = report.messages.iter().collect();
    messages.sort_by_key(|it| std::cmp::Reverse(it.late_sender_ns + it.late_receiver_ns));
    for it in messages {
        if is_wanted(report, it.from, wanted) || is_wanted(report, it.to, wanted) {
            sheet.rows.push(vec![
                of(it.from, |number| text(rank(report, number))),
                of(it.to, |number| text(rank(report, number))),
                Cell::Count(it.count),
                Cell::Bytes(it.bytes),
                time(it.late_sender_ns),
                time(it.late_receiver_ns),
                text(communicator(report, it.communicator)),
            ]);
        }
    }
    sheet
}

fn overlap(report: &Report, wanted: &[u32]) -> Sheet {
    let mut sheet = Sheet::new(
        "kernels: communication beside computation",
        &["rank", "communication", "computation", "overlap", "exposed", "exposed_share"],
    );
    for it in report.overlap.iter().flatten().filter(|it| is_wanted(report, Some(it.rank), wanted)) {
        sheet.rows.push(vec![
            text(rank(report, it.rank)),
            time(it.communication_ns),
            time(it.computation_ns),
            time(it.overlap_ns),
            time(it.exposed_ns),
            share(it.exposed_ns, it.communication_ns),
        ]);
    }
    sheet
}

fn anomalies(report: &Report) -> Sheet {
    let mut sheet = Sheet::new(
        "collectives that took far longer than others of their kind",
        &["lost", "what", "+start", "+end", "+median", "+skew", "+sequence", "+cause", "+location", "+event"],
    );
    for it in &report.anomalies {
        let Anomaly { kind, location, event, .. } = it;
        let kind = serde_json::to_value(kind).unwrap_or_default();
        sheet.rows.push(vec![
            time(it.lost_ns),
            text(&it.sentence),
            time(it.start_ns),
            time(it.end_ns),
            Cell::Time(it.median_ns),
            time(it.skew_ns),
            of(it.sequence, Cell::Count),
            text(kind.as_str().unwrap_or_default()),
            Cell::Count(*location),
            of(*event, Cell::Count),
        ]);
    }
    sheet
}
