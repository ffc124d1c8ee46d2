//! What is derived from the tables of an archive.
//!
//! ```text
//!  tables ─► collectives the same collective on all its ranks: arrivals, and who was last; classes by function,
//!         │              communicator and size; kernels of NCCL's beside others
//!         ├► messages    sends with their receives, and which end waited for the other
//!         ├► waiting     the time of ranks, split into waiting and transfer
//!         ├► lateness    by rank: how often last, its own times, trend and change
//!         ├► network     what each connection sent, read process after process; links, by pair and channel: latency,
//!         │              rate, slowdown against the others
//!         └► program     by ranges of the program and by its steps; calls that create or destroy communicators
//!  all of these ─► anomalies ─► causes ─► verdict
//!  two runs ─► compare, by difference: samples, intervals, sentences
//!  numeric: intervals, regressions and quantiles, for all of these
//! ```

use std::collections::{BTreeMap, BTreeSet};

use crate::lateness::late::Lateness as LateRanks;
use crate::lateness::recorded;
use crate::lateness::recorded::{LateOperation, Threads};
use crate::links::connections::ConnectionTimes;
use crate::links::slow::Places;
use crate::read::archive::Trace;
use crate::read::{NONE, Network, Tables};
use crate::results;
use crate::results::{Communicator, Completeness, OperationClass, Report, Run};
use crate::statistics::anomalies::Inputs;
use crate::statistics::collectives::Classes;
use crate::statistics::lateness::Lateness;
use crate::statistics::messages::{Messages, Pairing, WaitEnd};
use crate::statistics::network::{KnownTraffic, Links, Traffic};
use crate::statistics::program::Steps;
use crate::statistics::waiting::Waiting;
use crate::units::real;
use nccl_events::Progress;
use nccl_events::collective::Function;
use nccl_events::ids::{index as large, index_u32 as small};

mod anomalies;
mod causes;
pub(crate) mod collectives;
mod compare;
mod difference;
mod lateness;
mod lines;
pub(crate) mod messages;
pub(crate) mod network;
pub(crate) mod numeric;
mod program;
mod shapes;
mod verdict;
mod waiting;

pub use crate::statistics::collectives::{Arrival, Arrivals, Filter, Incomparable, Instance, Instances, Split};
pub use crate::statistics::compare::{Placement, RunSamples, compare, is_slower_by};
pub(crate) use crate::statistics::lines::{late_line, reason_line};
pub use crate::statistics::network::SentStep;
pub use crate::statistics::numeric::{Regression, length, median, union};
pub use crate::statistics::program::ProgramStep;
pub use crate::statistics::shapes::shapes;

#[derive(Clone, Debug)]
pub struct Analysis {
    pub tables: Tables,
    pub instances: Instances,
    pub pairing: Pairing,
    /// For each late rank: its operations that come latest.
    pub late: BTreeMap<u32, Vec<LateOperation>>,
    pub(crate) connections: Vec<ConnectionTimes>,
    pub report: Report,
}

pub fn analyse(trace: &Trace, filter: &Filter, progress: &dyn Progress) -> otf2::Result<Analysis> {
    Ok(analyse_and(trace, filter, progress, |_| || ())?.0)
}

/// Like [`analyse`], and passes the steps of the network to a second consumer, which `also` makes, in the same pass.
pub fn analyse_and<N: Network, F: Fn() -> N + Sync>(
    trace: &Trace,
    filter: &Filter,
    progress: &dyn Progress,
    also: impl FnOnce(&Tables) -> F,
) -> otf2::Result<(Analysis, N)> {
    let mut tables = Tables::read(trace, progress)?;
    program::add(&mut tables, trace, progress)?;
    let steps = Steps::find(trace, &tables, filter);
    let instances = Instances::new(trace, &tables, filter);
    let mut classes = Classes::new(trace, &tables, filter);
    let messages = Messages::new(trace, &tables, filter);
    let waiting = Waiting::new(trace, &tables, filter, &instances, &messages, &classes, &steps);
    let pairing = messages.into_pairing();
    let threads = Threads::read(trace, &tables)?;
    let (kernels, rows) = recorded::kernels(trace, &tables, filter, &instances, &pairing, &threads);
    let mut judged = LateRanks::new(&kernels, real(waiting.total.operations_ns));
    let most_operations = verdict::most_operations(trace, &tables, filter, &instances);
    if most_operations < verdict::LEAST {
        judged.accuse_nobody();
    }
    classes.add_instances((trace, &tables, filter), &instances, &waiting.classes);
    let length_ns = tables.clock.length_ns(trace).max(1);
    let Lateness { ranks, heat } = Lateness::new(trace, &tables, &instances, &waiting, &judged, length_ns);
    let outliers = anomalies::outliers(&tables, &instances, &classes, &waiting);
    let mut numbers: Vec<u32> = outliers.iter().map(|outlier| outlier.instance).collect();
    nccl_events::sort::sort(&mut numbers);
    let known = KnownTraffic { filter, instances: &instances, classes: &classes, outliers: &numbers };
    let also = also(&tables);
    let (mut traffic, also) = tables.network(trace, || (Traffic::new(known), also()), progress)?;
    let late = judged.late.ranks.iter().map(|late| late.rank).collect();
    let places = Places { tables: &tables, instances: &instances, ranks: &ranks, late };
    let links = Links::new(trace, &pairing, &places, &mut traffic);
    let inputs = Inputs {
        filter,
        trace,
        tables: &tables,
        instances: &instances,
        classes: &classes,
        waiting: &waiting,
        lateness: &judged,
        most_operations,
        links: &links,
        ranks: &ranks,
    };
    let anomalies = inputs.anomalies(&outliers, &traffic);
    let causes = inputs.causes(&anomalies);
    let late = recorded::late_operations(&kernels, &rows, &judged.late);
    let clocks = verdict::clocks(&trace.statements, &tables, &instances, &ranks);
    let mut report = Report {
        format: 1,
        run: Run { has_transfers: links.has_transfers, has_steps: links.has_steps, ..run(trace, &tables, &instances) },
        verdict: verdict::verdict(&inputs, &causes, &clocks, &trace.statements),
        budget: waiting.all(),
        warm_up: waiting.warm_up,
        causes,
        anomalies,
        communicators: communicators(trace, &tables, &classes.all),
        operations: classes.all,
        ranks,
        lateness: heat,
        topology: None,
        nics: Vec::new(),
        pairs: links.pairs,
        channels: links.channels,
        messages: sent(trace, &tables, filter, &waiting),
        phases: program::phases(trace, &tables, filter, &waiting.paths, &steps),
        steps: steps.report(trace, filter, &waiting.steps),
        communicator_calls: program::communicator_calls(trace, &tables, filter),
        overlap: collectives::overlaps(trace, &tables, filter),
        critical_path: None,
        clocks,
        completeness: Completeness::from_statements(&trace.statements),
        unreported: trace.statements.unreported.shown(),
    };
    // One number: what the cause says.
    for link in report.pairs.iter_mut().chain(&mut report.channels).filter(|link| link.lost_ns.is_some()) {
        let cause = report.causes.iter().find(|cause| !cause.is_stall && cause.link == Some(link.key));
        link.lost_ns = cause.map(|cause| cause.lost_ns).or(link.lost_ns);
    }
    report.show_names();
    Ok((Analysis { tables, instances, pairing, late, connections: links.connections, report }, also))
}

/// The steps of each rank of the job, the same that the report has; empty if the program has none. Reads the ranges of
/// threads, which `tables` do not keep.
pub fn program_steps(
    trace: &Trace,
    tables: &mut Tables,
    filter: &Filter,
    progress: &dyn Progress,
) -> otf2::Result<Vec<Vec<ProgramStep>>> {
    if trace.statements.counts.others.ranges_user == 0 {
        return Ok(Vec::new());
    }
    program::add(tables, trace, progress)?;
    let steps = Steps::find(trace, tables, filter);
    let instances = Instances::new(trace, tables, filter);
    let classes = Classes::new(trace, tables, filter);
    let messages = Messages::new(trace, tables, filter);
    let waiting = Waiting::new(trace, tables, filter, &instances, &messages, &classes, &steps);
    tables.remove_threads();
    let is_any = steps.report(trace, filter, &waiting.steps).is_some();
    Ok(if is_any { steps.of_ranks() } else { Vec::new() })
}

fn run(trace: &Trace, tables: &Tables, instances: &Instances) -> Run {
    let mut hosts: Vec<String> = Vec::new();
    for process in trace.processes() {
        let host = trace.host_name(process).unwrap_or_default();
        if !hosts.iter().any(|known| known == host) {
            hosts.push(host.to_owned());
        }
    }
    Run {
        anchor: trace.anchor.display().to_string(),
        nccl_versions: trace.statements.version.shown(),
        recorded: trace.statements.events.shown(),
        commands: trace.statements.command.shown(),
        start_ns: trace.start_ns(),
        duration_ns: tables.clock.length_ns(trace),
        hosts,
        processes: trace.processes().count() as u64,
        events: trace.events(),
        operations: tables.operations.len() as u64,
        instances: instances.all.len() as u64,
        comparable: instances.all.iter().filter(|instance| instance.is_comparable()).count() as u64,
        has_kernels: !tables.kernels.is_empty(),
        has_other_kernels: tables.kernels.is_nccl.iter().any(|is_nccl| !is_nccl),
        has_transfers: false,
        has_steps: false,
    }
}

fn communicators(trace: &Trace, tables: &Tables, classes: &[OperationClass]) -> Vec<Communicator> {
    let members = &tables.members;
    let names: Vec<String> = members.communicators.iter().map(|comm| trace.comm_name(*comm)).collect();
    let mut functions: BTreeMap<u32, BTreeSet<String>> = BTreeMap::new();
    for class in classes {
        functions.entry(class.communicator).or_default().insert(class.function.clone());
    }
    let all = (0..).zip(&members.communicators).zip(&names).map(|((number, comm), name)| {
        (name.as_str(), trace.members(*comm).len() as u64, functions.remove(&number).unwrap_or_default())
    });
    let shapes = shapes(&all.collect::<Vec<_>>());
    let made =
        (0..).zip(&members.communicators).zip(names.iter().zip(shapes)).map(|((number, comm), (name, shape))| {
            let ranks = small(trace.members(*comm).len());
            Communicator {
                name: name.clone(),
                shape,
                id: trace.comm_id_text(*comm),
                ranks,
                recorded: small(members.recorded(number)),
                members: (0..ranks).map(|rank| members.job_rank(number, rank)).collect(),
            }
        });
    made.collect()
}

/// What ranks sent to each other, and how long they waited for each other.
fn sent(trace: &Trace, tables: &Tables, filter: &Filter, waiting: &Waiting) -> Vec<results::Messages> {
    let mut sums: BTreeMap<(u32, u32, u32), results::Messages> = BTreeMap::new();
    for operation in tables.operations.rows().filter(|operation| operation.partner != NONE) {
        if trace.function(operation.function).and_then(Function::is_send) == Some(true)
            && filter.wants(trace, &tables.members, &operation)
        {
            let member = tables.members.row(operation.member);
            let sum = sums.entry((member.communicator, member.rank, operation.partner)).or_default();
            (sum.count, sum.bytes) = (sum.count + 1, sum.bytes.saturating_add(operation.bytes));
        }
    }
    for (pair, (late_sender_ns, late_receiver_ns)) in &waiting.pairs {
        let sum = sums.entry(*pair).or_default();
        (sum.late_sender_ns, sum.late_receiver_ns) = (*late_sender_ns, *late_receiver_ns);
    }
    let made = sums.into_iter().map(|((communicator, from, to), sum)| results::Messages {
        communicator,
        from: tables.members.job_rank(communicator, from),
        to: tables.members.job_rank(communicator, to),
        ..sum
    });
    made.collect()
}

/// Whom an operation waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WaitsFor {
    None,
    /// The operation in row `row`, which began at `until_ns`.
    Other {
        row: u32,
        until_ns: u64,
    },
    /// Unknown until this time; `u64::MAX` if the operation cannot be compared with those of other ranks.
    Unclear {
        until_ns: u64,
    },
}

impl Analysis {
    /// Whom an operation waited for. `is_alone`: no other operation shares its kernel.
    pub fn waits_for(&self, row: u32, is_alone: bool) -> WaitsFor {
        let (tables, operation) = (&self.tables, self.tables.operations.row(large(row)));
        let unknown = WaitsFor::Unclear { until_ns: u64::MAX };
        if !operation.is_known() {
            return unknown;
        }
        if let Some(number) = self.instances.instance_of_operation(row) {
            let instance = &self.instances.all[large(number)];
            return match instance.split(tables, row) {
                Split::Waits(until_ns) if until_ns <= operation.start_ns => WaitsFor::None,
                Split::Waits(until_ns) => WaitsFor::Other { row: instance.awaited, until_ns },
                Split::Unclear(until_ns) => WaitsFor::Unclear { until_ns },
            };
        }
        if !self.pairing.is_message(row) {
            let is_single = tables.members.size(tables.members.row(operation.member).communicator) == 1;
            return if is_single { WaitsFor::None } else { unknown };
        }
        match WaitEnd::new(tables, &self.pairing, row, is_alone) {
            WaitEnd::Other(until_ns) => {
                self.pairing.other(row).map_or(unknown, |row| WaitsFor::Other { row, until_ns })
            }
            WaitEnd::Never => WaitsFor::None,
            WaitEnd::Unclear(until_ns) => WaitsFor::Unclear { until_ns },
        }
    }

    /// Rows of the operations on other ranks in the same collective, or of the other end of a message.
    pub fn counterparts(&self, row: u32) -> Vec<u32> {
        let instance = self.instances.instance_of_operation(row).map(|number| &self.instances.all[large(number)]);
        let rows = instance.into_iter().flat_map(|instance| self.instances.operations(instance)).copied();
        rows.filter(|other| *other != row).chain(self.pairing.other(row)).collect()
    }
}
