//! The sample of a run: one value per collective. Ranks of a collective end together, so they are not independent.

use std::collections::BTreeMap;

use nccl_events::sort::Gather;

use crate::archive::Trace;
use crate::derived::arrivals::Split;
use crate::derived::filter::Filter;
use crate::derived::instances::{Instances, own_error_ns};
use crate::derived::maths::sample::{real, whole};
use crate::report::{Communicator, Kind, Rank, Report};
use crate::tables::{Operation, Tables};
use nccl_events::ids::{index as large, index_u32 as small};

/// The placement of a communicator's ranks: for each, its host, numbered in order of appearance, and its rank in the
/// job relative to the first member's. `None` for ranks that were not recorded.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Shape(Vec<Option<(u32, Option<u32>)>>);

/// Operations of two runs are matched by shape and by this: function, binary logarithm of the size, timing.
pub(super) type Class = (String, u32, &'static str);

#[derive(Clone, Debug, Default)]
pub(super) struct Sample {
    pub(super) kind: Kind,
    /// For each collective in time order, the means over its ranks of time, waiting and transfer.
    pub(super) durations: Vec<f64>,
    pub(super) waiting: Vec<f64>,
    pub(super) transfer: Vec<f64>,
    /// Largest error of a duration; `None` if the error of any duration is unknown.
    pub(super) duration_error_ns: Option<u64>,
    is_measured: bool,
    /// Largest error between the arrivals of two ranks.
    pub(super) arrival_error_ns: u64,
}

/// An operation: its collective, or its position on its rank; start, duration and waiting.
struct Value {
    unit: (u32, Option<u32>, u32),
    start_ns: u64,
    duration_ns: f64,
    waiting_ns: Option<f64>,
}

impl Shape {
    pub fn of(communicator: &Communicator, ranks: &[Rank]) -> Self {
        let members = communicator.members.iter().map(|member| ranks.get(large((*member)?)));
        let first = members.clone().flatten().find_map(|rank| rank.number);
        let mut hosts: Vec<&str> = Vec::new();
        let mut shape = Vec::new();
        for rank in members {
            let Some(rank) = rank else {
                shape.push(None);
                continue;
            };
            let host = hosts.iter().position(|host| *host == rank.host).unwrap_or(hosts.len());
            if host == hosts.len() {
                hosts.push(&rank.host);
            }
            // A later member may have a lower number: the difference wraps, and equal shapes still compare equal.
            shape.push(Some((small(host), rank.number.zip(first).map(|(number, first)| number.wrapping_sub(first)))));
        }
        Self(shape)
    }

    /// The number of ranks of each host, descending; `None` if a rank was not recorded.
    pub fn hosts(&self) -> Option<Vec<u32>> {
        let mut counts = BTreeMap::<u32, u32>::new();
        for rank in &self.0 {
            *counts.entry((*rank)?.0).or_default() += 1;
        }
        let mut counts: Vec<u32> = counts.into_values().collect();
        nccl_events::sort::sort_by(&mut counts, |a, b| b.cmp(a));
        Some(counts)
    }

    /// Whether two shapes agree as far as both are known.
    pub fn fits(&self, other: &Self) -> bool {
        let fits = |(a, b): (&Option<(u32, Option<u32>)>, _)| match (a, b) {
            (Some((host, rank)), &Some((other_host, other_rank))) => {
                *host == other_host && rank.zip(other_rank).is_none_or(|(a, b): (u32, u32)| a == b)
            }
            _ => true,
        };
        self.0.len() == other.0.len() && self.0.iter().zip(&other.0).all(fits)
    }
}

pub(super) fn samples(
    trace: &Trace,
    tables: &Tables,
    instances: &Instances,
    report: &Report,
    filter: &Filter,
) -> BTreeMap<(Shape, Class), Sample> {
    let shapes: Vec<Shape> = report.communicators.iter().map(|it| Shape::of(it, &report.ranks)).collect();
    let mut samples = BTreeMap::<(Shape, Class), (Sample, Vec<Value>)>::new();
    let mut rows: BTreeMap<_, Vec<u32>> = BTreeMap::new();
    for (row, operation) in (0..).zip(tables.operations.rows()) {
        if filter.wants(trace, &tables.members, &operation) && filter.wants_rank(&tables.members, operation.member) {
            let communicator = tables.members.row(operation.member).communicator;
            let key = (communicator, operation.function, operation.size_class(), operation.timing);
            rows.entry(key).or_default().push(row);
        }
    }
    for ((communicator, function, size, timing), rows) in rows {
        let class = (trace.function_name(function), size, timing.map_or("unknown", |timing| timing.name()));
        let (Some(shape), Some(known)) =
            (shapes.get(large(communicator)), report.communicators.get(large(communicator)))
        else {
            continue;
        };
        let (sample, values) = samples.entry((shape.clone(), class.clone())).or_insert_with(|| {
            let hosts = shape.0.iter().flatten().map(|(host, _)| host + 1).max().unwrap_or(0);
            (Sample::new(Kind { hosts, ranks: known.ranks, ..kind(class) }), Vec::new())
        });
        sample.kind.communicators.push(known.name.clone());
        // Positions of operations on their ranks.
        let mut places: BTreeMap<u32, u32> = BTreeMap::new();
        for row in rows {
            let operation = tables.operations.row(large(row));
            sample.count(tables, &operation);
            if !operation.is_unfinished {
                let place = places.entry(operation.member).or_default();
                values.push(sample.value(tables, instances, row, &operation, (communicator, *place)));
                *place += 1;
            }
        }
    }
    samples.into_iter().map(|(key, (sample, values))| (key, sample.with(values))).gather()
}

fn kind((function, _, timing): Class) -> Kind {
    Kind { function, timing: timing.to_owned(), bytes_min: u64::MAX, ..Kind::default() }
}

impl Sample {
    fn new(kind: Kind) -> Self {
        Self { kind, duration_error_ns: Some(0), is_measured: true, ..Self::default() }
    }

    fn count(&mut self, tables: &Tables, operation: &Operation) {
        let kind = &mut self.kind;
        kind.operations += 1;
        kind.unfinished += u64::from(operation.is_unfinished);
        kind.bytes_min = kind.bytes_min.min(operation.bytes);
        kind.bytes_max = kind.bytes_max.max(operation.bytes);
        self.is_measured &= operation.is_measured();
        // A duration is the difference of two times of one clock.
        let error_ns = own_error_ns(&tables.members, operation).map(|error_ns| 2 * error_ns);
        self.duration_error_ns = self.duration_error_ns.zip(error_ns).map(|(a, b)| a.max(b));
    }

    fn value(
        &mut self,
        tables: &Tables,
        instances: &Instances,
        row: u32,
        operation: &Operation,
        (communicator, place): (u32, u32),
    ) -> Value {
        let (start_ns, stop_ns) = (operation.start_ns, operation.stop_ns.max(operation.start_ns));
        let number = instances.of_operation(row);
        let instance = number.and_then(|number| instances.all.get(large(number)));
        let waiting_ns = instance.and_then(|instance| {
            self.arrival_error_ns = self.arrival_error_ns.max(instance.arrivals.error_ns.ok()?);
            let (Split::Waits(until_ns) | Split::Unclear(until_ns)) = instance.split(tables, row);
            Some(real(until_ns.clamp(start_ns, stop_ns) - start_ns))
        });
        let unit = (communicator, number, if number.is_some() { 0 } else { place });
        Value { unit, start_ns, duration_ns: real(stop_ns - start_ns), waiting_ns }
    }

    fn with(mut self, mut values: Vec<Value>) -> Self {
        values.sort_unstable_by_key(|it| (it.unit, it.start_ns));
        let total_ns = whole(values.iter().map(|it| it.duration_ns).sum());
        self.kind.total_ns = self.is_measured.then_some(total_ns);
        let mut units: Vec<&[Value]> = values.chunk_by(|a, b| a.unit == b.unit).collect();
        units.sort_by_key(|unit| unit.first().map(|it| it.start_ns));
        self.kind.count = units.len() as u64;
        for unit in units {
            let ranks = real(unit.len() as u64);
            let duration_ns = unit.iter().map(|it| it.duration_ns).sum::<f64>() / ranks;
            self.durations.push(duration_ns);
            if let Some(waiting_ns) = unit.iter().map(|it| it.waiting_ns).sum::<Option<f64>>() {
                self.waiting.push(waiting_ns / ranks);
                self.transfer.push(duration_ns - waiting_ns / ranks);
            }
        }
        self
    }
}
