//! Matches the operations of a collective across ranks, and derives the order of their arrivals as far as the clocks
//! allow. Also groups operations into classes by function, communicator and size, selects the part of an archive to
//! analyse, and measures the overlap of communication with computation.

use std::collections::BTreeMap;

use crate::read::archive::{Trace, in_parallel};
use crate::read::{Members, NO_SEQUENCE, NONE, Operation, Operations, Tables};
use crate::results::{Budget, OperationClass, Overlap};
use crate::statistics::numeric::{length, overlap, quantiles, union};
use crate::units::real;
use nccl_events::archive::Timing;
use nccl_events::collective::{Collective, Flow, Function};
use nccl_events::ids::{index as large, index_u32 as small};
use nccl_events::sort::Gather;
use otf2::{CommRef, LocationGroupRef, RegionRef};
use rayon::prelude::*;

#[derive(Clone, Debug)]
pub struct Instance {
    pub communicator: u32,
    pub function: RegionRef,
    pub sequence: Option<u64>,
    /// Bytes on one rank: element count times element size.
    pub bytes: u64,
    pub flow: Flow,
    pub arrivals: Arrivals,
    /// Row of [`Members`] of the last rank to arrive, if it was last by more than the clocks' error.
    pub last: Option<u32>,
    /// Whether it is the first of its function on its communicator: NCCL connects ranks in it, so none is late.
    pub is_warm_up: bool,
    /// The operation that others wait for: of `last`, or of one within the clocks' error; [`NONE`] if not comparable.
    pub(super) awaited: u32,
    from: u32,
    to: u32,
}

#[derive(Clone, Debug, Default)]
pub struct Instances {
    /// Sorted by communicator, function and sequence number.
    pub all: Vec<Instance>,
    rows: Vec<u32>,
    of_operation: Vec<u32>,
}

impl Instances {
    /// The operations of an instance: rows of [`Operations`] in the order of ranks.
    pub fn operations(&self, instance: &Instance) -> &[u32] {
        &self.rows[large(instance.from)..large(instance.to)]
    }

    pub(super) fn rows(&self, tables: &Tables, instance: &Instance) -> impl Iterator<Item = Operation> {
        self.operations(instance).iter().map(|row| tables.operations.row(large(*row)))
    }

    pub fn instance_of_operation(&self, row: u32) -> Option<u32> {
        self.of_operation.get(large(row)).copied().filter(|instance| *instance != NONE)
    }

    /// Matches operations by communicator, function and NCCL's sequence number. Operations made of sends and receives
    /// have no number: they are matched by position among their kind, if all ranks have equally many.
    pub fn new(trace: &Trace, tables: &Tables, filter: &Filter) -> Self {
        let (operations, members) = (&tables.operations, &tables.members);
        let flow = |function| trace.function(function)?.collective().map(Collective::flow);
        let mut rows: Vec<u32> = (0..small(operations.len()))
            .filter(|row| flow(operations.function[large(*row)]).is_some())
            .filter(|row| filter.wants_communicator(members, operations.member[large(*row)]))
            .filter(|row| members.size(members.row(operations.member[large(*row)]).communicator) > 1)
            .filter(|row| filter.wants_function(trace, operations.function[large(*row)]))
            .collect();
        let repeats = repeats(operations, &mut rows);
        let key = |row: u32| {
            let at = large(row);
            let member = members.row(operations.member[at]);
            let what = (member.communicator, operations.function[at], operations.sequence.get(at));
            (what, repeats[at], member.rank)
        };
        rows.par_sort_by(|a, b| key(*a).cmp(&key(*b)));
        let of_operation = vec![NONE; operations.len()];
        let mut found = Self { of_operation, rows: Vec::with_capacity(rows.len()), all: Vec::new() };
        for rows in rows.chunk_by(|a, b| key(*a).0 == key(*b).0) {
            let Some(((communicator, _, sequence), ..)) = rows.first().map(|row| key(*row)) else {
                continue;
            };
            // Without sequence numbers, positions match only if no rank lacks an operation.
            let mut places = rows.chunk_by(|a, b| repeats[large(*a)] == repeats[large(*b)]);
            if sequence != NO_SEQUENCE || places.all(|rows| rows.len() == members.recorded(communicator)) {
                found.add_repeats(tables, rows, &repeats, flow);
            }
        }
        found.mark_warm_up();
        if filter.from_ns.is_some() || filter.to_ns.is_some() {
            found.keep(|instance| filter.wants_time(instance.arrivals.first_ns, instance.arrivals.end_ns));
        }
        found
    }

    fn add_repeats(
        &mut self,
        tables: &Tables,
        rows: &[u32],
        repeats: &[ReplayKey],
        flow: impl Fn(RegionRef) -> Option<Flow>,
    ) {
        for (repeat, rows) in rows.chunk_by(|a, b| repeats[large(*a)] == repeats[large(*b)]).enumerate() {
            let from = small(self.rows.len());
            self.rows.extend_from_slice(rows);
            let first = rows.first().map(|row| tables.operations.row(large(*row)));
            let Some((first, flow)) = first.and_then(|first| Some((first, flow(first.function)?))) else {
                continue;
            };
            for row in rows {
                self.of_operation[large(*row)] = small(self.all.len());
            }
            let communicator = tables.members.row(first.member).communicator;
            let (arrivals, last) = arrivals(tables, communicator, flow, rows);
            self.all.push(Instance {
                communicator,
                function: first.function,
                sequence: (first.sequence != NO_SEQUENCE).then_some(first.sequence),
                bytes: first.bytes,
                flow,
                last: last.certain.map(|at| tables.operations.member[large(rows[at])]),
                is_warm_up: repeat == 0 && matches!(first.sequence, 0 | NO_SEQUENCE),
                awaited: last.likely.map_or(NONE, |at| rows[at]),
                arrivals,
                from,
                to: small(self.rows.len()),
            });
        }
    }

    /// A first collective without a later one of its kind is no warm-up.
    fn mark_warm_up(&mut self) {
        let kind = |one: &Instance| (one.communicator, one.function.get());
        let mut counts: BTreeMap<(u32, u32), u64> = BTreeMap::new();
        self.all.iter().for_each(|one| *counts.entry(kind(one)).or_default() += 1);
        for one in &mut self.all {
            one.is_warm_up &= counts.get(&kind(one)).is_some_and(|count| *count > 1);
        }
    }

    fn keep(&mut self, wants: impl Fn(&Instance) -> bool) {
        self.all.retain(wants);
        self.of_operation.fill(NONE);
        for (number, instance) in (0..).zip(&self.all) {
            for row in &self.rows[large(instance.from)..large(instance.to)] {
                self.of_operation[large(*row)] = number;
            }
        }
    }
}

/// The number of the replay, and the operation's index among those of the replay with the same sequence number:
/// captured collectives can share one.
type ReplayKey = (u32, u32);

fn repeats(operations: &Operations, rows: &mut [u32]) -> Vec<ReplayKey> {
    let key = |row: &u32| {
        let at = large(*row);
        (operations.member[at], operations.function[at], operations.sequence.get(at), operations.start_ns[at])
    };
    rows.par_sort_by(|a, b| key(a).cmp(&key(b)));
    let mut repeats = vec![(0, 0); operations.len()];
    let same = |a: &u32, b: &u32| {
        let ((member, function, sequence, _), (member_b, function_b, sequence_b, _)) = (key(a), key(b));
        (member, function, sequence) == (member_b, function_b, sequence_b)
    };
    for rows in rows.chunk_by(same) {
        let mut numbers: BTreeMap<u32, u32> = BTreeMap::new();
        for row in rows {
            let replay = operations.replay[large(*row)];
            let next = if rows.len() > 1 { numbers.entry(replay).or_default() } else { &mut 0 };
            repeats[large(*row)] = (replay, *next);
            *next += 1;
        }
    }
    repeats
}

/// The error of an operation's times relative to others on its host.
pub(crate) fn own_error_ns(members: &Members, operation: &Operation) -> Option<u64> {
    let timing = operation.timing.filter(|timing| timing.is_measured())?;
    let by_gpu_clock = matches!(timing, Timing::Cupti | Timing::Event);
    members.own_error_ns(operation.member, timing == Timing::KernelChannel, by_gpu_clock)
}

fn arrival(tables: &Tables, row: u32) -> Arrival {
    let operation = tables.operations.row(large(row));
    Arrival { start_ns: operation.start_ns, stop_ns: operation.stop_ns, is_root: is_root(tables, &operation) }
}

/// The arrivals; no rank is last if the operations cannot be compared.
fn arrivals(tables: &Tables, communicator: u32, flow: Flow, rows: &[u32]) -> (Arrivals, LastRank) {
    let ranks: Vec<Arrival> = rows.iter().map(|row| arrival(tables, *row)).collect();
    let (mut found, mut last) = Arrivals::from_ranks(flow, &ranks, |a, b| tables.error_ns(rows[a], rows[b]));
    if found.error_ns != Err(Incomparable::RankMissing) {
        found.error_ns = measured(tables, communicator, rows).and(found.error_ns);
    }
    if found.error_ns.is_err() {
        last = LastRank::default();
    }
    (found, last)
}

fn measured(tables: &Tables, communicator: u32, rows: &[u32]) -> Result<(), Incomparable> {
    let operations = &tables.operations;
    if rows.len() != tables.members.size(communicator) {
        return Err(Incomparable::RankMissing);
    }
    if rows.iter().any(|row| operations.is_unfinished[large(*row)]) {
        return Err(Incomparable::Unfinished);
    }
    let is_measured = |row: &u32| operations.timing[large(*row)].is_some_and(Timing::is_measured);
    if rows.iter().all(is_measured) { Ok(()) } else { Err(Incomparable::NotMeasured) }
}

impl Instance {
    pub const fn is_comparable(&self) -> bool {
        self.arrivals.error_ns.is_ok()
    }

    /// From the first arrival to the last arrival that others wait for.
    pub const fn skew_ns(&self) -> u64 {
        self.arrivals.last_ns.saturating_sub(self.arrivals.first_ns)
    }

    /// How long the operation in a row waited, in ns; `None` if the clocks cannot tell.
    pub fn waiting_ns(&self, tables: &Tables, row: u32) -> Option<u64> {
        let operation = tables.operations.row(large(row));
        match self.split(tables, row) {
            Split::Waits(until_ns) => Some(until_ns.min(operation.stop_ns).saturating_sub(operation.start_ns)),
            Split::Unclear(_) => None,
        }
    }

    pub(super) fn split(&self, tables: &Tables, row: u32) -> Split {
        self.arrivals.split(self.flow, &arrival(tables, row))
    }
}

pub(super) fn is_root(tables: &Tables, operation: &Operation) -> bool {
    tables.members.row(operation.member).rank == operation.partner
}

impl Tables {
    /// The error between the arrivals of two operations; `None` if unknown.
    pub fn error_ns(&self, a: u32, b: u32) -> Option<u64> {
        let members = &self.members;
        let (a, b) = (self.operations.row(large(a)), self.operations.row(large(b)));
        Some(own_error_ns(members, &a)? + own_error_ns(members, &b)? + members.hosts_error_ns(a.member, b.member)?)
    }
}

#[derive(Clone, Copy, Debug)]
pub struct Arrival {
    pub start_ns: u64,
    pub stop_ns: u64,
    pub is_root: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Incomparable {
    /// A rank of the communicator has no operation here, or the root is unknown.
    RankMissing,
    Unfinished,
    /// For some rank only the enqueueing is known, or its time belongs to several operations in one kernel.
    NotMeasured,
    ClockUnknown,
    /// A rank ended before a rank it waits for arrived: wrong times, or operations of different collectives.
    Contradiction,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Arrivals {
    pub first_ns: u64,
    pub median_ns: u64,
    /// Second-latest arrival among the ranks that others wait for.
    pub second_ns: u64,
    /// Latest arrival among the ranks that others wait for.
    pub last_ns: u64,
    pub end_ns: u64,
    /// Error of arrivals relative to the last one, or why arrivals cannot be compared.
    pub error_ns: Result<u64, Incomparable>,
}

/// Index of the rank that others wait for last.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LastRank {
    /// Only set if the rank was last by more than the clocks' error.
    pub certain: Option<usize>,
    /// Also set if the clocks cannot prove that the rank was last.
    pub likely: Option<usize>,
}

/// What a rank did until the last rank arrived. Afterwards it transferred.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Split {
    /// Waited until this time, by more than the clocks' error.
    Waits(u64),
    /// Unknown until this time.
    Unclear(u64),
}

/// Whether others wait for a rank: for a root that sends the data, or for every rank but a root that collects it.
pub(super) const fn is_awaited(flow: Flow, is_root: bool) -> bool {
    match flow {
        Flow::AllToAll => true,
        Flow::FromRoot => is_root,
        Flow::ToRoot => !is_root,
    }
}

/// Whether a rank cannot end before the last arrival: if data flows to the root, only the root waits.
fn waits(flow: Flow, is_root: bool) -> bool {
    flow != Flow::ToRoot || is_root
}

impl Arrivals {
    /// Finds the arrival order. `error_ns` gives the error between the times of two ranks, by index; `None` if unknown.
    pub fn from_ranks(
        flow: Flow,
        ranks: &[Arrival],
        error_ns: impl Fn(usize, usize) -> Option<u64>,
    ) -> (Self, LastRank) {
        let mut starts: Vec<u64> = ranks.iter().map(|rank| rank.start_ns).collect();
        starts.sort_unstable();
        let mut found = Self {
            first_ns: starts.first().copied().unwrap_or(0),
            median_ns: starts.get((starts.len().max(1) - 1) / 2).copied().unwrap_or(0),
            second_ns: 0,
            last_ns: 0,
            end_ns: ranks.iter().map(|rank| rank.stop_ns).max().unwrap_or(0),
            error_ns: Err(Incomparable::RankMissing),
        };
        let awaited = ranks.iter().enumerate().filter(|(_, rank)| is_awaited(flow, rank.is_root));
        let Some((last, at_last)) = awaited.max_by_key(|(_, rank)| rank.start_ns) else {
            return (found, LastRank::default());
        };
        found.last_ns = at_last.start_ns;
        let others = || ranks.iter().enumerate().filter(|(at, _)| *at != last);
        let other_starts = others().map(|(_, rank)| rank.start_ns);
        found.second_ns = match flow {
            Flow::AllToAll | Flow::ToRoot => other_starts.max(),
            Flow::FromRoot => other_starts.min(),
        }
        .map_or(found.last_ns, |second_ns| second_ns.min(found.last_ns));
        found.error_ns = found.most_error_ns(flow, ranks, |at| error_ns(last, at));
        let is_later = |(at, rank): (usize, &Arrival)| {
            error_ns(last, at).is_some_and(|ns| rank.start_ns.saturating_add(ns) < found.last_ns)
        };
        let is_last = match flow {
            Flow::AllToAll | Flow::ToRoot => others().all(is_later),
            Flow::FromRoot => others().any(is_later),
        };
        let likely = Some(last).filter(|_| found.error_ns.is_ok());
        let certain = likely.filter(|_| is_last);
        (found, LastRank { certain, likely })
    }

    pub fn split(&self, flow: Flow, rank: &Arrival) -> Split {
        let wait_ns = self.last_ns.saturating_sub(rank.start_ns);
        match self.error_ns {
            Err(_) => Split::Unclear(u64::MAX),
            Ok(_) if !waits(flow, rank.is_root) || wait_ns == 0 => Split::Waits(rank.start_ns),
            Ok(error_ns) if wait_ns > error_ns => Split::Waits(self.last_ns),
            Ok(_) => Split::Unclear(self.last_ns),
        }
    }

    /// The largest error of an arrival relative to the last one.
    fn most_error_ns(
        &self,
        flow: Flow,
        ranks: &[Arrival],
        error_ns: impl Fn(usize) -> Option<u64>,
    ) -> Result<u64, Incomparable> {
        let mut most_ns = 0;
        for (at, rank) in ranks.iter().enumerate() {
            let error_ns = error_ns(at).ok_or(Incomparable::ClockUnknown)?;
            if waits(flow, rank.is_root) && rank.stop_ns.saturating_add(error_ns) < self.last_ns {
                return Err(Incomparable::Contradiction);
            }
            most_ns = error_ns.max(most_ns);
        }
        Ok(most_ns)
    }
}

/// Communicator, function, and the size's binary logarithm.
type ClassKey = (u32, RegionRef, u32);

/// Operations by function, communicator and size class.
#[derive(Debug, Default)]
pub(super) struct Classes {
    pub(super) all: Vec<OperationClass>,
    numbers: BTreeMap<ClassKey, u32>,
}

fn key(tables: &Tables, operation: &Operation) -> ClassKey {
    (tables.members.row(operation.member).communicator, operation.function, operation.size_class())
}

impl Classes {
    pub(super) fn new(trace: &Trace, tables: &Tables, filter: &Filter) -> Self {
        let mut by_class: BTreeMap<ClassKey, Vec<u32>> = BTreeMap::new();
        for (row, operation) in (0..).zip(tables.operations.rows()) {
            if filter.wants(trace, &tables.members, &operation) && filter.wants_rank(&tables.members, operation.member)
            {
                by_class.entry(key(tables, &operation)).or_default().push(row);
            }
        }
        let mut classes: Vec<(ClassKey, Vec<u32>)> = by_class.into_iter().gather();
        let name = |function| trace.function_name(function);
        nccl_events::sort::sort_by_key(&mut classes, |((communicator, function, size), _)| {
            (*communicator, name(*function), *size)
        });
        let all = in_parallel(&classes, |(key, rows)| class(trace, tables, *key, name(key.1), rows));
        Self { all, numbers: classes.iter().map(|(key, _)| *key).zip(0..).gather() }
    }

    pub(super) fn number(&self, tables: &Tables, row: u32) -> Option<u32> {
        self.numbers.get(&key(tables, &tables.operations.row(large(row)))).copied()
    }

    pub(super) fn add_instances(
        &mut self,
        (trace, tables, filter): (&Trace, &Tables, &Filter),
        instances: &Instances,
        budgets: &[Budget],
    ) {
        let mut skews: Vec<Vec<f64>> = vec![Vec::new(); self.all.len()];
        let mut transfers: Vec<Vec<f64>> = vec![Vec::new(); self.all.len()];
        for instance in instances.all.iter().filter(|instance| instance.is_comparable()) {
            let rows = instances.operations(instance);
            let Some(number) = rows.first().and_then(|row| self.number(tables, *row)) else {
                continue;
            };
            skews[large(number)].push(real(instance.skew_ns()));
            let Some(collective) = trace.function(instance.function).and_then(Function::collective) else {
                continue;
            };
            // One value per operation of a rank, as for `busbw`.
            for row in rows.iter().filter(|row| tables.operations.has_bandwidth[large(**row)]) {
                let operation = tables.operations.row(large(*row));
                let (Split::Waits(until_ns) | Split::Unclear(until_ns)) = instance.split(tables, *row);
                let transfer_ns = operation.stop_ns.saturating_sub(until_ns.max(operation.start_ns));
                if transfer_ns > 0 && filter.wants_rank(&tables.members, operation.member) {
                    let seconds = real(transfer_ns) / 1e9;
                    transfers[large(number)].push(collective.bandwidths(operation.bytes, small(rows.len()), seconds).1);
                }
            }
        }
        for (number, ((class, skews), transfers)) in self.all.iter_mut().zip(skews).zip(transfers).enumerate() {
            class.comparable = skews.len() as u64;
            class.skew_ns = quantiles(skews);
            class.transfer_busbw = quantiles(transfers);
            class.budget = budgets.get(number).copied().unwrap_or_default();
        }
    }
}

fn class(trace: &Trace, tables: &Tables, key: ClassKey, function: String, rows: &[u32]) -> OperationClass {
    let (communicator, region, _) = key;
    let collective = trace.function(region).and_then(Function::collective);
    let ranks = small(tables.members.size(communicator));
    let mut class = OperationClass { function, communicator, bytes_min: u64::MAX, ..OperationClass::default() };
    let (mut durations, mut algorithm, mut bus) = (Vec::new(), Vec::new(), Vec::new());
    for operation in rows.iter().map(|row| tables.operations.row(large(*row))) {
        class.count += 1;
        class.bytes_min = class.bytes_min.min(operation.bytes);
        class.bytes_max = class.bytes_max.max(operation.bytes);
        if operation.is_unfinished {
            class.unfinished += 1;
            continue;
        }
        *class.timing.entry(operation.timing.map_or("unknown", |timing| timing.name()).to_owned()).or_default() += 1;
        let duration_ns = operation.duration_ns();
        durations.push(real(duration_ns));
        if let Some(collective) = collective.filter(|_| operation.has_bandwidth && duration_ns > 0) {
            let bandwidths = collective.bandwidths(operation.bytes, ranks, real(duration_ns) / 1e9);
            algorithm.push(bandwidths.0);
            // With one rank, no byte crosses a bus.
            bus.extend((ranks > 1).then_some(bandwidths.1));
        }
    }
    class.duration_ns = quantiles(durations);
    class.algbw = quantiles(algorithm);
    class.busbw = quantiles(bus);
    class
}

/// The part of an archive that is analysed. An empty list selects everything.
#[derive(Clone, Debug, Default)]
pub struct Filter {
    pub communicators: Vec<CommRef>,
    /// Functions, as `ncclAllReduce` or `AllReduce`, case-insensitive.
    pub functions: Vec<String>,
    /// Ranks within their communicators: tables of operations count only these ranks' operations.
    pub ranks: Vec<u32>,
    /// Keeps what ends at or after this time, in ns from the start of the trace.
    pub from_ns: Option<u64>,
    /// Keeps what begins at or before this time.
    pub to_ns: Option<u64>,
    /// The name of the range that is a step of the program; found if not given.
    pub step: Option<String>,
}

impl Filter {
    /// Whether the filter keeps an interval from `start_ns` to `stop_ns`.
    pub fn wants_time(&self, start_ns: u64, stop_ns: u64) -> bool {
        self.from_ns.is_none_or(|from_ns| stop_ns >= from_ns) && self.to_ns.is_none_or(|to_ns| start_ns <= to_ns)
    }

    /// Whether it keeps all operations.
    pub(crate) const fn is_all(&self) -> bool {
        self.communicators.is_empty() && self.functions.is_empty() && self.from_ns.is_none() && self.to_ns.is_none()
    }

    /// The length of the part that it keeps of a run of `length_ns`.
    pub(crate) fn length_ns(&self, length_ns: u64) -> u64 {
        self.to_ns.unwrap_or(length_ns).min(length_ns).saturating_sub(self.from_ns.unwrap_or(0))
    }

    pub fn wants_communicator(&self, members: &Members, member: u32) -> bool {
        self.communicators.is_empty() || {
            let communicator = usize::try_from(members.row(member).communicator).unwrap_or(usize::MAX);
            members.communicators.get(communicator).is_some_and(|comm| self.communicators.contains(comm))
        }
    }

    pub fn wants_function(&self, trace: &Trace, function: RegionRef) -> bool {
        self.functions.is_empty()
            || trace.region(function).is_some_and(|region| {
                let short = region.name.strip_prefix("nccl").unwrap_or(region.name);
                let mut wanted = self.functions.iter();
                wanted.any(|name| name.eq_ignore_ascii_case(region.name) || name.eq_ignore_ascii_case(short))
            })
    }

    pub(super) fn wants_rank(&self, members: &Members, member: u32) -> bool {
        self.ranks.is_empty() || self.ranks.contains(&members.row(member).rank)
    }

    /// Whether a rank of the job has a wanted rank in any of its communicators.
    pub fn wants_job_rank(&self, members: &Members, rank: usize) -> bool {
        let rank = members.job_ranks.get(rank);
        self.ranks.is_empty() || rank.is_some_and(|rank| rank.members.iter().any(|row| self.wants_rank(members, *row)))
    }

    pub(crate) fn wants(&self, trace: &Trace, members: &Members, operation: &Operation) -> bool {
        self.wants_communicator(members, operation.member)
            && self.wants_time(operation.start_ns, operation.stop_ns)
            && self.wants_function(trace, operation.function)
    }
}

/// Kernels of NCCL, and all others.
type KernelIntervals = [Vec<(u64, u64)>; 2];

/// How the kernels of each rank overlap; `None` if only NCCL's were recorded.
pub(super) fn overlaps(trace: &Trace, tables: &Tables, filter: &Filter) -> Option<Vec<Overlap>> {
    if tables.kernels.is_nccl.iter().all(|is_nccl| *is_nccl) {
        return None;
    }
    let mut groups: BTreeMap<LocationGroupRef, KernelIntervals> = BTreeMap::new();
    for kernel in tables.kernels.rows().filter(|kernel| filter.wants_time(kernel.start_ns, kernel.stop_ns)) {
        let group_intervals = groups.entry(trace.group(kernel.location)).or_default();
        group_intervals[usize::from(!kernel.is_nccl)].push((kernel.start_ns, kernel.stop_ns));
    }
    let made = in_parallel(tables.members.job_ranks.iter().enumerate(), |(number, rank)| {
        let [communication, computation] = groups.get(&rank.group)?.clone().map(union);
        let overlap_ns = overlap(&communication, &computation);
        let communication_ns = length(&communication);
        Some(Overlap {
            rank: small(number),
            communication_ns,
            computation_ns: length(&computation),
            overlap_ns,
            exposed_ns: communication_ns - overlap_ns,
        })
    });
    Some(made.into_iter().flatten().collect())
}
