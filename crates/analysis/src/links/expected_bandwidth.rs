//! The bus bandwidth that NCCL's own model allows: what its tuner computes from the graph of an algorithm.
//! [`StatedTopology`] is the topology that an archive states in its definitions, graphs included.

use std::collections::{BTreeMap, BTreeSet};

use crate::read::{NONE, Operation, Tables};
use crate::results::{
    Communicator, Graph as GraphOf, GraphChannel, Nic, OperationClass, Topology, TopologyGpu, TopologyHost,
};
use crate::statistics::network::ConnectionKey;
use crate::{Filter, Trace, median, stated};
use nccl_events::collective::{Collective, Function};
use nccl_events::ids::{index, index_u32};
use nccl_events::schema::definition::{
    ChannelNics, DefinitionProperty, GpuCapability, GpuNvlinks, GpuPci, GraphCollNetChain, GraphCollNetDirect,
    GraphNvls, GraphRing, GraphTree, NicDevice, NicGdr, NicSpeed, PciAddress, PciPath,
};
use nccl_events::sort::Gather;
use otf2::records::SystemTreeNode;
use otf2::{SystemTreeDomain, SystemTreeNodeRef};
use topology::{Algorithm, ChannelNic, Graph, GraphKind, Protocol};

const GB: f64 = 1e9;
/// NCCL's `NCCL_TOPO_PATTERN_TREE`: one GPU of each host carries all traffic of the network.
const PATTERN_TREE: u32 = 3;

/// A communicator as the model sees it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Shape {
    pub(crate) ranks: u32,
    pub(crate) hosts: u32,
    /// Lowest compute capability of its GPUs, times ten.
    pub(crate) capability: u32,
}

/// The properties of a graph that the model uses: the minimum over all hosts.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct GraphBandwidth {
    pub(crate) channels: f64,
    pub(crate) pattern: u32,
    /// Bandwidth of a channel between GPUs of a host, in GB/s.
    pub(crate) intra: f64,
    pub(crate) inter: f64,
}

/// Sets the expected bus bandwidth of each class of collectives that the model covers.
pub(crate) fn add(
    trace: &Trace,
    tables: &Tables,
    filter: &Filter,
    map: &StatedTopology,
    classes: &mut [OperationClass],
) {
    let models = models(trace, tables, map);
    if models.is_empty() {
        return;
    }
    let numbers: BTreeMap<(u32, &str, u32), usize> = classes
        .iter()
        .enumerate()
        .map(|(number, class)| ((class.communicator, class.function.as_str(), size_bits(class.bytes_max)), number))
        .gather();
    let mut found: BTreeMap<usize, (Vec<f64>, BTreeSet<Algorithm>)> = BTreeMap::new();
    for operation in tables.operations.rows() {
        let member = tables.members.row(operation.member);
        let Some((shape, graphs)) = models.get(&member.communicator) else { continue };
        let name = trace.function_name(operation.function);
        let Some(number) = numbers.get(&(member.communicator, name.as_str(), size_bits(operation.bytes))) else {
            continue;
        };
        let is_wanted = filter.wants_time(operation.start_ns, operation.stop_ns)
            && (filter.ranks.is_empty() || filter.ranks.contains(&member.rank));
        if let Some((algorithm, bandwidth)) =
            expected_bandwidth(trace, &operation, *shape, graphs).filter(|_| is_wanted)
        {
            let (bandwidths, algorithms) = found.entry(*number).or_default();
            bandwidths.push(bandwidth);
            algorithms.insert(algorithm);
        }
    }
    for (number, (mut bandwidths, algorithms)) in found {
        let class = &mut classes[number];
        let expected = median(&mut bandwidths);
        let measured = class.transfer_busbw.as_ref().or(class.busbw.as_ref()).map(|quantiles| quantiles.median);
        class.expected_busbw = Some(expected);
        class.expected_share = measured.filter(|_| expected > 0.0).map(|measured| measured / expected);
        class.reduced_by = reducers(&algorithms).map(str::to_owned).collect();
    }
}

fn size_bits(bytes: u64) -> u32 {
    u64::BITS - bytes.leading_zeros()
}

/// Names the reducers other than GPUs that the algorithms use. They let the bus bandwidth exceed that of the links.
fn reducers(algorithms: &BTreeSet<Algorithm>) -> impl Iterator<Item = &'static str> {
    let has = |wanted: &[Algorithm]| wanted.iter().any(|algorithm| algorithms.contains(algorithm));
    let nvls = has(&[Algorithm::Nvls, Algorithm::NvlsTree]).then_some("NVLS");
    let network = has(&[Algorithm::CollNetDirect, Algorithm::CollNetChain]).then_some("network");
    nvls.into_iter().chain(network)
}

/// Keyed by communicator: its shape, and for each kind of graph the minimum over its hosts.
type Models = BTreeMap<u32, (Shape, BTreeMap<GraphKind, GraphBandwidth>)>;

fn models(trace: &Trace, tables: &Tables, map: &StatedTopology) -> Models {
    let capability = map.capability();
    let mut models = Models::new();
    let communicators: BTreeSet<u32> = map.graphs.keys().map(|(communicator, _)| *communicator).gather();
    for communicator in communicators {
        let size = tables.members.size(communicator);
        if tables.members.recorded(communicator) < size {
            continue;
        }
        let members = tables.members.all.iter().filter(|member| member.communicator == communicator);
        let mut sizes: BTreeMap<_, usize> = BTreeMap::new();
        for member in members {
            *sizes.entry(trace.host(trace.group(member.location))).or_default() += 1;
        }
        let shape = Shape { ranks: index_u32(size), hosts: index_u32(sizes.len()), capability };
        let host_graphs = map.graphs.range((communicator, 0)..=(communicator, u32::MAX));
        // If GPUs of a host cannot reach each other, NCCL treats each one as a host, and this model does not apply.
        let is_whole = |host: u32, graph: &Graph| {
            let mut on_host =
                sizes.iter().filter(|(node, _)| node.and_then(|node| map.nodes.get(&node)) == Some(&host));
            graph.kind == GraphKind::Nvls || on_host.any(|(_, size)| *size == graph.ranks().len())
        };
        if !host_graphs.clone().all(|((_, host), graphs)| graphs.iter().all(|graph| is_whole(*host, graph))) {
            continue;
        }
        let mut lanes: BTreeMap<GraphKind, GraphBandwidth> = BTreeMap::new();
        for graph in host_graphs.flat_map(|(_, graphs)| graphs) {
            let own = GraphBandwidth::from_graph(graph);
            lanes.entry(graph.kind).and_modify(|least| *least = least.least(own)).or_insert(own);
        }
        models.insert(communicator, (shape, lanes));
    }
    models
}

impl GraphBandwidth {
    fn from_graph(graph: &Graph) -> Self {
        let channels = index_u32(graph.channels.len()).into();
        Self { channels, pattern: graph.pattern, intra: graph.speed_intra, inter: graph.speed_inter }
    }

    fn least(self, other: Self) -> Self {
        Self {
            channels: self.channels.min(other.channels),
            pattern: self.pattern.max(other.pattern),
            intra: self.intra.min(other.intra),
            inter: self.inter.min(other.inter),
        }
    }
}

fn expected_bandwidth(
    trace: &Trace,
    operation: &Operation,
    shape: Shape,
    graphs: &BTreeMap<GraphKind, GraphBandwidth>,
) -> Option<(Algorithm, f64)> {
    let (algorithm, protocol) = operation.by?;
    let collective = trace.function(operation.function).and_then(Function::collective)?;
    let graph = graphs.get(&algorithm.graph())?;
    Some((algorithm, bus_bandwidth(collective, (algorithm, protocol), shape, *graph)?))
}

/// The bus bandwidth in bytes per second, as nccl-tests defines it. Follows `ncclTopoTuneModel`, without its limits for
/// GPU generations.
pub(crate) fn bus_bandwidth(
    collective: Collective,
    (algorithm, protocol): (Algorithm, Protocol),
    shape: Shape,
    graph: GraphBandwidth,
) -> Option<f64> {
    let Shape { ranks, hosts, .. } = shape;
    if ranks < 2 || hosts == 0 {
        return None;
    }
    let (ranks, per_host) = (f64::from(ranks), f64::from(ranks) / f64::from(hosts));
    let is_reduce = collective == Collective::AllReduce;
    let is_nvls = matches!(algorithm, Algorithm::Nvls | Algorithm::NvlsTree);
    let is_collnet = matches!(algorithm, Algorithm::CollNetDirect | Algorithm::CollNetChain);
    let channel = match (is_nvls, hosts <= 2 || is_collnet) {
        (true, _) => nvls(is_reduce, algorithm, shape, graph)?,
        (false, true) => graph.intra,
        (false, false) => graph.inter,
    };
    let mut bandwidth = graph.channels * channel;
    bandwidth *= match (algorithm, protocol) {
        (Algorithm::Ring, Protocol::Ll) => 0.5,
        (Algorithm::Ring, Protocol::Ll128) => 0.92,
        (Algorithm::Tree, protocol) => {
            let reduces = if is_reduce { 0.92 } else { 1.0 };
            let near = if hosts == 1 { 7.0 / 9.0 } else { 120.0 / 128.0 };
            let by_protocol = [1.0 / 3.8, near, 1.0][protocol as usize];
            reduces * by_protocol * if graph.pattern == PATTERN_TREE { 0.85 } else { 1.0 }
        }
        (Algorithm::Pat, _) => 0.75,
        (Algorithm::CollNetDirect, _) if matches!(collective, Collective::AllGather | Collective::ReduceScatter) => {
            per_host * graph.intra.min(graph.inter * 0.9) / bandwidth.max(f64::MIN_POSITIVE)
        }
        (Algorithm::CollNetDirect, _) => {
            let by_nic = per_host / graph.channels;
            let newer = if shape.capability >= 90 { 0.85 } else { 1.0 };
            newer / (by_nic - (by_nic - 1.0) / 2.0)
        }
        _ => 1.0,
    };
    // Convert to algorithm bandwidth as NCCL does, then to bus bandwidth as nccl-tests does.
    let is_gather = matches!(collective, Collective::AllGather | Collective::ReduceScatter);
    let ratio = match algorithm {
        Algorithm::Ring => ranks / steps(collective, ranks),
        _ if is_gather => 1.0,
        Algorithm::Nvls | Algorithm::NvlsTree => ranks / steps(collective, ranks),
        _ => 0.5,
    };
    Some(bandwidth * ratio * collective.bus_factor(shape.ranks) * GB)
}

fn steps(collective: Collective, ranks: f64) -> f64 {
    match collective {
        Collective::AllReduce => 2.0 * (ranks - 1.0),
        Collective::AllGather | Collective::ReduceScatter => ranks - 1.0,
        _ => ranks,
    }
}

/// Bandwidth of an NVLS channel in GB/s; `None` if NCCL's model does not cover these GPUs or this graph.
fn nvls(is_reduce: bool, algorithm: Algorithm, shape: Shape, graph: GraphBandwidth) -> Option<f64> {
    let efficiency = match shape.capability {
        100.. => 0.74,
        90.. => 0.85,
        _ => return None,
    };
    if graph.channels < 2.0 {
        return None;
    }
    let per_host = f64::from(shape.ranks) / f64::from(shape.hosts);
    let both_ways = if is_reduce { 2.0 } else { (per_host - 1.0) / per_host };
    let intra = graph.intra * efficiency * (graph.channels - 1.0) / graph.channels * both_ways;
    let twice = if shape.hosts <= 2 && algorithm == Algorithm::NvlsTree { 2.0 } else { 1.0 };
    Some(intra.min(graph.inter * twice))
}

/// A rank's row in `Members`, a channel, and whether the rank sends.
pub(crate) type ChannelEnd = (u32, u32, bool);

/// The interface of a channel.
#[derive(Clone, Debug)]
pub(crate) struct ChannelInterface {
    /// An index into [`StatedTopology::nics`].
    pub(crate) nic: u32,
    /// NCCL's name for the path between GPU and interface, such as `PIX`; empty if unknown.
    pub(crate) path: String,
}

/// The topology that an archive states in its definitions.
#[derive(Debug, Default)]
pub(crate) struct StatedTopology {
    hosts: Vec<TopologyHost>,
    /// Index in `hosts` of each host's node.
    pub(crate) nodes: BTreeMap<SystemTreeNodeRef, u32>,
    pub(crate) nics: Vec<Nic>,
    /// NCCL's device number of each element of `nics`.
    devices: Vec<u64>,
    pub(crate) channels: BTreeMap<ChannelEnd, ChannelInterface>,
    /// Keyed by communicator and index in `hosts`.
    pub(crate) graphs: BTreeMap<(u32, u32), Vec<Graph>>,
    unused: Vec<String>,
}

/// Limit on the hosts whose graphs are described: the page draws each graph, and hosts of a job are mostly alike.
const MOST_HOSTS: usize = 64;
const MBIT: f64 = 1e6 / 8.0;

impl StatedTopology {
    /// The interface that a connection sends over.
    pub(crate) fn interface(&self, tables: &Tables, ((communicator, from, _), channel): ConnectionKey) -> Option<u32> {
        let member = tables.members.find(communicator, from)?;
        Some(self.channels.get(&(member, channel, true))?.nic)
    }

    /// The speed of that interface, in bytes per second.
    pub(crate) fn speed(&self, tables: &Tables, connection: ConnectionKey) -> Option<f64> {
        self.nics.get(index(self.interface(tables, connection)?))?.speed
    }

    /// `None` for an archive without topology.
    pub(crate) fn from_trace(trace: &Trace, tables: &Tables) -> Option<Self> {
        let statements = &trace.statements;
        let unused = statements.unused_dumps();
        if statements.topology_hosts.get() == 0 && unused.is_empty() {
            return None;
        }
        let mut map = Self { unused, ..Self::default() };
        let mut hosts: BTreeMap<SystemTreeNodeRef, u32> = BTreeMap::new();
        for node in trace.definitions.system_tree_nodes.values() {
            map.add_node(trace, node, &mut hosts);
        }
        map.add_ranks(trace, tables, &hosts);
        map.add_channels(trace, tables, &hosts);
        map.nodes = hosts;
        Some(map)
    }

    fn add_node(&mut self, trace: &Trace, node: &SystemTreeNode, hosts: &mut BTreeMap<SystemTreeNodeRef, u32>) {
        let Some(path) = node_property(trace, node, PciPath).map(str::to_owned) else {
            return;
        };
        let next = index_u32(self.hosts.len());
        let host = *hosts.entry(node.parent).or_insert(next);
        if host == next {
            let name = trace.node_name(node.parent).unwrap_or_default().to_owned();
            self.hosts.push(TopologyHost { name, gpus: Vec::new() });
        }
        let pci = node_property(trace, node, PciAddress).unwrap_or_default().to_owned();
        if !node.domains.contains(&SystemTreeDomain::NetworkingDevice) {
            let gpu = TopologyGpu {
                pci,
                path,
                capability: node_property(trace, node, GpuCapability).unwrap_or(0),
                nvlinks: node_property(trace, node, GpuNvlinks).unwrap_or(0),
                rank: None,
            };
            self.hosts[index(host)].gpus.push(gpu);
            return;
        }
        let name = trace.definitions.string(node.name).unwrap_or_default();
        let speed = node_property(trace, node, NicSpeed).and_then(|speed| u32::try_from(speed).ok());
        self.nics.push(Nic {
            host,
            name: name.strip_prefix("NIC ").unwrap_or(name).to_owned(),
            pci,
            path,
            gdr: node_property(trace, node, NicGdr) == Some(true),
            speed: speed.map(|speed| f64::from(speed) * MBIT),
            ..Nic::default()
        });
        self.devices.push(node_property(trace, node, NicDevice).unwrap_or(u64::MAX));
    }

    fn add_ranks(&mut self, trace: &Trace, tables: &Tables, hosts: &BTreeMap<SystemTreeNodeRef, u32>) {
        for member in &tables.members.all {
            let host = trace.host(trace.group(member.location)).and_then(|host| hosts.get(&host)).copied();
            let Some(host) = host else { continue };
            if let Some(pci) = trace.location_property(member.location, GpuPci) {
                let mut gpus = self.hosts[index(host)].gpus.iter_mut();
                if let Some(gpu) = gpus.find(|gpu| gpu.pci == pci) {
                    gpu.rank.get_or_insert(member.job_rank);
                }
            }
            let texts = [
                trace.location_property(member.location, GraphRing),
                trace.location_property(member.location, GraphTree),
                trace.location_property(member.location, GraphCollNetChain),
                trace.location_property(member.location, GraphCollNetDirect),
                trace.location_property(member.location, GraphNvls),
            ];
            let graphs: Vec<Graph> = texts.into_iter().flatten().filter_map(|text| text.parse().ok()).collect();
            if !graphs.is_empty() {
                self.graphs.entry((member.communicator, host)).or_default().extend(graphs);
            }
        }
    }

    fn add_channels(&mut self, trace: &Trace, tables: &Tables, hosts: &BTreeMap<SystemTreeNodeRef, u32>) {
        let numbers: BTreeMap<(u32, String), u32> =
            (0..).zip(&self.nics).map(|(number, nic)| ((nic.host, nic.name.clone()), number)).gather();
        for (row, member) in (0..).zip(&tables.members.all) {
            let host = trace.host(trace.group(member.location)).and_then(|host| hosts.get(&host)).copied();
            let nics = trace.location_property(member.location, ChannelNics).unwrap_or_default();
            for ChannelNic { channel, is_send, path, nic } in nics.lines().filter_map(ChannelNic::parse) {
                if let Some(nic) = host.and_then(|host| numbers.get(&(host, nic))) {
                    self.channels.insert((row, channel, is_send), ChannelInterface { nic: *nic, path });
                }
            }
        }
    }

    /// The lowest compute capability, times ten; 0 if it is unknown.
    pub(crate) fn capability(&self) -> u32 {
        let all = self.hosts.iter().flat_map(|host| &host.gpus).map(|gpu| gpu.capability);
        all.filter(|capability| *capability > 0).min().unwrap_or(0)
    }

    fn nic(&self, host: u32, device: u64) -> Option<u32> {
        let all = (0..).zip(self.nics.iter().zip(&self.devices));
        all.filter(|(_, (nic, known))| nic.host == host && **known == device).map(|(number, _)| number).next()
    }

    /// The hosts, and the graphs of the largest communicator.
    pub(crate) fn described(&self, communicators: &[Communicator]) -> Topology {
        let size = |number: u32| communicators.get(index(number)).map_or(0, |comm| comm.ranks);
        let known: BTreeSet<u32> = self.graphs.keys().map(|(communicator, _)| *communicator).gather();
        let with_graphs = index_u32(known.len());
        let largest = known.into_iter().rev().max_by_key(|number| size(*number)).unwrap_or(NONE);
        let largest_graphs = self.graphs.iter().filter(|((communicator, _), _)| *communicator == largest);
        let members = communicators.get(index(largest)).map_or(&[][..], |comm| &comm.members);
        let mut graphs = Vec::new();
        for ((communicator, host), host_graphs) in largest_graphs.take(MOST_HOSTS) {
            let way = |way: Option<topology::PathType>| way.map(|way| way.name().to_owned());
            let nic = |device: Option<u64>| device.and_then(|device| self.nic(*host, device));
            graphs.extend(host_graphs.iter().map(|graph| {
                GraphOf {
                    communicator: *communicator,
                    host: *host,
                    kind: graph.kind.name().to_owned(),
                    speed_intra: graph.speed_intra * GB,
                    speed_inter: graph.speed_inter * GB,
                    type_intra: way(graph.type_intra),
                    type_inter: way(graph.type_inter),
                    channels: graph
                        .channels
                        .iter()
                        .map(|channel| GraphChannel {
                            nic_in: nic(channel.net_in),
                            ranks: channel
                                .ranks
                                .iter()
                                .map(|rank| members.get(index(*rank)).copied().flatten())
                                .collect(),
                            nic_out: nic(channel.net_out),
                        })
                        .collect(),
                }
            }));
        }
        Topology {
            hosts: self.hosts.clone(),
            graphs,
            communicators: with_graphs,
            bytes_elsewhere: 0,
            unused: self.unused.clone(),
        }
    }
}

fn node_property<'a, P: DefinitionProperty>(
    trace: &'a Trace,
    node: &SystemTreeNode,
    property: P,
) -> Option<<P::Carrier as nccl_events::schema::carriers::Carrier>::Parsed<&'a str>> {
    stated(&trace.definitions, &node.properties, property)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The numbers of NCCL's own table (`NCCL_DEBUG_SUBSYS=TUNING`) follow from these by its conversion.
    #[test]
    fn the_model_is_that_of_the_tuner() {
        let graph = GraphBandwidth { channels: 12.0, pattern: 4, intra: 20.0, inter: 24.0 };
        let shape = |ranks, hosts| Shape { ranks, hosts, capability: 90 };
        let ring = |collective, protocol, shape| {
            bus_bandwidth(collective, (Algorithm::Ring, protocol), shape, graph).expect("a model") / GB
        };
        let near = |found: f64, expected: f64| assert!((found - expected).abs() < 1e-6, "{found} is not {expected}");
        near(ring(Collective::AllReduce, Protocol::Simple, shape(8, 1)), 240.0);
        near(ring(Collective::AllGather, Protocol::Simple, shape(32, 4)), 288.0);
        near(ring(Collective::Broadcast, Protocol::Ll, shape(8, 1)), 120.0);
        near(ring(Collective::ReduceScatter, Protocol::Ll128, shape(8, 1)), 220.8);
        let tree = bus_bandwidth(Collective::AllReduce, (Algorithm::Tree, Protocol::Simple), shape(32, 4), graph);
        near(tree.expect("a model") / GB, 288.0 * 0.92 * 31.0 / 32.0);
        let nvls = bus_bandwidth(Collective::AllReduce, (Algorithm::Nvls, Protocol::Simple), shape(8, 1), graph);
        near(nvls.expect("a model") / GB, 12.0 * 24.0);
        assert_eq!(bus_bandwidth(Collective::AllReduce, (Algorithm::Ring, Protocol::Ll), shape(1, 1), graph), None);
    }
}
