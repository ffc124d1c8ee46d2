//! Our names: all known values, in base units. docs/REFERENCE.md lists them, and a test compares.

use std::borrow::Cow;

use crate::metric::{Family, Label};
use crate::snapshot::{Fit, Operation, ProcessState, Rank, Snapshot, real, seconds};

use super::rows::{Row, Table, communicator};

pub(super) fn families(snapshot: &Snapshot) -> Vec<Family> {
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
        "Length of the last interval, which gauges of bandwidth and latency are of",
        |()| seconds(*interval_ns),
    );
    table.gauge(
        "nccl_folded_series",
        "Series that were folded into those labelled `other`, to bound their number",
        |()| real(*folded),
    );
}

fn processes(rows: &Rows<'_>, out: &mut Vec<Family>) {
    use ProcessState::{Finished, Gone, Running, Stopped, Unknown};
    let processes = &rows.snapshot.processes;
    let states =
        [("running", Running), ("stopped", Stopped), ("finished", Finished), ("gone", Gone), ("unknown", Unknown)];
    let states = states.map(|(name, state)| rows.row([("state", name.to_owned())], state));
    let mut table = Table { families: out, rows: &states };
    table.gauge("nccl_processes", "Processes of this node that are followed, by what they do", |state| {
        real(processes.iter().filter(|it| it.state == *state).count() as u64)
    });
    let one = [rows.row([], ())];
    let mut table = Table { families: out, rows: &one };
    table.gauge(
        "nccl_processes_missed",
        "Processes that had ended, and of which nothing could be read: their journals are gone",
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
    let all: Vec<Row<_>> = processes.iter().map(|it| rows.row([("process", it.part.clone())], it)).collect();
    let mut table = Table { families: out, rows: &all };
    table.counter("nccl_records", "Records that were read from the process's journal", |it| it.records);
    table.counter("nccl_lost_events", "Events that the process could not record", |it| it.lost_events);
    table.counter("nccl_damaged_places", "Places in journals where records could not be understood", |it| it.damaged);
    table.counter("nccl_damaged_bytes", "Bytes of journals that could not be understood", |it| it.damaged_bytes);
    table.counter(
        "nccl_late_events",
        "Events that came after their operation was taken to be over, or whose start is unknown",
        |it| it.late_events,
    );
    table.counter("nccl_discarded_bytes", "Bytes of journals that were removed before they were read", |it| {
        it.discarded_bytes
    });
    table.gauge("nccl_follower_behind_bytes", "Recorded bytes that were not read yet", |it| real(it.behind_bytes));
    table.gauge(
        "nccl_follower_behind_seconds",
        "Age of the oldest record that was not read yet; 0 where all is read",
        |it| seconds(it.behind_ns),
    );
}

fn communicators(rows: &Rows<'_>, out: &mut Vec<Family>) {
    let all = rows.snapshot.communicators.iter().enumerate();
    let all: Vec<Row<_>> = all.map(|(index, it)| rows.row([rows.communicator(index)], it)).collect();
    let mut table = Table { families: out, rows: &all };
    table.gauge("nccl_communicator_ranks", "Size of the communicator", |it| f64::from(it.ranks));
    table.gauge("nccl_communicator_local_ranks", "Ranks of the communicator on this node", |it| f64::from(it.here));
    table.gauge("nccl_communicator_nodes", "Nodes that the communicator is on, where NCCL says so", |it| {
        it.nodes.map(f64::from)
    });
    let skews = &rows.snapshot.skews;
    let skews: Vec<Row<_>> = skews.iter().map(|it| rows.row([rows.communicator(it.communicator)], it)).collect();
    let mut table = Table { families: out, rows: &skews };
    table.histogram(
        "nccl_collective_skew_seconds",
        "From the first rank's arrival at a collective to the last one's, where all ranks are on this node",
        |it| &it.skew,
    );
}

fn ranks(rows: &Rows<'_>, out: &mut Vec<Family>) {
    let Snapshot { at_ns, processes, ranks, proxies, .. } = rows.snapshot;
    let age = |since_ns: u64| seconds(at_ns.saturating_sub(since_ns));
    // After the end of a job or communicator, a rising age would look like a hang.
    let is_ongoing =
        |it: &Rank| !it.is_finalized && processes.get(it.process).is_some_and(|it| it.state != ProcessState::Finished);
    let info: Vec<Row<_>> = ranks
        .iter()
        .filter_map(|it| {
            let process = processes.get(it.process)?;
            let labels = [("process", process.part.clone()), ("pid", process.pid.to_string())];
            Some(rows.rank(it.communicator, it.rank, labels, ()))
        })
        .collect();
    let mut table = Table { families: out, rows: &info };
    table.gauge("nccl_rank_info", "1; the process that has the rank", |()| 1.0);
    let all: Vec<Row<_>> = ranks.iter().map(|it| rows.rank(it.communicator, it.rank, [], it)).collect();
    let mut table = Table { families: out, rows: &all };
    table.gauge(
        "nccl_rank_last_event_age_seconds",
        "Since the rank last recorded an event of the communicator; not after its end, or that of the process",
        |it| it.last_event_ns.filter(|_| is_ongoing(it)).map(age),
    );
    table.gauge("nccl_rank_open_operations", "Operations of the rank that have not ended", |it| real(it.open));
    let oldest = ranks.iter().filter(|it| is_ongoing(it)).filter_map(|it| {
        let (function, since_ns) = it.oldest.as_ref()?;
        Some(rows.rank(it.communicator, it.rank, [("function", function.clone())], *since_ns))
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
        |it| it.last,
    );
    table.seconds(
        "nccl_rank_caused_waiting_seconds",
        "How long the other ranks waited for this one, summed over them",
        |it| it.caused_waiting_ns,
    );
    let waits = proxies.iter().flat_map(|it| {
        let waits = [("gpu", it.gpu_wait_ns), ("peer", it.peer_wait_ns), ("network", it.network_ns)];
        waits.map(|(name, ns)| rows.rank(it.communicator, it.rank, [("waits_for", name.to_owned())], ns))
    });
    let waits: Vec<Row<_>> = waits.collect();
    let mut table = Table { families: out, rows: &waits };
    table.seconds("nccl_proxy_wait_seconds", "What steps of the rank's proxy waited for, summed over them", |ns| *ns);
}

fn operations(rows: &Rows<'_>, out: &mut Vec<Family>) {
    let row = |it: &'_ Operation| {
        let peer = it.peer.map(|peer| ("peer", peer.to_string()));
        let class = [
            ("size", it.size_class.to_string()),
            ("timing", it.timing.to_owned()),
            ("algorithm", it.algorithm.clone()),
        ];
        [("function", it.function.clone())].into_iter().chain(peer).chain(class).collect::<Vec<Label>>()
    };
    for (prefix, what, is_point_to_point) in [("nccl", "Collectives", false), ("nccl_p2p", "Sends and receives", true)]
    {
        let all = rows.snapshot.operations.iter().filter(|it| it.is_point_to_point == is_point_to_point);
        let all: Vec<Row<_>> = all.map(|it| rows.rank(it.communicator, it.rank, row(it), it)).collect();
        let name = |rest: &str| -> Cow<'static, str> { format!("{prefix}_{rest}").into() };
        let help = |rest: &str| -> Cow<'static, str> { format!("{what}{rest}").into() };
        let mut table = Table { families: out, rows: &all };
        table.counter(name("operations"), help(" that ended"), |it| it.count);
        table.counter(name("operation_bytes"), help(": their bytes, as `stats` counts them"), |it| it.bytes);
        table.histogram(
            name("operation_duration_seconds"),
            help(": how long they took, measured as `timing` says"),
            |it| &it.duration,
        );
        table.gauge(
            name("operation_algbw_bytes_per_second"),
            help(": median algorithm bandwidth of the interval"),
            |it| it.window.algbw,
        );
        table.gauge(name("operation_busbw_bytes_per_second"), help(": median bus bandwidth of the interval"), |it| {
            it.window.busbw
        });
    }
}

fn pairs(rows: &Rows<'_>, out: &mut Vec<Family>) {
    let pairs = &rows.snapshot.pairs;
    let labels =
        |index, from: u32, to: u32| [rows.communicator(index), ("from", from.to_string()), ("to", to.to_string())];
    let all: Vec<Row<_>> = pairs.iter().map(|it| rows.row(labels(it.communicator, it.from, it.to), it)).collect();
    let mut table = Table { families: out, rows: &all };
    table.counter("nccl_pair_steps", "Network transfers (steps) from one rank to another, seen at the sender", |it| {
        it.steps
    });
    table.counter("nccl_pair_bytes", "Bytes of network transfers from one rank to another", |it| it.bytes);
    table.gauge(
        "nccl_pair_throughput_bytes_per_second",
        "Bytes of the interval over the time with at least one transfer under way",
        |it| it.rate,
    );
    let fits = pairs.iter().flat_map(|it| {
        [("all", it.all), ("least", it.least)].into_iter().filter_map(|(name, fit)| {
            let labels = labels(it.communicator, it.from, it.to).into_iter();
            Some(rows.row(labels.chain([("fit", name.to_owned())]), fit?))
        })
    });
    let fits: Vec<Row<Fit>> = fits.collect();
    let mut table = Table { families: out, rows: &fits };
    table.gauge(
        "nccl_pair_latency_seconds",
        "Regression of the interval's durations on bytes, over all steps or the least for each size: duration at 0 \
         bytes; absent, as the rate, where R² is below 0.5 or there are fewer than three points; also absent where negative",
        |it| it.latency_ns.map(|ns| ns / 1e9),
    );
    table.gauge("nccl_pair_rate_bytes_per_second", "The same regression: bytes over additional duration", |it| it.rate);
    table.gauge("nccl_pair_r_squared", "The same regression: how much of the variance it explains", |it| it.r2);
}

fn channels(rows: &Rows<'_>, out: &mut Vec<Family>) {
    let all = rows.snapshot.channels.iter().map(|it| {
        let direction = if it.is_send { "send" } else { "receive" };
        let labels =
            [("channel", it.channel.to_string()), ("peer", it.peer.to_string()), ("direction", direction.to_owned())];
        rows.rank(it.communicator, it.rank, labels, it)
    });
    let all: Vec<Row<_>> = all.collect();
    let mut table = Table { families: out, rows: &all };
    table.counter("nccl_channel_bytes", "Bytes of network transfers, by channel and connection", |it| it.bytes);
    table.histogram(
        "nccl_channel_step_duration_seconds",
        "How long network transfers took, by channel and connection",
        |it| &it.duration,
    );
}
