//! The critical path: from the end of the last operation back to the beginning of the first.
//!
//! ```text
//!  rank 0   ├──────── computing ─────────┤▒▒ waits ▒▒├─ transfer ─┤
//!  rank 1   ├ computing ┤ launching ├─────────────────┤
//!                                     ◄── rank 1 came last: here the path changes to it
//! ```
//!
//! [`Walk`] finds the way, [`path_parts`] sums it up by rank and by what it consists of. [`read_host_times`] finds when
//! operations were called and launched on their hosts; it reads only threads of the processes concerned.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;

use crate::read::{NONE, Operation, Tables};
use crate::results::{CriticalPath, LinkKey, PathKind, PathPart};
use crate::units::{capital, plural, real, time};
use crate::{Analysis, Clock, Filter, Trace, WaitsFor, try_in_parallel};
use nccl_events::archive::{LocationKind, RegionClass};
use nccl_events::collective::Function;
use nccl_events::ids::index;
use nccl_events::sort::Gather;
use otf2::{EventKind, LocationRef, RegionRef};

/// When an operation was called and launched; `None` if unknown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct HostTimes {
    pub(crate) called_ns: Option<u64>,
    pub(crate) launched_ns: Option<u64>,
}

/// Keyed by the operation's row in `Tables::operations`.
pub(crate) type HostTimesByOperation = BTreeMap<u32, HostTimes>;

/// Calls, launches, and enqueueings of operations, of one or more threads. Both maps are keyed by event id.
#[derive(Default)]
struct HostEvents {
    /// Start of the call or launch, in ns.
    started: BTreeMap<u64, u64>,
    enqueued: BTreeMap<u64, Enqueueing>,
}

#[derive(Clone, Copy)]
struct Enqueueing {
    at_ns: u64,
    /// Start of the outermost NCCL call that was open on the thread; `None` if none was open.
    around_ns: Option<u64>,
}

nccl_events::fields! {
    /// The id of an event. Faster to read than [`crate::Fields`].
    struct Id {
        event: Event,
    }
}

pub(crate) fn read_host_times(
    trace: &Trace,
    tables: &Tables,
    rows: &BTreeSet<u32>,
) -> otf2::Result<HostTimesByOperation> {
    // Skip replays: their call is that of the graph's capture, not of the replay.
    let rows = rows.iter().map(|row| (*row, tables.operations.row(index(*row))));
    let rows: Vec<(u32, Operation)> = rows.filter(|(_, operation)| operation.replay == 0).collect();
    let ids = |of: fn(&Operation) -> u64| rows.iter().map(move |(_, operation)| of(operation)).filter(|id| *id != 0);
    let started: BTreeSet<u64> = ids(|operation| operation.parent).chain(ids(|operation| operation.launch)).collect();
    let enqueued: BTreeSet<u64> = ids(|operation| operation.event).collect();
    let members: BTreeSet<u32> = rows.iter().map(|(_, operation)| operation.member).collect();
    let process = |member: u32| trace.process(trace.group(tables.members.row(member).location));
    let processes: BTreeSet<_> = members.into_iter().map(process).gather();
    let mut threads = trace.locations_of(&[LocationKind::ApiThread, LocationKind::CallbackThread]);
    threads.retain(|thread| processes.contains(&trace.process(trace.group(*thread))));
    let class = |region| trace.region(region).map(|region| region.class);
    let is_read = |class: &RegionClass| matches!(class, RegionClass::Api | RegionClass::Launch | RegionClass::Enqueue);
    let classes =
        trace.definitions.regions.keys().filter_map(|region| Some((*region, class(*region).filter(is_read)?)));
    let classes: BTreeMap<RegionRef, RegionClass> = classes.gather();
    let read = try_in_parallel(threads, |thread| read_thread(trace, &classes, thread, &started, &enqueued));
    let mut found = HostEvents::default();
    for thread_events in read? {
        found.started.extend(thread_events.started);
        found.enqueued.extend(thread_events.enqueued);
    }
    Ok(rows.iter().map(|(row, operation)| (*row, found.host(operation))).gather())
}

/// Reads the calls and launches whose ids are in `started`, and the enqueueings whose ids are in `enqueued`.
fn read_thread(
    trace: &Trace,
    classes: &BTreeMap<RegionRef, RegionClass>,
    thread: LocationRef,
    started: &BTreeSet<u64>,
    enqueued: &BTreeSet<u64>,
) -> otf2::Result<HostEvents> {
    let mut found = HostEvents::default();
    // The time at which CUDA's callback thread reports an operation says nothing about the launch.
    let is_by_callback = trace.location_kind(thread) == Some(LocationKind::CallbackThread);
    let clock = Clock::from_trace(trace);
    // One element per open region: the start of an NCCL call, `None` for any other region.
    let mut open: Vec<Option<u64>> = Vec::new();
    trace.archive.for_each_event(&[thread], |_, event| {
        let EventKind::Enter(region) = event.kind else {
            if matches!(event.kind, EventKind::Leave(_)) {
                open.pop();
            }
            return ControlFlow::Continue(());
        };
        let (class, start_ns) = (classes.get(&region), clock.ns(event.time));
        open.push(Some(start_ns).filter(|_| class == Some(&RegionClass::Api)));
        let id = |wanted: &BTreeSet<u64>| {
            trace.read_fields::<Id<'_>>(&event.attributes).event.filter(|id| wanted.contains(id))
        };
        match class {
            Some(RegionClass::Api | RegionClass::Launch) => {
                found.started.extend(id(started).map(|id| (id, start_ns)));
            }
            Some(RegionClass::Enqueue) if !is_by_callback => {
                let around_ns = open.iter().flatten().next().copied();
                let enqueueing = Enqueueing { at_ns: start_ns, around_ns };
                found.enqueued.extend(id(enqueued).map(|id| (id, enqueueing)));
            }
            _ => {}
        }
        ControlFlow::Continue(())
    })?;
    Ok(found)
}

impl HostEvents {
    fn host(&self, operation: &Operation) -> HostTimes {
        let started_ns = |event: u64| self.started.get(&event).copied();
        let enqueued = self.enqueued.get(&operation.event);
        // Up to 2.27 NCCL reports no calls. If NVTX was recorded, NCCL's range of the call encloses the enqueueing.
        let enqueued_in_ns = enqueued.map(|enqueueing| enqueueing.around_ns.unwrap_or(enqueueing.at_ns));
        HostTimes {
            called_ns: started_ns(operation.parent).or(enqueued_in_ns),
            // NCCL enqueues right after the launch.
            launched_ns: started_ns(operation.launch).or(enqueued.map(|enqueueing| enqueueing.at_ns)),
        }
    }
}

/// Part of the critical path on which a rank is outside of operations.
#[derive(Clone, Copy, Debug)]
pub(super) struct TimeOutside {
    pub(super) from_ns: u64,
    pub(super) to_ns: u64,
    /// Row of the operation that begins at `to_ns`.
    pub(super) next: u32,
}

/// Part of the critical path inside an operation. It ends at `stop_ns`.
#[derive(Clone, Copy, Debug)]
pub(super) struct TimeInOperation {
    pub(super) row: u32,
    /// Row of the operation that `row` waited for; equal to `row` if it waited for none.
    pub(super) other: u32,
    pub(super) stop_ns: u64,
    pub(super) transfer_ns: u64,
    pub(super) unclear_ns: u64,
    pub(super) is_warm_up: bool,
}

/// The critical path, followed back in time: from an operation to the rank that it waited for, then to that rank's
/// previous operation.
#[derive(Debug, Default)]
pub(super) struct Walk {
    pub(super) from_ns: u64,
    pub(super) to_ns: u64,
    pub(super) operations: u64,
    pub(super) gaps: Vec<TimeOutside>,
    pub(super) stays: Vec<TimeInOperation>,
}

/// Rows of the operations that ended, for each rank of the job, sorted by end.
struct EndedOperations<'a> {
    tables: &'a Tables,
    ranks: Vec<Vec<u32>>,
}

impl<'a> EndedOperations<'a> {
    fn new(tables: &'a Tables, filter: &Filter) -> Self {
        let mut ranks = vec![Vec::new(); tables.members.job_ranks.len()];
        for (row, operation) in (0..).zip(tables.operations.rows()) {
            if !operation.is_unfinished
                && operation.stop_ns >= operation.start_ns
                && filter.to_ns.is_none_or(|to_ns| operation.start_ns <= to_ns)
            {
                ranks[index(tables.job_rank(row))].push(row);
            }
        }
        let mut found = Self { tables, ranks: Vec::new() };
        ranks.iter_mut().for_each(|rows| rows.sort_unstable_by_key(|row| (found.kernel(*row), *row)));
        found.ranks = ranks;
        found
    }

    /// End, start and member of an operation. Operations of a rank for which these are equal share a kernel.
    fn kernel(&self, row: u32) -> (u64, u64, u32) {
        let operations = &self.tables.operations;
        (operations.stop_ns[index(row)], operations.start_ns[index(row)], operations.member[index(row)])
    }

    /// Rows of the operations in the rank's last kernel that began before `ns` and ended no later than `ns`.
    fn last_kernel_before(&self, rank: u32, ns: u64) -> Option<&[u32]> {
        let rows = &self.ranks[index(rank)];
        let behind = rows.partition_point(|row| self.kernel(*row).0 <= ns);
        let last = rows[..behind].iter().rposition(|row| self.kernel(*row).1 < ns)?;
        let kernel = self.kernel(rows[last]);
        let first = rows[..last].partition_point(|row| self.kernel(*row) < kernel);
        Some(&rows[first..=last])
    }

    fn last(&self) -> Option<(u32, u64)> {
        let ends = (0..).zip(&self.ranks).filter_map(|(rank, rows)| Some((rank, self.kernel(*rows.last()?).0)));
        ends.max_by_key(|(_, stop_ns)| *stop_ns)
    }
}

impl Walk {
    pub(super) fn new(analysis: &Analysis, filter: &Filter) -> Option<Self> {
        let ended = EndedOperations::new(&analysis.tables, filter);
        let (mut rank, to_ns) = ended.last()?;
        let mut found = Self { from_ns: to_ns, to_ns, ..Self::default() };
        let mut next = None;
        while let Some(rows) = ended.last_kernel_before(rank, found.from_ns) {
            if filter.from_ns.is_some_and(|from_ns| found.from_ns <= from_ns) {
                break;
            }
            let (stop_ns, start_ns, _) = ended.kernel(rows[0]);
            if let Some(next) = next.filter(|_| stop_ns < found.from_ns) {
                found.gaps.push(TimeOutside { from_ns: stop_ns, to_ns: found.from_ns, next });
            }
            let stay = stay(analysis, rows, start_ns, stop_ns);
            found.stays.push(stay);
            found.operations += 1;
            found.from_ns = stop_ns - stay.transfer_ns - stay.unclear_ns;
            rank = analysis.tables.job_rank(stay.other);
            next = Some(stay.other);
        }
        found.clip(filter);
        (found.operations > 0).then_some(found)
    }

    /// Clips the path to the time that the filter selects.
    fn clip(&mut self, filter: &Filter) {
        self.from_ns = self.from_ns.max(filter.from_ns.unwrap_or(0));
        self.to_ns = self.to_ns.min(filter.to_ns.unwrap_or(u64::MAX));
        let (from_ns, to_ns) = (self.from_ns, self.to_ns);
        let at = |ns: u64| ns.clamp(from_ns, to_ns.max(from_ns));
        for gap in &mut self.gaps {
            (gap.from_ns, gap.to_ns) = (at(gap.from_ns), at(gap.to_ns));
        }
        self.gaps.retain(|gap| gap.from_ns < gap.to_ns);
        for stay in &mut self.stays {
            let transfer_from_ns = stay.stop_ns - stay.transfer_ns;
            let unclear_from_ns = transfer_from_ns - stay.unclear_ns;
            stay.transfer_ns = at(stay.stop_ns) - at(transfer_from_ns);
            stay.unclear_ns = at(transfer_from_ns) - at(unclear_from_ns);
        }
        self.stays.retain(|stay| stay.transfer_ns + stay.unclear_ns > 0);
        self.operations = self.stays.len() as u64;
    }
}

/// Finds the last arrival that the operations of a kernel waited for. The returned part is only empty if the kernel is,
/// so that [`Walk::new`] terminates.
fn stay(analysis: &Analysis, rows: &[u32], start_ns: u64, stop_ns: u64) -> TimeInOperation {
    let row = rows[0];
    let instance = analysis.instances.instance_of_operation(row).map(|number| &analysis.instances.all[index(number)]);
    let is_warm_up = instance.is_some_and(|instance| instance.is_warm_up);
    let whole =
        TimeInOperation { row, other: row, stop_ns, transfer_ns: stop_ns - start_ns, unclear_ns: 0, is_warm_up };
    if is_warm_up {
        return whole;
    }
    let (mut other, mut unclear) = (None, None);
    for row in rows {
        match analysis.waits_for(*row, rows.len() == 1) {
            WaitsFor::None => {}
            WaitsFor::Other { row: awaited, until_ns } => other = other.max(Some((until_ns, awaited, *row))),
            WaitsFor::Unclear { until_ns } => unclear = unclear.max(Some(until_ns.clamp(start_ns, stop_ns))),
        }
    }
    match (other, unclear) {
        (Some((until_ns, other, row)), _) if until_ns < stop_ns && Some(until_ns) >= unclear => {
            TimeInOperation { row, other, transfer_ns: stop_ns - until_ns.max(start_ns), ..whole }
        }
        (Some(_), None) => TimeInOperation { transfer_ns: 0, unclear_ns: stop_ns - start_ns, ..whole },
        (_, Some(until_ns)) => {
            TimeInOperation { transfer_ns: stop_ns - until_ns, unclear_ns: until_ns - start_ns, ..whole }
        }
        (None, None) => whole,
    }
}

/// Calls and launches are read, and ranges named, only for this many ranks: those that are outside of operations for
/// longest on the path. Reading all threads takes too long.
const MOST_RANKS: usize = 16;

/// Kind of the part, rank, function and communicator, link.
type PathKey = (PathKind, Option<u32>, Option<(RegionRef, u32)>, Option<LinkKey>);

#[derive(Default)]
struct PathSum {
    ns: u64,
    times: u64,
}

/// Sums the time on the critical path by [`PathKey`], longest first. `hosts` covers the operations that end gaps of
/// `ranks`.
pub(super) fn path_parts(
    trace: &Trace,
    analysis: &Analysis,
    (walk, ranks): (&Walk, &BTreeSet<u32>),
    hosts: &HostTimesByOperation,
) -> Vec<PathPart> {
    let mut sums: BTreeMap<PathKey, PathSum> = BTreeMap::new();
    let mut add = |key: PathKey, ns: u64| {
        if ns > 0 {
            let sum = sums.entry(key).or_default();
            (sum.ns, sum.times) = (sum.ns + ns, sum.times + 1);
        }
    };
    let usual_ns = usual_ns(analysis, hosts);
    let mut computing: BTreeMap<u32, Vec<(u64, u64)>> = BTreeMap::new();
    for gap in &walk.gaps {
        let rank = analysis.tables.job_rank(gap.next);
        let (from_ns, to_ns) = launching(gap, hosts, usual_ns);
        add((PathKind::Launching, Some(rank), None, None), to_ns - from_ns);
        add((PathKind::Computing, Some(rank), None, None), gap.to_ns - gap.from_ns - (to_ns - from_ns));
        computing.entry(rank).or_default().extend([(gap.from_ns, from_ns), (to_ns, gap.to_ns)]);
    }
    for stay in &walk.stays {
        let operation = analysis.tables.operations.row(index(stay.row));
        let what = Some((operation.function, analysis.tables.members.row(operation.member).communicator));
        let rank = Some(analysis.tables.job_rank(stay.row));
        if stay.is_warm_up {
            add((PathKind::WarmUp, rank, what, None), stay.transfer_ns);
            continue;
        }
        add((PathKind::Transfer, None, what, link(trace, analysis, stay)), stay.transfer_ns);
        add((PathKind::Unclear, rank, what, None), stay.unclear_ns);
    }
    let length_ns = walk.to_ns - walk.from_ns;
    let parts = sums.into_iter().map(|((kind, rank, what, link), PathSum { ns, times })| PathPart {
        kind,
        rank,
        function: what.map(|(function, _)| trace.function_name(function)),
        communicator: what.map(|(_, communicator)| communicator),
        link,
        phase: rank
            .filter(|rank| kind == PathKind::Computing && ranks.contains(rank))
            .and_then(|rank| analysis.tables.during(trace, rank, computing.remove(&rank)?)),
        ns,
        share: share(ns, length_ns),
        lost_ns: rank
            .filter(|_| kind == PathKind::Computing)
            .and_then(|rank| analysis.report.ranks.get(index(rank))?.alone_ns),
        times,
    });
    let mut parts: Vec<PathPart> = parts.collect();
    nccl_events::sort::sort_by_key(&mut parts, |part| Reverse(part.ns));
    parts
}

pub(super) fn share(part: u64, whole: u64) -> f64 {
    real(part) / real(whole.max(1))
}

/// The [`MOST_RANKS`] ranks that are outside of operations for longest on the path.
pub(super) fn ranks_outside_longest(analysis: &Analysis, walk: &Walk) -> BTreeSet<u32> {
    let mut sums: BTreeMap<u32, u64> = BTreeMap::new();
    for gap in &walk.gaps {
        *sums.entry(analysis.tables.job_rank(gap.next)).or_default() += gap.to_ns - gap.from_ns;
    }
    let mut sums: Vec<(u64, u32)> = sums.into_iter().map(|(rank, ns)| (ns, rank)).collect();
    nccl_events::sort::sort_by_key(&mut sums, |sum| Reverse(*sum));
    sums.into_iter().take(MOST_RANKS).map(|(_, rank)| rank).gather()
}

/// The shortest time from a launch to the beginning of its operation.
fn usual_ns(analysis: &Analysis, hosts: &HostTimesByOperation) -> u64 {
    let times = hosts.iter().filter_map(|(row, host)| {
        Some(analysis.tables.operations.start_ns[index(*row)].saturating_sub(host.launched_ns?))
    });
    times.min().unwrap_or(0)
}

/// Start and end of launching within a gap: from the call until the GPU could begin. Until the gap ends, the GPU then
/// executes other work.
fn launching(gap: &TimeOutside, hosts: &HostTimesByOperation, usual_ns: u64) -> (u64, u64) {
    let host = hosts.get(&gap.next).copied().unwrap_or_default();
    let Some(called_ns) = host.called_ns else {
        return (gap.to_ns, gap.to_ns);
    };
    let from_ns = called_ns.clamp(gap.from_ns, gap.to_ns);
    let until_ns = host.launched_ns.map_or(gap.to_ns, |ns| ns.saturating_add(usual_ns));
    (from_ns, until_ns.clamp(from_ns, gap.to_ns))
}

/// The link of a transfer: the two ends of a message, or the slow link that an anomaly or a cause names for a
/// collective.
fn link(trace: &Trace, analysis: &Analysis, stay: &TimeInOperation) -> Option<LinkKey> {
    let tables = &analysis.tables;
    let Some(number) = analysis.instances.instance_of_operation(stay.row) else {
        let operation = tables.operations.row(index(stay.row));
        let own = tables.members.row(operation.member);
        let (communicator, partner) = (own.communicator, operation.partner);
        let is_send = trace.function(operation.function).and_then(Function::is_send).filter(|_| partner != NONE)?;
        let [from, to] = if is_send { [own.rank, partner] } else { [partner, own.rank] };
        let [from, to_rank] = [from, to].map(|rank| tables.members.job_rank(communicator, rank));
        return Some(LinkKey { communicator, from, to: to_rank, peer: Some(to), channel: None });
    };
    let instance = &analysis.instances.all[index(number)];
    let is_it = |key: &LinkKey| key.communicator == instance.communicator;
    let report = &analysis.report;
    let own = report.anomalies.iter().filter(|anomaly| anomaly.start_ns == instance.arrivals.first_ns);
    let own = own.filter_map(|anomaly| anomaly.link).find(is_it);
    let causes =
        report.causes.iter().filter(|cause| !cause.is_stall && cause.since_ns <= Some(instance.arrivals.last_ns));
    own.or_else(|| causes.filter_map(|cause| cause.link).find(is_it))
}

/// The critical path of the selected time, and the operations whose host times must be read to sum it up.
pub(crate) struct PlannedPath {
    walk: Walk,
    /// Whether the filter selects ranks. The path covers all ranks in any case.
    is_of_some_ranks: bool,
    ranks: BTreeSet<u32>,
    /// Rows of the operations whose calls and launches must be read.
    pub(crate) rows: BTreeSet<u32>,
}

impl PlannedPath {
    /// `None` if no operation ended, or if the filter selects communicators or functions: then operations that others
    /// waited for may be missing.
    pub(crate) fn new(analysis: &Analysis, filter: &Filter) -> Option<Self> {
        if !filter.communicators.is_empty() || !filter.functions.is_empty() {
            return None;
        }
        let walk = Walk::new(analysis, filter)?;
        let ranks = ranks_outside_longest(analysis, &walk);
        let wanted = |gap: &&TimeOutside| ranks.contains(&analysis.tables.job_rank(gap.next));
        let rows = walk.gaps.iter().filter(wanted).map(|gap| gap.next).collect();
        Some(Self { walk, is_of_some_ranks: !filter.ranks.is_empty(), ranks, rows })
    }

    pub(crate) fn path(&self, trace: &Trace, analysis: &Analysis, hosts: &HostTimesByOperation) -> CriticalPath {
        let hosts = self.rows.iter().filter_map(|row| Some((*row, *hosts.get(row)?))).collect();
        let parts = path_parts(trace, analysis, (&self.walk, &self.ranks), &hosts);
        path(analysis, (&self.walk, self.is_of_some_ranks), parts)
    }
}

fn path(analysis: &Analysis, (walk, is_of_some_ranks): (&Walk, bool), parts: Vec<PathPart>) -> CriticalPath {
    let sum = |kind: PathKind| parts.iter().filter(|part| part.kind == kind).map(|part| part.ns).sum();
    let mut path = CriticalPath {
        from_ns: walk.from_ns,
        to_ns: walk.to_ns,
        operations: walk.operations,
        computing_ns: sum(PathKind::Computing),
        launching_ns: sum(PathKind::Launching),
        transfer_ns: sum(PathKind::Transfer),
        warm_up_ns: sum(PathKind::WarmUp),
        unclear_ns: sum(PathKind::Unclear),
        parts,
        sentence: String::new(),
    };
    path.sentence = sentence(analysis, &path, is_of_some_ranks);
    path
}

fn sentence(analysis: &Analysis, path: &CriticalPath, is_of_some_ranks: bool) -> String {
    let of_all = if is_of_some_ranks { " of all ranks" } else { "" };
    let length_ns = path.to_ns - path.from_ns;
    let kinds = [
        (path.computing_ns, "computing"),
        (path.launching_ns, "launching"),
        (path.transfer_ns, "transfer"),
        (path.warm_up_ns, "warm-up"),
        (path.unclear_ns, "unclear"),
    ];
    let share = |ns: u64| share(ns, length_ns) * 100.0;
    let kinds = kinds.into_iter().filter(|(ns, _)| *ns > 0).map(|(ns, what)| format!("{:.1} % {what}", share(ns)));
    let most = path.parts.iter().find(|part| part.kind == PathKind::Computing);
    let most = most.and_then(|part| Some((part, analysis.report.ranks.get(index(part.rank?))?)));
    let most = most.map(|(part, rank)| format!(" {} computes {} of it.", capital(&rank.name), time(part.ns)));
    format!(
        "The critical path{of_all} takes {} through {}: {}.{}",
        time(length_ns),
        plural(path.operations, "operation", "operations"),
        kinds.collect::<Vec<_>>().join(", "),
        most.unwrap_or_default(),
    )
}
