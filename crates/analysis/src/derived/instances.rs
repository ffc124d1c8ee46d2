//! Matches the operations of a collective across ranks, and derives arrivals as far as the clocks allow.

use std::collections::BTreeMap;

use nccl_events::archive::Timing;
use nccl_events::collective::{Collective, Flow};
use otf2::RegionRef;
use rayon::prelude::*;

use super::arrivals::{Arrival, Arrivals, Incomparable, Last, Split};
use super::filter::Filter;
use crate::archive::Trace;
use crate::tables::{Members, NO_SEQUENCE, NONE, Operation, Operations, Tables};
use nccl_events::ids::{index as large, index_u32 as small};

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

    pub fn of_operation(&self, row: u32) -> Option<u32> {
        self.of_operation.get(large(row)).copied().filter(|instance| *instance != NONE)
    }

    /// Matches operations by communicator, function and NCCL's sequence number. Operations made of sends and receives
    /// have no number: they are matched by position among their kind, if all ranks have equally many.
    pub fn of(trace: &Trace, tables: &Tables, filter: &Filter) -> Self {
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
        if filter.from_ns.is_some() || filter.to_ns.is_some() {
            found.keep(|it| filter.wants_time(it.arrivals.first_ns, it.arrivals.end_ns));
        }
        found
    }

    fn add_repeats(
        &mut self,
        tables: &Tables,
        rows: &[u32],
        repeats: &[Repeat],
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

/// A replay's number, and the operation's among those with it: captured collectives can share one sequence number.
type Repeat = (u32, u32);

fn repeats(operations: &Operations, rows: &mut [u32]) -> Vec<Repeat> {
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
pub(super) fn own_error_ns(members: &Members, operation: &Operation) -> Option<u64> {
    let timing = operation.timing.filter(|timing| timing.is_measured())?;
    let by_gpu_clock = matches!(timing, Timing::Cupti | Timing::Event);
    members.own_error_ns(operation.member, timing == Timing::KernelChannel, by_gpu_clock)
}

fn arrival(tables: &Tables, row: u32) -> Arrival {
    let operation = tables.operations.row(large(row));
    Arrival { start_ns: operation.start_ns, stop_ns: operation.stop_ns, is_root: is_root(tables, &operation) }
}

/// The arrivals; no rank is last if the operations cannot be compared.
fn arrivals(tables: &Tables, communicator: u32, flow: Flow, rows: &[u32]) -> (Arrivals, Last) {
    let ranks: Vec<Arrival> = rows.iter().map(|row| arrival(tables, *row)).collect();
    let (mut found, mut last) = Arrivals::of(flow, &ranks, |a, b| tables.error_ns(rows[a], rows[b]));
    if found.error_ns != Err(Incomparable::RankMissing) {
        found.error_ns = measured(tables, communicator, rows).and(found.error_ns);
    }
    if found.error_ns.is_err() {
        last = Last::default();
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

    /// How long one of its operations waited; `None` if the clocks cannot tell.
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
