//! A snapshot as families of metrics, under our names or under those that existing dashboards query.

use std::borrow::Cow;
use std::collections::BTreeMap;

use crate::snapshot::MetricKind::{Counter, Histogram as HistogramKind};
use crate::snapshot::{
    Buckets, Channel, Communicator, Family, Fit, Histogram, Label, MetricKind, Operation, ProcessState, Rank, Sample,
    Snapshot, Value, Window, seconds,
};
use analysis::units::real;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Names {
    /// Our names: all known values, in base units.
    #[default]
    Ours,
    Inspector,
    Otel,
}

/// Makes families from snapshots, which must come in time order.
#[derive(Debug, Default)]
pub struct Families {
    names: Names,
    windows: Windows,
}

impl Families {
    pub fn new(names: Names) -> Self {
        Self { names, windows: Windows::default() }
    }

    pub fn collect(&mut self, snapshot: &Snapshot) -> Vec<Family> {
        match self.names {
            Names::Ours => native_families(snapshot),
            Names::Inspector => inspector_families(snapshot),
            Names::Otel => otel_families(snapshot, &mut self.windows),
        }
    }
}

/// Families under our names: all known values, in base units. docs/REFERENCE.md lists them, and a test compares.
pub(crate) fn native_families(snapshot: &Snapshot) -> Vec<Family> {
    let mut out = Vec::new();
    let rows = Rows { snapshot, job: job(snapshot) };
    following(&rows, &mut out);
    processes(&rows, &mut out);
    communicators(&rows, &mut out);
    ranks(&rows, &mut out);
    operations(&rows, &mut out);
    pairs(&rows, &mut out);
    channels(&rows, &mut out);
    out
}

fn job(snapshot: &Snapshot) -> Vec<Label> {
    let job = &snapshot.job;
    let labels = [("host", &job.host), ("job_id", &job.job), ("cluster", &job.cluster)];
    labels.into_iter().filter(|(_, value)| !value.is_empty()).map(|(name, value)| (name, value.clone())).collect()
}

struct Rows<'s> {
    snapshot: &'s Snapshot,
    job: Vec<Label>,
}

impl Rows<'_> {
    fn row<T>(&self, own: impl IntoIterator<Item = Label>, of: T) -> Row<T> {
        (self.job.iter().cloned().chain(own).collect(), of)
    }

    fn communicator(&self, index: usize) -> Label {
        ("communicator", communicator(self.snapshot, index).name.clone())
    }

    fn rank<T>(&self, index: usize, rank: u32, own: impl IntoIterator<Item = Label>, of: T) -> Row<T> {
        self.row([self.communicator(index), ("rank", rank.to_string())].into_iter().chain(own), of)
    }
}

fn following(rows: &Rows<'_>, out: &mut Vec<Family>) {
    let Snapshot { at_ns, interval_ns, folded, job, .. } = rows.snapshot;
    let version = ("version", env!("CARGO_PKG_VERSION").to_owned());
    let info = rows.row([version, ("launcher", job.launcher.clone())], ());
    let mut table = Table { families: out, rows: &[info] };
    table.gauge("nccl_otf2_build_info", "1; the version of nccl-otf2, and the job's launcher", |()| 1.0);
    let one = [rows.row([], ())];
    let mut table = Table { families: out, rows: &one };
    table.gauge("nccl_snapshot_timestamp_seconds", "When these values were taken, since 1970", |()| seconds(*at_ns));
    table.gauge(
        "nccl_interval_seconds",
        "Length of the last interval, to which gauges of bandwidth and latency refer",
        |()| seconds(*interval_ns),
    );
    table.gauge(
        "nccl_folded_series",
        "Series that were merged into those labelled `other`, to limit their number",
        |()| real(*folded),
    );
}

fn processes(rows: &Rows<'_>, out: &mut Vec<Family>) {
    use crate::snapshot::ProcessState::{Finished, Gone, Running, Stopped, Unknown};
    let processes = &rows.snapshot.processes;
    let states =
        [("running", Running), ("stopped", Stopped), ("finished", Finished), ("gone", Gone), ("unknown", Unknown)];
    let states = states.map(|(name, state)| rows.row([("state", name.to_owned())], state));
    let mut table = Table { families: out, rows: &states };
    table.gauge("nccl_processes", "Processes of this node that are followed, by state", |state| {
        real(processes.iter().filter(|process| process.state == *state).count() as u64)
    });
    let one = [rows.row([], ())];
    let mut table = Table { families: out, rows: &one };
    table.gauge(
        "nccl_processes_missed",
        "Processes that had ended before they could be read: their journals are gone",
        |()| real(rows.snapshot.processes_missed),
    );
    table.gauge(
        "nccl_processes_elsewhere",
        "Processes that are not followed, because they are on other hosts or of other boots",
        |()| real(rows.snapshot.processes_elsewhere),
    );
    table.gauge("nccl_parts_unreadable", "Parts whose process.json or journal cannot be read", |()| {
        real(rows.snapshot.unreadable.len() as u64)
    });
    let all: Vec<Row<_>> =
        processes.iter().map(|process| rows.row([("process", process.part.clone())], process)).collect();
    let mut table = Table { families: out, rows: &all };
    table.counter("nccl_records", "Records that were read from the process's journal", |process| process.records);
    table.counter("nccl_lost_events", "Events that the process could not record", |process| process.lost_events);
    table.counter("nccl_damaged_places", "Places in journals where records could not be decoded", |process| {
        process.damaged
    });
    table.counter("nccl_damaged_bytes", "Bytes of journals that could not be decoded", |process| process.damaged_bytes);
    table.counter(
        "nccl_late_events",
        "Events that came after their operation was considered over, or whose start is unknown",
        |process| process.late_events,
    );
    table.counter("nccl_discarded_bytes", "Bytes of journals that were removed before they were read", |process| {
        process.discarded_bytes
    });
    table.gauge("nccl_follower_behind_bytes", "Recorded bytes not read yet", |process| real(process.behind_bytes));
    table.gauge(
        "nccl_follower_behind_seconds",
        "Age of the oldest record not read yet; 0 if everything is read",
        |process| seconds(process.behind_ns),
    );
}

fn communicators(rows: &Rows<'_>, out: &mut Vec<Family>) {
    let all = rows.snapshot.communicators.iter().enumerate();
    let all: Vec<Row<_>> =
        all.map(|(index, communicator)| rows.row([rows.communicator(index)], communicator)).collect();
    let mut table = Table { families: out, rows: &all };
    table.gauge("nccl_communicator_ranks", "Size of the communicator", |communicator| f64::from(communicator.ranks));
    table.gauge("nccl_communicator_local_ranks", "Ranks of the communicator on this node", |communicator| {
        f64::from(communicator.here)
    });
    table.gauge("nccl_communicator_nodes", "Nodes of the communicator, if NCCL reports them", |communicator| {
        communicator.nodes.map(f64::from)
    });
    let skews = &rows.snapshot.skews;
    let skews: Vec<Row<_>> = skews.iter().map(|skew| rows.row([rows.communicator(skew.communicator)], skew)).collect();
    let mut table = Table { families: out, rows: &skews };
    table.histogram(
        "nccl_collective_skew_seconds",
        "Time from the first rank's arrival at a collective to the last one's, if all ranks are on this node",
        |skew| &skew.skew,
    );
}

fn ranks(rows: &Rows<'_>, out: &mut Vec<Family>) {
    let Snapshot { at_ns, processes, ranks, proxies, .. } = rows.snapshot;
    let age = |since_ns: u64| seconds(at_ns.saturating_sub(since_ns));
    // After the end of a job or communicator, a rising age would look like a hang.
    let is_ongoing = |rank: &Rank| {
        !rank.is_finalized && processes.get(rank.process).is_some_and(|process| process.state != ProcessState::Finished)
    };
    let info: Vec<Row<_>> = ranks
        .iter()
        .filter_map(|rank| {
            let process = processes.get(rank.process)?;
            let labels = [("process", process.part.clone()), ("pid", process.pid.to_string())];
            Some(rows.rank(rank.communicator, rank.rank, labels, ()))
        })
        .collect();
    let mut table = Table { families: out, rows: &info };
    table.gauge("nccl_rank_info", "1; the process of the rank", |()| 1.0);
    let all: Vec<Row<_>> = ranks.iter().map(|rank| rows.rank(rank.communicator, rank.rank, [], rank)).collect();
    let mut table = Table { families: out, rows: &all };
    table.gauge(
        "nccl_rank_last_event_age_seconds",
        "Time since the rank last recorded an event of the communicator; absent after the end of the communicator or \
        process",
        |rank| rank.last_event_ns.filter(|_| is_ongoing(rank)).map(age),
    );
    table.gauge("nccl_rank_open_operations", "Operations of the rank that have not ended", |rank| real(rank.open));
    let oldest = ranks.iter().filter(|rank| is_ongoing(rank)).filter_map(|rank| {
        let (function, since_ns) = rank.oldest.as_ref()?;
        Some(rows.rank(rank.communicator, rank.rank, [("function", function.clone())], *since_ns))
    });
    let oldest: Vec<Row<_>> = oldest.collect();
    let mut table = Table { families: out, rows: &oldest };
    table.gauge(
        "nccl_rank_oldest_operation_age_seconds",
        "Age of the rank's oldest operation that has not ended",
        |since_ns| age(*since_ns),
    );
    let mut table = Table { families: out, rows: &all };
    table.counter(
        "nccl_rank_last_arrivals",
        "Collectives that the rank was the last to reach, beyond the clocks' error; not the first of each function",
        |rank| rank.last,
    );
    table.seconds(
        "nccl_rank_caused_waiting_seconds",
        "Time that the other ranks waited for this one, summed over them",
        |rank| rank.caused_waiting_ns,
    );
    let waits = proxies.iter().flat_map(|proxy| {
        let waits = [("gpu", proxy.gpu_wait_ns), ("peer", proxy.peer_wait_ns), ("network", proxy.network_ns)];
        waits.map(|(name, ns)| rows.rank(proxy.communicator, proxy.rank, [("waits_for", name.to_owned())], ns))
    });
    let waits: Vec<Row<_>> = waits.collect();
    let mut table = Table { families: out, rows: &waits };
    table.seconds(
        "nccl_proxy_wait_seconds",
        "Time that steps of the rank's proxy waited, by what they waited for, \
        summed over steps",
        |ns| *ns,
    );
}

fn operations(rows: &Rows<'_>, out: &mut Vec<Family>) {
    let row = |operation: &'_ Operation| {
        let peer = operation.peer.map(|peer| ("peer", peer.to_string()));
        let class = [
            ("size", operation.size_class.to_string()),
            ("timing", operation.timing.to_owned()),
            ("algorithm", operation.algorithm.clone()),
        ];
        [("function", operation.function.clone())].into_iter().chain(peer).chain(class).collect::<Vec<Label>>()
    };
    for (prefix, what, is_point_to_point) in [("nccl", "Collectives", false), ("nccl_p2p", "Sends and receives", true)]
    {
        let all = rows.snapshot.operations.iter().filter(|operation| operation.is_point_to_point == is_point_to_point);
        let all: Vec<Row<_>> =
            all.map(|operation| rows.rank(operation.communicator, operation.rank, row(operation), operation)).collect();
        let name = |rest: &str| -> Cow<'static, str> { format!("{prefix}_{rest}").into() };
        let help = |rest: &str| -> Cow<'static, str> { format!("{what}{rest}").into() };
        let mut table = Table { families: out, rows: &all };
        table.counter(name("operations"), help(" that ended"), |operation| operation.count);
        table.counter(name("operation_bytes"), help(": their bytes, as `stats` counts them"), |operation| {
            operation.bytes
        });
        table.histogram(
            name("operation_duration_seconds"),
            help(": how long they took, measured as `timing` says"),
            |operation| &operation.duration,
        );
        table.gauge(
            name("operation_algbw_bytes_per_second"),
            help(": median algorithm bandwidth of the interval"),
            |operation| operation.window.algbw,
        );
        table.gauge(
            name("operation_busbw_bytes_per_second"),
            help(": median bus bandwidth of the interval"),
            |operation| operation.window.busbw,
        );
    }
}

fn pairs(rows: &Rows<'_>, out: &mut Vec<Family>) {
    let pairs = &rows.snapshot.pairs;
    let labels =
        |index, from: u32, to: u32| [rows.communicator(index), ("from", from.to_string()), ("to", to.to_string())];
    let all: Vec<Row<_>> =
        pairs.iter().map(|pair| rows.row(labels(pair.communicator, pair.from, pair.to), pair)).collect();
    let mut table = Table { families: out, rows: &all };
    table.counter(
        "nccl_pair_steps",
        "Network transfers (steps) from one rank to another, seen at the sender",
        |pair| pair.steps,
    );
    table.counter("nccl_pair_bytes", "Bytes of network transfers from one rank to another", |pair| pair.bytes);
    table.gauge(
        "nccl_pair_throughput_bytes_per_second",
        "Bytes of the interval divided by the time with at least one transfer in flight",
        |pair| pair.rate,
    );
    let fits = pairs.iter().flat_map(|pair| {
        [("all", pair.all), ("least", pair.least)].into_iter().filter_map(|(name, fit)| {
            let labels = labels(pair.communicator, pair.from, pair.to).into_iter();
            Some(rows.row(labels.chain([("fit", name.to_owned())]), fit?))
        })
    });
    let fits: Vec<Row<Fit>> = fits.collect();
    let mut table = Table { families: out, rows: &fits };
    table.gauge(
        "nccl_pair_latency_seconds",
        "Regression of the interval's durations on bytes, over all steps or the least for each size: duration at 0 \
         bytes; absent, as the rate, where R² is below 0.5 or there are fewer than three points; also absent where negative",
        |fit| fit.latency_ns.map(|ns| ns / 1e9),
    );
    table.gauge("nccl_pair_rate_bytes_per_second", "The same regression: bytes over additional duration", |fit| {
        fit.rate
    });
    table.gauge("nccl_pair_r_squared", "The same regression: share of the variance that it explains", |fit| fit.r2);
}

fn channels(rows: &Rows<'_>, out: &mut Vec<Family>) {
    let all = rows.snapshot.channels.iter().map(|channel| {
        let direction = if channel.is_send { "send" } else { "receive" };
        let labels = [
            ("channel", channel.channel.to_string()),
            ("peer", channel.peer.to_string()),
            ("direction", direction.to_owned()),
        ];
        rows.rank(channel.communicator, channel.rank, labels, channel)
    });
    let all: Vec<Row<_>> = all.collect();
    let mut table = Table { families: out, rows: &all };
    table.counter("nccl_channel_bytes", "Bytes of network transfers, by channel and connection", |channel| {
        channel.bytes
    });
    table.histogram(
        "nccl_channel_step_duration_seconds",
        "How long network transfers took, by channel and connection",
        |channel| &channel.duration,
    );
}

/// What the families of the OpenTelemetry plugin need from earlier intervals: sums so far, and bounds in microseconds.
#[derive(Debug, Default)]
pub(crate) struct Windows {
    latency_us: BTreeMap<Vec<Label>, (u64, f64)>,
    rate: BTreeMap<Vec<Label>, (u64, f64)>,
    bounds: Vec<(&'static [f64], &'static [f64])>,
}

impl Windows {
    fn microseconds(&mut self, seconds: &Histogram) -> Buckets {
        let known = self.bounds.iter().find(|(of, _)| *of == seconds.bounds);
        let bounds = known.map(|(_, bounds)| *bounds).unwrap_or_else(|| {
            // Each table of bounds is converted once and never freed: there are few, and they are constants.
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

/// Families with the names, labels and units of the OpenTelemetry profiler plugin.
///
/// That plugin puts the mean of each of its windows into a histogram. The histograms of durations made here cover
/// single operations and transfers; those of sizes and numbers have no bounds, but the same sum and count.
pub(crate) fn otel_families(snapshot: &Snapshot, windows: &mut Windows) -> Vec<Family> {
    let mut out = Vec::new();
    otel_operations(snapshot, windows, &mut out);
    otel_pairs(snapshot, windows, &mut out);
    otel_channels(snapshot, windows, &mut out);
    out
}

fn otel_operations(snapshot: &Snapshot, windows: &mut Windows, out: &mut Vec<Family>) {
    for is_point_to_point in [false, true] {
        let rows = snapshot.operations.iter().filter(|operation| operation.is_point_to_point == is_point_to_point);
        let rows = join(rows.map(|row| (operation(snapshot, row), row)));
        let times: Vec<Row<_>> =
            rows.iter().map(|(labels, (.., duration))| (labels.clone(), windows.microseconds(duration))).collect();
        let time = |buckets: &Buckets| Some(Value::Histogram(buckets.clone()));
        let mut sums = Table { families: out, rows: &rows };
        if is_point_to_point {
            let name = ("nccl_profiler_p2p_bytes", "bytes");
            sums.add(HistogramKind, name, "Bytes of P2P operations", |row| sum_of(row.2.count(), real(row.1)));
            let mut times = Table { families: out, rows: &times };
            times.add(HistogramKind, ("nccl_profiler_p2p_time", "us"), "Time of P2P operations", time);
        } else {
            let name = ("nccl_profiler_collective_bytes", "bytes");
            sums.add(Counter, name, "Bytes of collective operations", |row| Some(Value::Count(row.1)));
            let mut times = Table { families: out, rows: &times };
            times.add(HistogramKind, ("nccl_profiler_collective_time", "us"), "Time of collective operations", time);
            let name = ("nccl_profiler_collective_count", "count");
            let mut sums = Table { families: out, rows: &rows };
            sums.add(HistogramKind, name, "Number of collective operations", |row| {
                sum_of(row.2.count(), real(row.2.count()))
            });
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

fn otel_pairs(snapshot: &Snapshot, windows: &mut Windows, out: &mut Vec<Family>) {
    let rows = snapshot.pairs.iter().map(|pair| (link(snapshot, pair.communicator, pair.from, pair.to), pair));
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
    table.add(Counter, name, "Bytes sent from rank to rank", |pair| Some(Value::Count(pair.bytes)));
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
        Table { families: out, rows: &windows }.add(HistogramKind, name, help, |(count, sum)| sum_of(*count, *sum));
    }
}

fn otel_channels(snapshot: &Snapshot, windows: &mut Windows, out: &mut Vec<Family>) {
    let rows = snapshot.channels.iter().filter(|channel| channel.is_send).map(|channel: &Channel| {
        let mut labels = link(snapshot, channel.communicator, channel.rank, channel.peer);
        labels.push(("channel", channel.channel.to_string()));
        (labels, (channel, windows.microseconds(&channel.duration)))
    });
    let rows: Vec<Row<_>> = rows.collect();
    let mut table = Table { families: out, rows: &rows };
    let (size, time) = (("nccl_profiler_transfer_size", "bytes"), ("nccl_profiler_transfer_time", "us"));
    table.add(HistogramKind, size, "Transfer size per channel", |(channel, _)| {
        sum_of(channel.steps, real(channel.bytes))
    });
    table.add(HistogramKind, time, "Transfer time per channel", |(_, time)| Some(Value::Histogram(time.clone())));
}

type Text = Cow<'static, str>;

pub(crate) type Row<T> = (Vec<Label>, T);

/// Adds a family with a sample for each row that has a value; no family if no row has one.
pub(crate) struct Table<'a, T> {
    pub(crate) families: &'a mut Vec<Family>,
    pub(crate) rows: &'a [Row<T>],
}

fn unit(name: &str) -> &'static str {
    let units = [("_bytes_per_second", "bytes_per_second"), ("_bytes", "bytes"), ("_seconds", "seconds")];
    units.into_iter().find(|(end, _)| name.ends_with(end)).map_or("", |(_, unit)| unit)
}

impl<T> Table<'_, T> {
    pub(crate) fn add(
        &mut self,
        kind: MetricKind,
        (name, unit): (impl Into<Text>, &'static str),
        help: impl Into<Text>,
        value: impl Fn(&T) -> Option<Value>,
    ) {
        let sample = |(labels, of): &Row<T>| Some(Sample { labels: labels.clone(), value: value(of)? });
        let samples: Vec<Sample> = self.rows.iter().filter_map(sample).collect();
        if !samples.is_empty() {
            self.families.push(Family { name: name.into(), help: help.into(), unit, kind, samples });
        }
    }

    fn named(&mut self, kind: MetricKind, name: Text, help: impl Into<Text>, value: impl Fn(&T) -> Option<Value>) {
        let unit = unit(&name);
        self.add(kind, (name, unit), help, value);
    }

    pub(crate) fn counter(&mut self, name: impl Into<Text>, help: impl Into<Text>, value: impl Fn(&T) -> u64) {
        self.named(Counter, name.into(), help, |row| Some(Value::Count(value(row))));
    }

    pub(crate) fn seconds(&mut self, name: impl Into<Text>, help: impl Into<Text>, value: impl Fn(&T) -> u64) {
        self.named(Counter, name.into(), help, |row| Some(Value::Number(seconds(value(row)))));
    }

    pub(crate) fn gauge<V: Into<Option<f64>>>(
        &mut self,
        name: impl Into<Text>,
        help: impl Into<Text>,
        value: impl Fn(&T) -> V,
    ) {
        self.named(MetricKind::Gauge, name.into(), help, |row| value(row).into().map(Value::Number));
    }

    pub(crate) fn histogram(&mut self, name: impl Into<Text>, help: impl Into<Text>, value: impl Fn(&T) -> &Histogram) {
        self.named(MetricKind::Histogram, name.into(), help, |row| Some(Value::Histogram(value(row).into())));
    }
}

pub(crate) fn communicator(snapshot: &Snapshot, index: usize) -> Cow<'_, Communicator> {
    snapshot.communicators.get(index).map_or_else(Cow::default, Cow::Borrowed)
}

pub(crate) fn short(function: &str) -> &str {
    function.strip_prefix("nccl").unwrap_or(function)
}

/// Merges operations whose labels are the same: sums their windows, and averages their bandwidths.
pub(crate) fn join<'s>(rows: impl Iterator<Item = Row<&'s Operation>>) -> Vec<Row<(Window, u64, Histogram)>> {
    let mut joined: BTreeMap<Vec<Label>, (Window, u64, Histogram)> = BTreeMap::new();
    for (labels, operation) in rows {
        let (window, bytes, duration) = joined.entry(labels).or_default();
        let Window { count, bytes: window_bytes, duration_ns, algbw, busbw } = operation.window;
        window.algbw = mean((window.algbw, window.count), (algbw, count));
        window.busbw = mean((window.busbw, window.count), (busbw, count));
        window.count += count;
        window.bytes += window_bytes;
        window.duration_ns += duration_ns;
        *bytes += operation.bytes;
        add(duration, &operation.duration);
    }
    joined.into_iter().collect()
}

fn mean(one: (Option<f64>, u64), other: (Option<f64>, u64)) -> Option<f64> {
    let (Some(a), Some(b)) = (one.0, other.0) else { return one.0.or(other.0) };
    let of = real(one.1) + real(other.1);
    Some(if of > 0.0 { (a * real(one.1) + b * real(other.1)) / of } else { a })
}

/// Adds a histogram to an empty one or to one with the same bounds.
fn add(to: &mut Histogram, other: &Histogram) {
    if to.counts.is_empty() {
        to.clone_from(other);
        return;
    }
    to.counts.iter_mut().zip(&other.counts).for_each(|(to, count)| *to += count);
    to.sum_ns += other.sum_ns;
}

/// Families with the names, labels and units of NVIDIA's inspector plugin, for the last interval.
pub(crate) fn inspector_families(snapshot: &Snapshot) -> Vec<Family> {
    let mut out = Vec::new();
    for (is_point_to_point, bandwidth, time) in [
        (false, "nccl_bus_bandwidth_gbs", "nccl_collective_exec_time_microseconds"),
        (true, "nccl_p2p_bus_bandwidth_gbs", "nccl_p2p_exec_time_microseconds"),
    ] {
        let rows = snapshot.operations.iter().filter(|operation| operation.is_point_to_point == is_point_to_point);
        let rows: Vec<Row<_>> = join(rows.map(|operation| (labels(snapshot, operation), operation)));
        let mut table = Table { families: &mut out, rows: &rows };
        table.gauge(bandwidth, "Bus bandwidth in GB/s", |(window, ..)| window.busbw.map(|busbw| busbw / 1e9));
        table.gauge(time, "Execution time in microseconds", |(window, ..)| {
            (window.count > 0).then_some(real(window.duration_ns) / real(window.count) / 1e3)
        });
    }
    out
}

fn labels(snapshot: &Snapshot, operation: &Operation) -> Vec<Label> {
    let known = |text: &str| if text.is_empty() { "unknown".to_owned() } else { text.to_owned() };
    let communicator = communicator(snapshot, operation.communicator);
    let nodes = communicator.nodes.or((communicator.here == communicator.ranks).then_some(1));
    let mut labels = vec![
        ("version", concat!("nccl-otf2-", env!("CARGO_PKG_VERSION")).to_owned()),
        ("cluster", known(&snapshot.job.cluster)),
        ("slurm_job_id", known(&snapshot.job.job)),
        ("node", known(&snapshot.job.host)),
        // Dashboards only take the mean over this label, which tells ranks of a node apart: the rank does so, too.
        ("gpu", format!("rank{}", operation.rank)),
        ("comm_name", known(&communicator.name)),
        ("n_nodes", nodes.map_or_else(|| known(""), |nodes| nodes.to_string())),
        ("nranks", communicator.ranks.to_string()),
    ];
    let function = short(&operation.function).to_owned();
    labels.push((if operation.is_point_to_point { "p2p_operation" } else { "collective" }, function));
    labels.push(("message_size", message_size(operation.size_class)));
    if !operation.is_point_to_point {
        labels.push(("algo_proto", known(&operation.algorithm)));
    }
    labels
}

/// The inspector's name for a class of sizes, such as `4-5MB`: that of the smallest size in our class, here 4 MiB.
fn message_size(bytes: u64) -> String {
    const UNITS: [&str; 5] = ["B", "KB", "MB", "GB", "TB"];
    let mut units = UNITS.iter();
    let (mut value, mut unit) = (bytes, units.next());
    while value >= 1024
        && let Some(next) = units.next()
    {
        value /= 1024;
        unit = Some(next);
    }
    let unit = unit.copied().unwrap_or_default();
    if bytes == 0 { "0B".to_owned() } else { format!("{value}-{}{unit}", value + 1) }
}

#[cfg(test)]
mod tests {
    use super::message_size;

    #[test]
    fn sizes_are_written_as_the_inspector_writes_them() {
        let sizes = [0, 1, 512, 1024, 4 << 20, 512 << 20, 1 << 30, 2 << 50].map(message_size);
        assert_eq!(sizes, ["0B", "1-2B", "512-513B", "1-2KB", "4-5MB", "512-513MB", "1-2GB", "2048-2049TB"]);
    }
}
