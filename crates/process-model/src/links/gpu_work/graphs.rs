//! Kernels of replayed graphs: CUPTI gives them no external id, only the graph's and the node's numbers.
//!
//! ```text
//!  captured:  launch a   launch b           on one stream, in this order
//!  replay 1:  node 4     node 7             the k-th node by its first start is the k-th launch, where a device has
//!  replay 2:  node 4     node 7             as many nodes as launches, and one graph
//! ```
//!
//! The k-th kernel of a node is the k-th replay of its operations, if NCCL reported as many replays and each kernel
//! starts after its replay was reported: the kernel waits for the report.

use std::collections::{BTreeMap, BTreeSet};

use super::work::{GpuWork, Link, What};
use crate::links::operations::Activities;
use crate::links::replays::Replays;
use nccl_events::sort::Gather;
use tables::switches::Coverage;
use tables::{EventRow, KernelLaunch, Operation, Row, Tables};

/// A graph's node: graph and node, or 0 and node if CUPTI reports the original of a clone.
type Node = (u32, u64);

/// Indices in [`GpuWork::all`] by node, in time order.
type Nodes = BTreeMap<Node, Vec<usize>>;

fn nodes(work: &GpuWork) -> BTreeMap<u32, Nodes> {
    let mut devices: BTreeMap<u32, Nodes> = BTreeMap::new();
    for (at, one) in work.all.iter().enumerate() {
        if let (Link::Graph, What::Kernel(kernel)) = (one.link, one.what) {
            let node = match kernel.source_graph_node {
                0 => (kernel.graph, kernel.graph_node),
                source => (0, source),
            };
            devices.entry(one.stream.ordinal).or_default().entry(node).or_default().push(at);
        }
    }
    devices
}

/// A captured launch: start, row and stream.
type Captured = (u64, Row<KernelLaunch>, u64);

fn captured(work: &GpuWork, tables: &Tables, replays: &Replays) -> BTreeMap<u32, Vec<Captured>> {
    let mut devices: BTreeMap<u32, Vec<Captured>> = BTreeMap::new();
    for (row, launch) in tables.rows::<KernelLaunch>().filter(|&(row, _)| replays.is_captured_launch(row)) {
        // A launch on an unknown device could belong to any device.
        let Some(device) = launch.context_at().and_then(|at| work.devices.of_context(at)) else {
            return BTreeMap::new();
        };
        devices.entry(device).or_default().push((launch.start, row, launch.fields.stream));
    }
    for launches in devices.values_mut() {
        nccl_events::sort::sort(launches);
    }
    devices
}

/// Ties kernels of graphs to the captured launches, where only one assignment is possible.
pub(super) fn tie(work: &mut GpuWork, tables: &Tables, activities: &Activities, replays: &Replays) {
    // With events missing, order proves nothing.
    if Coverage::of(&tables.switches, &tables.removed, 0) != Coverage::Whole || work.is_missing_some() {
        return;
    }
    let nodes = nodes(work);
    let captured = captured(work, tables, replays);
    for (device, nodes) in nodes {
        let Some(launches) = captured.get(&device) else {
            continue;
        };
        let graphs: BTreeSet<u32> = nodes.keys().map(|&(graph, _)| graph).gather();
        let streams: BTreeSet<u64> = launches.iter().map(|&(.., stream)| stream).gather();
        if graphs.len() != 1 || streams.len() != 1 || nodes.len() != launches.len() {
            continue;
        }
        let mut in_order: Vec<Vec<usize>> = nodes.into_values().collect();
        // Kernels are sorted by start, so nodes sort by first start.
        nccl_events::sort::sort(&mut in_order);
        for (kernels, &(_, launch, _)) in in_order.iter().zip(launches) {
            tie_node(work, tables, activities, (launch, kernels));
        }
    }
}

fn tie_node(
    work: &mut GpuWork,
    tables: &Tables,
    activities: &Activities,
    (launch, kernels): (Row<KernelLaunch>, &[usize]),
) {
    for &kernel in kernels {
        if let Some(one) = work.all.get_mut(kernel) {
            one.link = Link::CapturedLaunch;
            one.launch = Some(EventRow::KernelLaunch(launch));
            one.parent = tables[launch].id;
        }
    }
    // The replays of each captured call: number, index of the activity, operation.
    let mut calls: BTreeMap<u64, Vec<(u64, usize, Operation<'_>)>> = BTreeMap::new();
    for (at, activity) in activities.all.iter().enumerate().filter(|(_, activity)| activity.launch == Some(launch)) {
        if let Some(number) = activity.replay {
            let operation = tables.operation(activity.operation);
            calls.entry(operation.parent).or_default().push((number, at, operation));
        }
    }
    let is_shared = calls.len() > 1;
    for mut of_call in calls.into_values() {
        nccl_events::sort::sort_by_key(&mut of_call, |&(number, at, _)| (number, at));
        let mut pairs = kernels.iter().zip(&of_call);
        let waits = pairs.all(|(&kernel, (_, _, operation))| {
            let begun = work.all.get(kernel).map(|one| one.start.saturating_add(one.uncertainty_ns));
            begun.is_some_and(|begun| operation.start <= begun)
        });
        if of_call.len() != kernels.len() || !waits {
            continue;
        }
        for (&kernel, (_, activity, operation)) in kernels.iter().zip(&of_call) {
            let by = work.of_activity.get_mut(*activity);
            if let (Some(one), Some(by)) = (work.all.get_mut(kernel), by) {
                by.work = Some(one.ran(is_shared));
                if !is_shared {
                    one.parent = operation.id;
                }
            }
        }
    }
}
