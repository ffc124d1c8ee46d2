//! The names, labels and units of the OpenTelemetry profiler plugin.
//!
//! That plugin puts the mean of each of its windows into a histogram. Here the histograms of durations cover single
//! operations and transfers; those of sizes and numbers have no bounds, but the same sum and count.

use std::collections::BTreeMap;

use crate::metric::MetricKind::{Counter, Histogram};
use crate::metric::{Buckets, Family, Label, Value};
use crate::snapshot::{self, Channel, Operation, Snapshot, real};

use super::rows::{Row, Table, communicator, join, short};

/// Sums over the intervals so far, and bounds in microseconds.
#[derive(Debug, Default)]
pub(super) struct Windows {
    latency_us: BTreeMap<Vec<Label>, (u64, f64)>,
    rate: BTreeMap<Vec<Label>, (u64, f64)>,
    bounds: Vec<(&'static [f64], &'static [f64])>,
}

impl Windows {
    fn microseconds(&mut self, seconds: &snapshot::Histogram) -> Buckets {
        let known = self.bounds.iter().find(|(of, _)| *of == seconds.bounds);
        let bounds = known.map(|(_, bounds)| *bounds).unwrap_or_else(|| {
            // Leaks little: few tables of bounds exist, each a constant.
            let bounds: &'static [f64] = seconds.bounds.iter().map(|bound| bound * 1e6).collect::<Vec<_>>().leak();
            self.bounds.push((seconds.bounds, bounds));
            bounds
        });
        Buckets { bounds, counts: seconds.counts.clone(), sum: real(seconds.sum_ns) / 1e3 }
    }
}

/// A histogram with only a sum and a count.
fn sum_of(count: u64, sum: f64) -> Option<Value> {
    Some(Value::Histogram(Buckets { bounds: &[], counts: vec![count], sum }))
}

pub(super) fn families(snapshot: &Snapshot, windows: &mut Windows) -> Vec<Family> {
    let mut out = Vec::new();
    operations(snapshot, windows, &mut out);
    pairs(snapshot, windows, &mut out);
    channels(snapshot, windows, &mut out);
    out
}

fn operations(snapshot: &Snapshot, windows: &mut Windows, out: &mut Vec<Family>) {
    for is_point_to_point in [false, true] {
        let rows = snapshot.operations.iter().filter(|it| it.is_point_to_point == is_point_to_point);
        let rows = join(rows.map(|it| (operation(snapshot, it), it)));
        let times: Vec<Row<_>> =
            rows.iter().map(|(labels, (.., duration))| (labels.clone(), windows.microseconds(duration))).collect();
        let time = |it: &Buckets| Some(Value::Histogram(it.clone()));
        let mut sums = Table { families: out, rows: &rows };
        if is_point_to_point {
            let name = ("nccl_profiler_p2p_bytes", "bytes");
            sums.add(Histogram, name, "Bytes of P2P operations", |it| sum_of(it.2.count(), real(it.1)));
            let mut times = Table { families: out, rows: &times };
            times.add(Histogram, ("nccl_profiler_p2p_time", "us"), "Time of P2P operations", time);
        } else {
            let name = ("nccl_profiler_collective_bytes", "bytes");
            sums.add(Counter, name, "Bytes of collective operations", |it| Some(Value::Count(it.1)));
            let mut times = Table { families: out, rows: &times };
            times.add(Histogram, ("nccl_profiler_collective_time", "us"), "Time of collective operations", time);
            let name = ("nccl_profiler_collective_count", "count");
            let mut sums = Table { families: out, rows: &rows };
            sums.add(Histogram, name, "Number of collective operations", |it| sum_of(it.2.count(), real(it.2.count())));
        }
    }
}

fn operation(snapshot: &Snapshot, operation: &Operation) -> Vec<Label> {
    let communicator = communicator(snapshot, operation.communicator);
    let Operation { rank, algorithm, peer, function, .. } = operation;
    let function = short(function);
    let name = match peer {
        Some(peer) => format!("{function} Pipeline{rank}→Pipeline{peer} (Rank{rank})"),
        None => format!("Comm{}_{function}_{algorithm}", communicator.name),
    };
    let mut labels = place(snapshot, operation.communicator);
    labels.extend([("operation", name), ("rank", rank.to_string())]);
    labels
}

fn place(snapshot: &Snapshot, index: usize) -> Vec<Label> {
    let communicator = communicator(snapshot, index);
    let size = communicator.ranks.to_string();
    vec![("communicator", communicator.name.clone()), ("comm_nranks", size), ("hostname", snapshot.job.host.clone())]
}

fn link(snapshot: &Snapshot, index: usize, from: u32, to: u32) -> Vec<Label> {
    let mut labels = place(snapshot, index);
    labels.extend([("source_rank", from.to_string()), ("dest_rank", to.to_string())]);
    labels
}

fn pairs(snapshot: &Snapshot, windows: &mut Windows, out: &mut Vec<Family>) {
    let rows = snapshot.pairs.iter().map(|it| (link(snapshot, it.communicator, it.from, it.to), it));
    let rows: Vec<Row<_>> = rows.collect();
    for (labels, pair) in &rows {
        let values = [(&mut windows.latency_us, pair.all.and_then(|fit| Some(fit.latency_ns? / 1e3))), {
            (&mut windows.rate, pair.rate.map(|rate| rate / 1e6))
        }];
        for (windows, value) in values.into_iter().filter_map(|(windows, value)| Some((windows, value?))) {
            let (count, sum) = windows.entry(labels.clone()).or_default();
            *count += 1;
            *sum += value;
        }
    }
    let so_far = |windows: &BTreeMap<Vec<Label>, (u64, f64)>| -> Vec<Row<(u64, f64)>> {
        rows.iter().filter_map(|(labels, _)| Some((labels.clone(), *windows.get(labels)?))).collect()
    };
    let mut table = Table { families: out, rows: &rows };
    let name = ("nccl_profiler_rank_bytes", "bytes");
    table.add(Counter, name, "Bytes sent from rank to rank", |it| Some(Value::Count(it.bytes)));
    for (name, help, windows) in [
        (
            ("nccl_profiler_rank_latency", "us"),
            "Latency from rank to rank (from linear regression)",
            so_far(&windows.latency_us),
        ),
        (
            ("nccl_profiler_rank_rate", "MB/s"),
            "Transfer rate from rank to rank (based on active transfer time)",
            so_far(&windows.rate),
        ),
    ] {
        Table { families: out, rows: &windows }.add(Histogram, name, help, |(count, sum)| sum_of(*count, *sum));
    }
}

fn channels(snapshot: &Snapshot, windows: &mut Windows, out: &mut Vec<Family>) {
    let rows = snapshot.channels.iter().filter(|it| it.is_send).map(|it: &Channel| {
        let mut labels = link(snapshot, it.communicator, it.rank, it.peer);
        labels.push(("channel", it.channel.to_string()));
        (labels, (it, windows.microseconds(&it.duration)))
    });
    let rows: Vec<Row<_>> = rows.collect();
    let mut table = Table { families: out, rows: &rows };
    let (size, time) = (("nccl_profiler_transfer_size", "bytes"), ("nccl_profiler_transfer_time", "us"));
    table.add(Histogram, size, "Transfer size per channel", |(it, _)| sum_of(it.steps, real(it.bytes)));
    table.add(Histogram, time, "Transfer time per channel", |(_, time)| Some(Value::Histogram(time.clone())));
}
