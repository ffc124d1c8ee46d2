//! Kernels of replayed graphs: CUPTI gives them no external id, only the graph's and the node's numbers.
//!
//! ```text
//!  captured:  launch a   launch b           on one stream, in this order
//!  replay 1:  node 4     node 7             the k-th node by its first start is the k-th launch, where a device has
//!  replay 2:  node 4     node 7             as many nodes as launches, and one graph
//! ```
//!
//! The k-th kernel of a node is the k-th replay of its operations, where NCCL reported as many and each kernel starts
//! after its replay was reported, for which it waits.

use nccl_events::event;
use std::collections::{BTreeMap, BTreeSet};

use super::{GpuWork, Link, What};
use crate::links::correlate::Activity;
use crate::links::replays::Replays;
use crate::tables::assembly::Assembly;
use crate::tables::place::{index, place};
use crate::timeline::measurement::Cut;
use nccl_events::Body;

/// A graph's node: graph and node, or node alone where CUPTI tells what was captured.
type Node = (u32, u64);

/// Places of kernels, by node, in the order of time.
type Nodes = BTreeMap<Node, Vec<usize>>;

/// The kernels of graphs on each device.
fn nodes(work: &GpuWork) -> BTreeMap<u32, Nodes> {
    let mut devices: BTreeMap<u32, Nodes> = BTreeMap::new();
    for (at, one) in work.all.iter().enumerate() {
        if let (Link::Graph, What::Kernel(kernel)) = (one.link, one.what) {
            let node = match kernel.source_graph_node {
                0 => (kernel.graph, kernel.graph_node),
                source => (0, source),
            };
            let nodes = devices.entry(one.row.ordinal).or_default();
            nodes.entry(node).or_default().push(at);
        }
    }
    devices
}

/// The captured launches of each device: start, place and stream.
fn captured(
    work: &GpuWork,
    assembly: &Assembly,
    replays: &Replays,
) -> BTreeMap<u32, Vec<(u64, u32, u64)>> {
    let mut devices: BTreeMap<u32, Vec<(u64, u32, u64)>> = BTreeMap::new();
    for (at, operation) in assembly.operations.iter().enumerate() {
        let at = place(at);
        let Body::KernelLaunch(event::KernelLaunch { stream }) = assembly.fields_of(operation)
        else {
            continue;
        };
        if !replays.is_captured_launch(at) {
            continue;
        }
        let context = assembly.find_context(assembly.context_of(operation));
        // One of any device could be of each.
        let Some(device) = context.and_then(|at| work.devices.of_context(at)) else {
            return BTreeMap::new();
        };
        let launches = devices.entry(device).or_default();
        launches.push((operation.start, at, stream));
    }
    for launches in devices.values_mut() {
        launches.sort_unstable();
    }
    devices
}

/// Ties kernels of graphs to the launches that were captured, where there is only one way to do so.
pub(super) fn tie(
    work: &mut GpuWork,
    assembly: &Assembly,
    activities: &[Activity],
    replays: &Replays,
) {
    // Where something is missing, order says nothing.
    if Cut::of(assembly, 0) != Cut::Whole || work.is_missing_some() {
        return;
    }
    let nodes = nodes(work);
    let captured = captured(work, assembly, replays);
    for (device, nodes) in nodes {
        let Some(launches) = captured.get(&device) else {
            continue;
        };
        let graphs: BTreeSet<u32> = nodes.keys().map(|&(graph, _)| graph).collect();
        let streams: BTreeSet<u64> = launches.iter().map(|&(.., stream)| stream).collect();
        if graphs.len() != 1 || streams.len() != 1 || nodes.len() != launches.len() {
            continue;
        }
        let mut in_order: Vec<Vec<usize>> = nodes.into_values().collect();
        // Kernels come by start.
        in_order.sort();
        for (kernels, &(_, launch, _)) in in_order.iter().zip(launches) {
            tie_node(work, assembly, activities, replays, (launch, kernels));
        }
    }
}

fn tie_node(
    work: &mut GpuWork,
    assembly: &Assembly,
    activities: &[Activity],
    replays: &Replays,
    (launch, kernels): (u32, &[usize]),
) {
    let id = assembly.operation(launch).map_or(0, |launch| launch.id);
    for &kernel in kernels {
        if let Some(one) = work.all.get_mut(kernel) {
            one.link = Link::CapturedLaunch;
            one.launch = launch;
            one.parent = id;
        }
    }
    // The replays of each captured call: number and activity.
    let mut calls: BTreeMap<u64, Vec<(u64, u32)>> = BTreeMap::new();
    for (at, activity) in activities.iter().enumerate() {
        if activity.launch == launch
            && let Some(number) = replays.number(activity.operation)
            && let Some(operation) = assembly.operation(activity.operation)
        {
            let of_call = calls.entry(operation.parent).or_default();
            of_call.push((number, place(at)));
        }
    }
    let is_shared = calls.len() > 1;
    for mut of_call in calls.into_values() {
        of_call.sort_unstable();
        let waits = |(&kernel, &(_, activity)): (&usize, &(u64, u32))| {
            let operation = activities.get(index(activity));
            let operation = operation.and_then(|at| assembly.operation(at.operation));
            match (work.all.get(kernel), operation) {
                (Some(one), Some(operation)) => {
                    operation.start <= one.start.saturating_add(one.uncertainty_ns)
                }
                _ => false,
            }
        };
        if of_call.len() != kernels.len() || !kernels.iter().zip(&of_call).all(waits) {
            continue;
        }
        for (&kernel, &(_, activity)) in kernels.iter().zip(&of_call) {
            let operation = activities.get(index(activity));
            let operation = operation.and_then(|at| assembly.operation(at.operation));
            let by = work.of_activity.get_mut(index(activity));
            if let (Some(one), Some(by), Some(operation)) =
                (work.all.get_mut(kernel), by, operation)
            {
                by.work = Some(one.ran(is_shared));
                if !is_shared {
                    one.parent = operation.id;
                }
            }
        }
    }
}
