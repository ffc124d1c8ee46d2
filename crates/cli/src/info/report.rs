//! The report of `info`: tables for people and programs, and the JSON report. The tables are of processes, durations of
//! operations, communicators and messages.

use std::collections::BTreeMap;

use crate::archives;
use analysis::units::{count, plural};
use analysis::{Clock, Completeness, Instance, Instances, Step, Trace};
use nccl_events::archive::Timing;
use nccl_events::schema::Statements;
use nccl_events::sort::Gather;
use otf2::{CommRef, Event, EventKind, LocationGroupRef, LocationRef, RegionRef};
use schemars::JsonSchema;
use serde::Serialize;

#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Tables {
    pub(crate) events: u64,
    pub(crate) hosts: Vec<Host>,
    pub(crate) processes: Vec<Process>,
    pub(crate) communicators: Vec<CommunicatorRow>,
    pub(crate) operations: Vec<OperationRow>,
    pub(crate) messages: Vec<Messages>,
    pub(crate) completeness: Completeness,
}

#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Host {
    name: String,
    processes: u64,
}

#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Process {
    pub(crate) name: String,
    pub(crate) host: String,
    pub(crate) gpus: Vec<String>,
    /// Including the locations of its GPUs.
    pub(crate) locations: u64,
    pub(crate) events: u64,
}

pub(crate) fn places(trace: &Trace, events: &BTreeMap<LocationRef, u64>) -> (Vec<Host>, Vec<Process>) {
    let mut hosts: BTreeMap<String, u64> = BTreeMap::new();
    let mut processes: BTreeMap<LocationGroupRef, Process> = BTreeMap::new();
    for reference in trace.processes() {
        let host = trace.host(reference).and_then(|node| trace.node_name(node)).unwrap_or_default().to_owned();
        *hosts.entry(host.clone()).or_insert(0) += 1;
        let name = trace.group_name(reference).to_owned();
        processes.insert(reference, Process { name, host, gpus: Vec::new(), locations: 0, events: 0 });
    }
    for (reference, group) in &trace.definitions.location_groups {
        if let Some(process) = processes.get_mut(&group.creator) {
            process.gpus.push(trace.group_name(*reference).to_owned());
        }
    }
    for (reference, location) in &trace.definitions.locations {
        if let Some(process) = processes.get_mut(&trace.process(location.group)) {
            process.locations += 1;
            process.events += events.get(reference).copied().unwrap_or(0);
        }
    }
    let hosts = hosts.into_iter().map(|(name, processes)| Host { name, processes });
    (hosts.collect(), processes.into_values().collect())
}

/// What `info --json` prints.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Report<'a> {
    format: u32,
    anchor: String,
    creator: &'a str,
    nccl_versions: Vec<String>,
    profiler_tables: Vec<String>,
    plugin_versions: Vec<String>,
    event_sets: Vec<String>,
    /// The steps that were to be recorded (`NCCL_OTF2_STEPS`).
    steps: Vec<String>,
    commands: Vec<String>,
    job: Vec<String>,
    /// Recordings of other jobs in the same directory.
    other_jobs: Vec<String>,
    /// The beginning of the recording, in ns since 1970.
    start_ns: Option<u64>,
    /// From the first event to the last.
    duration_ns: u64,
    locations: usize,
    /// What the NCCL releases of the job do not report.
    unreported: Vec<String>,
    gpus: Gpus,
    /// The archive's properties about clocks.
    clock: BTreeMap<String, &'a str>,
    recording: Recording,
    #[serde(flatten)]
    tables: &'a Tables,
}

/// How GPU work was recorded.
#[derive(Serialize, JsonSchema)]
struct Gpus {
    backends: Vec<String>,
    /// What was decided, and what went wrong.
    notices: Vec<String>,
    /// Numbers other than 0, named as in `docs/REFERENCE.md` §7 but in lower case.
    numbers: BTreeMap<String, u64>,
    clocks: Vec<String>,
}

#[derive(Serialize, JsonSchema)]
struct Recording {
    /// Flight recordings.
    flight: Option<Flight>,
    /// When recording was switched off and on, where and by what.
    switches: Vec<String>,
    /// Transfers for ranks of other processes.
    pxn: Option<Pxn>,
}

#[derive(Serialize, JsonSchema)]
struct Flight {
    processes: u64,
    complete_from_ns: u64,
    lines: Vec<String>,
}

#[derive(Serialize, JsonSchema)]
struct Pxn {
    transfers: u64,
    counted: u64,
    unresolved: u64,
    lines: Vec<String>,
}

impl<'a> Report<'a> {
    pub(crate) fn new(trace: &'a Trace, tables: &'a Tables) -> Self {
        let (archive, statements) = (&trace.archive, &trace.statements);
        let clock = archive.properties().iter().filter_map(|(name, value)| {
            let name = name.strip_prefix("NCCL::")?;
            let is_clock = name.starts_with("CLOCK::") || name.starts_with("GPU_CLOCK::");
            is_clock.then(|| (name.replace("::", ".").to_ascii_lowercase(), value.as_str()))
        });
        Self {
            format: 1,
            anchor: trace.anchor.display().to_string(),
            creator: archive.creator(),
            nccl_versions: statements.version.shown(),
            profiler_tables: statements.table.shown(),
            plugin_versions: statements.plugin_version.shown(),
            event_sets: statements.events.shown(),
            steps: statements.steps.shown(),
            commands: statements.command.shown(),
            job: statements.job.shown(),
            other_jobs: archives::other_jobs_beside(&trace.anchor),
            start_ns: trace.start_ns(),
            duration_ns: Clock::from_trace(trace).length_ns(trace),
            locations: trace.definitions.locations.len(),
            unreported: statements.unreported.shown(),
            gpus: gpus(statements),
            clock: clock.gather(),
            recording: recording(statements),
            tables,
        }
    }
}

fn gpus(statements: &Statements) -> Gpus {
    let others = [
        ("devices", statements.gpu_devices.get()),
        ("clocks.residual_ns", statements.gpu_clocks_residual_ns.get()),
        ("clocks.uncertainty_ns", statements.gpu_clocks_uncertainty_ns.get()),
    ];
    let numbers = statements.gpu_counts.named().chain(others).filter(|(_, number)| *number > 0);
    Gpus {
        backends: statements.gpu_backend.shown(),
        notices: statements.gpu_notices.shown(),
        numbers: numbers.map(|(name, number)| (name.to_ascii_lowercase(), number)).gather(),
        clocks: statements.gpu_clocks_list.shown(),
    }
}

fn recording(statements: &Statements) -> Recording {
    Recording {
        flight: statements.flight_processes.0.map(|processes| Flight {
            processes,
            complete_from_ns: statements.flight_complete_from.get(),
            lines: statements.flight_list.shown(),
        }),
        switches: statements.measurement_list.shown(),
        pxn: statements.pxn_transfers.0.map(|transfers| Pxn {
            transfers,
            counted: statements.pxn_counted.get(),
            unresolved: statements.pxn_unresolved.get(),
            lines: statements.pxn_list.shown(),
        }),
    }
}

/// The durations of operations, by function and size.
pub(crate) struct Operations<'a> {
    trace: &'a Trace,
    instances: Instances<'a>,
    clock: Clock,
    classes: BTreeMap<(RegionRef, u32), Class>,
}

/// The operations of one function whose sizes are between one power of two and the next.
#[derive(Debug, Default)]
struct Class {
    bytes: Option<(u64, u64)>,
    count: u64,
    unfinished: u64,
    timing: BTreeMap<Timing, u64>,
    durations_ns: Vec<u64>,
    algorithm_bandwidths: Vec<f64>,
    bus_bandwidths: Vec<f64>,
}

impl<'a> Operations<'a> {
    pub(crate) fn new(trace: &'a Trace) -> Self {
        let (clock, instances) = (Clock::from_trace(trace), Instances::new(trace));
        Self { trace, clock, instances, classes: BTreeMap::new() }
    }

    pub(crate) fn next_location(&mut self) {
        self.instances.next_location();
    }

    pub(crate) fn event(&mut self, event: &Event) {
        if let Step::Left(instance) | Step::Recorded(instance) = self.instances.step(event)
            // Calls and network transfers are regions, too, but only operations have `nccl.timing`.
            && let Some(timing) = instance.fields.timing
        {
            self.operation(&instance, timing);
        }
    }

    fn operation(&mut self, operation: &Instance<'a>, timing: Timing) {
        let fields = &operation.fields;
        let bytes = fields.bytes.unwrap_or(0);
        let class = self.classes.entry((operation.region, u64::BITS - bytes.leading_zeros())).or_default();
        class.count += 1;
        *class.timing.entry(timing).or_insert(0) += 1;
        let (least, most) = class.bytes.unwrap_or((bytes, bytes));
        class.bytes = Some((least.min(bytes), most.max(bytes)));
        if fields.is_unfinished == Some(true) {
            class.unfinished += 1;
        } else {
            class.durations_ns.push(self.clock.ns(operation.end).saturating_sub(self.clock.ns(operation.start)));
            class.algorithm_bandwidths.extend(fields.algorithm_bandwidth);
            class.bus_bandwidths.extend(fields.bus_bandwidth);
        }
    }

    pub(crate) fn finish(self) -> Vec<OperationRow> {
        let classes = self.classes.into_iter();
        let mut rows: Vec<OperationRow> =
            classes.map(|((region, _), class)| class.row(self.trace.function_name(region))).collect();
        nccl_events::sort::sort_by(&mut rows, |a, b| (&a.function, a.bytes_min).cmp(&(&b.function, b.bytes_min)));
        rows
    }
}

/// One function and size class.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub(crate) struct OperationRow {
    pub(crate) function: String,
    /// Of the size class, as `bytes_max`.
    pub(crate) bytes_min: u64,
    pub(crate) bytes_max: u64,
    /// Counted on every rank that ran it: an all-reduce of 8 ranks counts 8 times.
    pub(crate) count: u64,
    pub(crate) unfinished: u64,
    /// Count by kind of timing.
    pub(crate) timing: BTreeMap<String, u64>,
    /// Of those that ended; null if there is none.
    pub(crate) duration_ns: Option<Durations>,
    /// In bytes per second, as `busbw`; null if there is none.
    pub(crate) algbw: Option<Bandwidths>,
    pub(crate) busbw: Option<Bandwidths>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub(crate) struct Durations {
    pub(crate) min: u64,
    pub(crate) median: u64,
    pub(crate) max: u64,
    pub(crate) total: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize, JsonSchema)]
pub(crate) struct Bandwidths {
    /// Operations with a bandwidth: those that share a kernel or whose timing allows none have no bandwidth.
    pub(crate) count: u64,
    pub(crate) median: f64,
    pub(crate) max: f64,
}

impl Class {
    fn row(self, function: String) -> OperationRow {
        let (bytes_min, bytes_max) = self.bytes.unwrap_or_default();
        OperationRow {
            function,
            bytes_min,
            bytes_max,
            count: self.count,
            unfinished: self.unfinished,
            timing: self.timing.into_iter().map(|(by, number)| (by.name().to_owned(), number)).gather(),
            duration_ns: durations(self.durations_ns),
            algbw: bandwidths(self.algorithm_bandwidths),
            busbw: bandwidths(self.bus_bandwidths),
        }
    }
}

fn durations(mut all: Vec<u64>) -> Option<Durations> {
    all.sort_unstable();
    let [low, high] = middle(&all)?;
    Some(Durations { min: *all.first()?, median: low.midpoint(high), max: *all.last()?, total: all.iter().sum() })
}

fn bandwidths(mut all: Vec<f64>) -> Option<Bandwidths> {
    all.sort_unstable_by(f64::total_cmp);
    let [low, high] = middle(&all)?;
    Some(Bandwidths { count: all.len() as u64, median: low.midpoint(high), max: *all.last()? })
}

fn middle<T: Copy>(all: &[T]) -> Option<[T; 2]> {
    let last = all.len().checked_sub(1)?;
    Some([*all.get(last / 2)?, *all.get(all.len() / 2)?])
}

/// Communicators, their collectives, and their messages.
pub(crate) struct Communicators {
    rows: BTreeMap<CommRef, CommunicatorRow>,
    messages: BTreeMap<(CommRef, u32, u32), (u64, u64)>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub(crate) struct CommunicatorRow {
    pub(crate) name: String,
    /// NCCL's, as its log has it; empty if unknown.
    pub(crate) id: String,
    pub(crate) ranks: u64,
    pub(crate) ranks_recorded: u64,
    /// Records of all ranks, by OTF2's operation.
    pub(crate) collectives: BTreeMap<String, u64>,
    pub(crate) sends: u64,
    pub(crate) receives: u64,
    pub(crate) bytes_sent: u64,
    pub(crate) bytes_received: u64,
}

/// One row for the communicators of one shape, with their sums.
pub(crate) fn by_shape(rows: &[CommunicatorRow]) -> Vec<CommunicatorRow> {
    let all = rows.iter().map(|row| (row.name.as_str(), row.ranks, row.collectives.keys().cloned().gather()));
    let shapes = analysis::shapes(&all.collect::<Vec<_>>());
    let mut found: Vec<CommunicatorRow> = Vec::new();
    for (row, shape) in rows.iter().zip(shapes) {
        let is_alone = shape == row.name;
        let Some(sum) = found.iter_mut().find(|sum| !is_alone && sum.name == shape) else {
            let id = if is_alone { row.id.clone() } else { String::new() };
            found.push(CommunicatorRow { name: shape, id, ..row.clone() });
            continue;
        };
        sum.ranks_recorded = sum.ranks_recorded.min(row.ranks_recorded);
        row.collectives.iter().for_each(|(name, count)| *sum.collectives.entry(name.clone()).or_default() += count);
        sum.sends += row.sends;
        sum.receives += row.receives;
        sum.bytes_sent += row.bytes_sent;
        sum.bytes_received += row.bytes_received;
    }
    found
}

/// The messages from one rank to another, as recorded by the sender.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub(crate) struct Messages {
    pub(crate) communicator: String,
    pub(crate) from: u32,
    pub(crate) to: u32,
    pub(crate) count: u64,
    pub(crate) bytes: u64,
}

impl Communicators {
    pub(crate) fn from_trace(trace: &Trace) -> Self {
        let mut found = Self { rows: BTreeMap::new(), messages: BTreeMap::new() };
        for reference in trace.definitions.comms.keys().chain(trace.definitions.inter_comms.keys()) {
            let groups = trace.groups(*reference).into_iter().flatten().flatten();
            let members: Vec<LocationRef> = trace.members(*reference).iter().chain(groups).copied().collect();
            let row = CommunicatorRow {
                name: trace.comm_name(*reference),
                id: trace.comm_id_text(*reference),
                ranks: members.len() as u64,
                ranks_recorded: members.iter().filter(|member| trace.has_events(**member)).count() as u64,
                ..CommunicatorRow::default()
            };
            found.rows.insert(*reference, row);
        }
        found
    }

    pub(crate) fn event(&mut self, trace: &Trace, location: LocationRef, event: &Event) {
        match &event.kind {
            EventKind::MpiCollectiveEnd(collective) | EventKind::NonBlockingCollectiveComplete { collective, .. } => {
                if let Some(row) = self.rows.get_mut(&collective.comm) {
                    *row.collectives.entry(format!("{:?}", collective.op)).or_insert(0) += 1;
                }
            }
            EventKind::MpiIsend { message, .. } | EventKind::MpiSend(message) => {
                if let Some(rank) = trace.rank(location, message.comm) {
                    let (count, bytes) = self.messages.entry((message.comm, rank, message.peer)).or_default();
                    *count += 1;
                    *bytes += message.bytes;
                }
                if let Some(row) = self.rows.get_mut(&message.comm) {
                    row.sends += 1;
                    row.bytes_sent += message.bytes;
                }
            }
            EventKind::MpiIrecv { message, .. } | EventKind::MpiRecv(message) => {
                if let Some(row) = self.rows.get_mut(&message.comm) {
                    row.receives += 1;
                    row.bytes_received += message.bytes;
                }
            }
            _ => {}
        }
    }

    pub(crate) fn finish(self) -> (Vec<CommunicatorRow>, Vec<Messages>) {
        let messages = self.messages.into_iter().map(|((comm, from, to), (count, bytes))| {
            let communicator = self.rows.get(&comm).map(|row| row.name.clone()).unwrap_or_default();
            Messages { communicator, from, to, count, bytes }
        });
        let messages = messages.collect();
        (self.rows.into_values().collect(), messages)
    }
}

/// Describes the GPUs in one line for people; `None` if no GPU could be queried.
pub(crate) fn line(statements: &Statements) -> Option<String> {
    let (backends, counts) = (statements.gpu_backend.shown(), &statements.gpu_counts);
    if backends.is_empty() && counts.named().all(|(_, number)| number == 0) && statements.gpu_devices.get() == 0 {
        return None;
    }
    let backends = if backends.is_empty() { "not stated".to_owned() } else { backends.join(" and ") };
    let mut facts = vec![backends];
    let mut fact = |some: u64, text: String| facts.extend((some > 0).then_some(text));
    let devices = statements.gpu_devices.get();
    fact(devices, plural(devices, "device", "devices"));
    let ran = counts.launches.saturating_sub(counts.captured);
    // A flight recording keeps only the last times, and a killed process's counts are up to a second old.
    let timed = if statements.flight_processes.get() > 0 || counts.launches_timed > ran {
        plural(counts.launches_timed, "launch", "launches")
    } else {
        format!("{} of {}", count(counts.launches_timed), plural(ran, "launch", "launches"))
    };
    fact(counts.launches, format!("{timed} timed"));
    for (number, one, many) in [
        (counts.kernels_joined + counts.kernels_of_graphs, "kernel of NCCL's", "kernels of NCCL's"),
        (counts.kernels_of_graphs_unknown, "of a graph, operation unknown", "of graphs, operation unknown"),
        (counts.kernels_without_launch, "without its launch", "without their launches"),
        (counts.kernels_other, "other kernel", "other kernels"),
        (counts.copies_shown, "copy", "copies"),
        (counts.not_placed, "without a place in time", "without a place in time"),
    ] {
        fact(number, plural(number, one, many));
    }
    Some(facts.join(", "))
}

#[cfg(test)]
mod tests {
    use nccl_events::schema::{GpuCounts, Lines, Sum};

    use super::*;

    #[test]
    fn the_line_says_what_is_missing() {
        assert_eq!(line(&Statements::default()), None);
        let mut statements = Statements {
            gpu_backend: Lines::from_entries(["cupti"]),
            gpu_devices: Sum(Some(2)),
            gpu_counts: GpuCounts {
                launches: 10,
                captured: 3,
                kernels_joined: 6,
                kernels_of_graphs_unknown: 4,
                ..GpuCounts::default()
            },
            ..Statements::default()
        };
        for (launches_timed, flights, timed) in [(6, 0, "6 of 7"), (8, 0, "8"), (6, 1, "6")] {
            statements.gpu_counts.launches_timed = launches_timed;
            statements.flight_processes = Sum(Some(flights));
            let rest = "launches timed, 6 kernels of NCCL's, 4 of graphs, operation unknown";
            assert_eq!(line(&statements), Some(format!("cupti, 2 devices, {timed} {rest}")));
        }
    }
}
