//! The topology that an archive states in its definitions.

use std::collections::{BTreeMap, BTreeSet};

use analysis::report::{Communicator, Graph as GraphOf, GraphChannel, Nic, Topology, TopologyGpu, TopologyHost};
use analysis::tables::{NONE, Tables};
use analysis::{Trace, stated};
use nccl_events::archive::LocationKind;
use nccl_events::ids::{index, index_u32};
use nccl_events::schema::definition::DefinitionProperty;
use nccl_events::schema::definition::{
    ConnectionChannel, ConnectionIsSend, ConnectionPeer, GpuCapability, GpuNvlinks, GpuPci, GraphCollNetChain,
    GraphCollNetDirect, GraphNvls, GraphRing, GraphTree, Nic as NicProperty, NicDevice, NicGdr, NicPath, NicSpeed,
    PciAddress, PciPath,
};
use nccl_events::sort::Gather;
use otf2::records::SystemTreeNode;
use otf2::{SystemTreeDomain, SystemTreeNodeRef};
use topology::Graph;

/// A rank's end of a connection: row of members, peer, channel, whether it sends.
pub(crate) type End = (u32, u32, u32, bool);

/// The interface of a connection.
#[derive(Clone, Debug)]
pub(crate) struct Wire {
    /// An index into [`Map::nics`].
    pub(crate) nic: u32,
    /// How far the GPU is from it; empty if unknown.
    pub(crate) path: String,
}

#[derive(Debug, Default)]
pub(crate) struct Map {
    hosts: Vec<TopologyHost>,
    /// Numbers of `hosts`.
    pub(crate) nodes: BTreeMap<SystemTreeNodeRef, u32>,
    pub(crate) nics: Vec<Nic>,
    /// NCCL's numbers of `nics`.
    devices: Vec<u64>,
    pub(crate) wires: BTreeMap<End, Wire>,
    /// By communicator and host.
    pub(crate) graphs: BTreeMap<(u32, u32), Vec<Graph>>,
    unused: Vec<String>,
}

/// The graphs of at most this many hosts are described: the page draws them, and hosts of a job are mostly alike.
const MOST_HOSTS: usize = 64;
const MBIT: f64 = 1e6 / 8.0;
const GB: f64 = 1e9;

impl Map {
    /// `None` for an archive without topology.
    pub(crate) fn of(trace: &Trace, tables: &Tables) -> Option<Self> {
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
        map.add_connections(trace, tables, &hosts);
        map.nodes = hosts;
        Some(map)
    }

    fn add_node(&mut self, trace: &Trace, node: &SystemTreeNode, hosts: &mut BTreeMap<SystemTreeNodeRef, u32>) {
        let Some(path) = of_node(trace, node, PciPath).map(str::to_owned) else {
            return;
        };
        let next = index_u32(self.hosts.len());
        let host = *hosts.entry(node.parent).or_insert(next);
        if host == next {
            let name = trace.node_name(node.parent).unwrap_or_default().to_owned();
            self.hosts.push(TopologyHost { name, gpus: Vec::new() });
        }
        let pci = of_node(trace, node, PciAddress).unwrap_or_default().to_owned();
        if !node.domains.contains(&SystemTreeDomain::NetworkingDevice) {
            let gpu = TopologyGpu {
                pci,
                path,
                capability: of_node(trace, node, GpuCapability).unwrap_or(0),
                nvlinks: of_node(trace, node, GpuNvlinks).unwrap_or(0),
                rank: None,
            };
            self.hosts[index(host)].gpus.push(gpu);
            return;
        }
        let name = trace.definitions.string(node.name).unwrap_or_default();
        let speed = of_node(trace, node, NicSpeed).and_then(|speed| u32::try_from(speed).ok());
        self.nics.push(Nic {
            host,
            name: name.strip_prefix("NIC ").unwrap_or(name).to_owned(),
            pci,
            path,
            gdr: of_node(trace, node, NicGdr) == Some(true),
            speed: speed.map(|speed| f64::from(speed) * MBIT),
            ..Nic::default()
        });
        self.devices.push(of_node(trace, node, NicDevice).unwrap_or(u64::MAX));
    }

    fn add_ranks(&mut self, trace: &Trace, tables: &Tables, hosts: &BTreeMap<SystemTreeNodeRef, u32>) {
        for member in &tables.members.all {
            let host = trace.host(trace.group(member.location)).and_then(|host| hosts.get(&host)).copied();
            let Some(host) = host else { continue };
            if let Some(pci) = trace.of_location(member.location, GpuPci) {
                let mut gpus = self.hosts[index(host)].gpus.iter_mut();
                if let Some(gpu) = gpus.find(|gpu| gpu.pci == pci) {
                    gpu.rank.get_or_insert(member.job_rank);
                }
            }
            let texts = [
                trace.of_location(member.location, GraphRing),
                trace.of_location(member.location, GraphTree),
                trace.of_location(member.location, GraphCollNetChain),
                trace.of_location(member.location, GraphCollNetDirect),
                trace.of_location(member.location, GraphNvls),
            ];
            let graphs: Vec<Graph> = texts.into_iter().flatten().filter_map(|text| text.parse().ok()).collect();
            if !graphs.is_empty() {
                self.graphs.entry((member.communicator, host)).or_default().extend(graphs);
            }
        }
    }

    fn add_connections(&mut self, trace: &Trace, tables: &Tables, hosts: &BTreeMap<SystemTreeNodeRef, u32>) {
        let numbers: BTreeMap<(u32, String), u32> =
            (0..).zip(&self.nics).map(|(number, nic)| ((nic.host, nic.name.clone()), number)).gather();
        for location in trace.locations_of(&[LocationKind::Connection]) {
            let Some(name) = trace.of_location(location, NicProperty) else { continue };
            let member = trace.member_of(location).and_then(|member| tables.members.at(member));
            let host = trace.host(trace.group(location)).and_then(|host| hosts.get(&host)).copied();
            let nic = host.and_then(|host| numbers.get(&(host, name.to_owned())));
            let end = (
                trace.of_location(location, ConnectionPeer),
                trace.of_location(location, ConnectionChannel),
                trace.of_location(location, ConnectionIsSend),
            );
            if let (Some(member), Some(nic), (Some(peer), Some(channel), Some(is_send))) = (member, nic, end) {
                let path = trace.of_location(location, NicPath).unwrap_or_default().to_owned();
                self.wires.insert((member, peer, channel, is_send), Wire { nic: *nic, path });
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
        let of_largest = self.graphs.iter().filter(|((communicator, _), _)| *communicator == largest);
        let members = communicators.get(index(largest)).map_or(&[][..], |comm| &comm.members);
        let mut graphs = Vec::new();
        for ((communicator, host), of_host) in of_largest.take(MOST_HOSTS) {
            let way = |way: Option<topology::PathType>| way.map(|way| way.name().to_owned());
            let nic = |device: Option<u64>| device.and_then(|device| self.nic(*host, device));
            graphs.extend(of_host.iter().map(|graph| {
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

fn of_node<'a, P: DefinitionProperty>(
    trace: &'a Trace,
    node: &SystemTreeNode,
    property: P,
) -> Option<<P::Carrier as nccl_events::schema::Carrier>::Parsed<&'a str>> {
    stated(&trace.definitions, &node.properties, property)
}
