//! Operations by function, communicator and size class.

use std::collections::BTreeMap;

use nccl_events::collective::Function;
use nccl_events::sort::Gather;
use otf2::RegionRef;

use super::arrivals::Split;
use super::filter::Filter;
use super::instances::Instances;
use super::maths::sample::{quantiles, real};
use crate::archive::Trace;
use crate::parallel::in_parallel;
use crate::report::{Budget, OperationClass};
use crate::tables::{Operation, Tables};
use nccl_events::ids::{index as large, index_u32 as small};

/// Communicator, function, and the size's binary logarithm.
type Key = (u32, RegionRef, u32);

#[derive(Debug, Default)]
pub(super) struct Classes {
    pub(super) all: Vec<OperationClass>,
    numbers: BTreeMap<Key, u32>,
}

fn key(tables: &Tables, operation: &Operation) -> Key {
    (tables.members.row(operation.member).communicator, operation.function, operation.size_class())
}

impl Classes {
    pub(super) fn of(trace: &Trace, tables: &Tables, filter: &Filter) -> Self {
        let mut of_class: BTreeMap<Key, Vec<u32>> = BTreeMap::new();
        for (row, it) in (0..).zip(tables.operations.rows()) {
            if filter.wants(trace, &tables.members, &it) && filter.wants_rank(&tables.members, it.member) {
                of_class.entry(key(tables, &it)).or_default().push(row);
            }
        }
        let mut of_class: Vec<(Key, Vec<u32>)> = of_class.into_iter().gather();
        let name = |function| trace.function_name(function);
        nccl_events::sort::sort_by_key(&mut of_class, |((communicator, function, size), _)| {
            (*communicator, name(*function), *size)
        });
        let all = in_parallel(&of_class, |(key, rows)| class(trace, tables, *key, name(key.1), rows));
        Self { all, numbers: of_class.iter().map(|(key, _)| *key).zip(0..).gather() }
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
        for instance in instances.all.iter().filter(|it| it.is_comparable()) {
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

fn class(trace: &Trace, tables: &Tables, key: Key, function: String, rows: &[u32]) -> OperationClass {
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
            bus.push(bandwidths.1);
        }
    }
    class.duration_ns = quantiles(durations);
    class.algbw = quantiles(algorithm);
    class.busbw = quantiles(bus);
    class
}
