//! NCCL's dumps of topology and graphs, put where they belong: hosts, ranks and connections.

use std::collections::{BTreeMap, BTreeSet};

use crate::job::clocks::Property;
use crate::job::communicators::Communicators;
use crate::job::definitions::Sources;
use crate::job::processes::Process;
use crate::part::manifest::{LocationDefinition, LocationKind, TransferOwner};
use crate::workers::{CommunicatorDump, Dumps};
use journal::part;
use journal::part::Dump;
use nccl_events::ids::index;
use nccl_events::schema::definition::{
    ChannelNics, GpuPci, GraphCollNetChain, GraphCollNetDirect, GraphNvls, GraphRing, GraphTree, property,
};
use nccl_events::schema::{Lines, Listed, Statements, Sum};
use nccl_events::sort::Gather;
use topology::{ChannelNic, Gpu, Graph, GraphKind, Nic, System};

/// A host: its name and boot.
pub(crate) type Host<'a> = (&'a str, &'a str);

/// The devices of a host.
#[derive(Debug, Default)]
pub(crate) struct Devices<'a> {
    /// By PCI address.
    pub(crate) gpus: BTreeMap<&'a str, &'a Gpu>,
    /// By NCCL's number.
    pub(crate) nics: BTreeMap<u64, &'a Nic>,
}

#[derive(Debug, Default)]
pub(crate) struct Topology<'a> {
    pub(crate) hosts: BTreeMap<Host<'a>, Devices<'a>>,
    /// By the archive's number of the communicator and by rank.
    ranks: BTreeMap<(u32, u32), RankTopology<'a>>,
    unused: Vec<(Dump, String)>,
}

/// What is known of a rank.
#[derive(Debug)]
struct RankTopology<'a> {
    dumped: &'a CommunicatorDump,
    /// The rank's host, of those that one file may have.
    host: Host<'a>,
    gpu: Option<&'a Gpu>,
}

/// The channels on which network transfers were done for a rank, by the archive's number of the communicator and by
/// rank: channel, and whether it sends.
#[derive(Debug, Default)]
pub(crate) struct ChannelEnds(BTreeMap<(u32, u32), BTreeSet<(u8, bool)>>);

impl ChannelEnds {
    pub(crate) fn new(sources: &Sources<'_>) -> Self {
        let mut ends = Self::default();
        for (process, map) in sources.processes.iter().zip(&sources.communicators.maps) {
            for end in &process.manifest.channel_ends {
                let rank = match end.owner {
                    TransferOwner::Rank { comm, rank } => map.get(index(comm)).map(|comm| (*comm, rank)),
                    TransferOwner::Foreign { context } => {
                        sources.origins.find(process, context).map(|origin| (origin.comm, origin.rank))
                    }
                };
                if let Some(rank) = rank {
                    ends.0.entry(rank).or_default().insert((end.channel, end.send));
                }
            }
        }
        ends
    }
}

/// A communicator's ranks by host.
type HostsOfRanks<'a> = Vec<Option<Host<'a>>>;

impl<'a> Topology<'a> {
    pub(crate) fn new(dumps: &'a Dumps, processes: &'a [Process], communicators: &Communicators) -> Self {
        let mut topology = Self { unused: dumps.unused.clone(), ..Self::default() };
        if dumps.all.is_empty() {
            return topology;
        }
        let hosts = hosts_of_ranks(processes, communicators);
        let keys: BTreeMap<u64, Host<'_>> =
            processes.iter().map(|process| (part::key(&process.manifest.part), process.host())).gather();
        for dumped in &dumps.all {
            let own = keys.get(&dumped.key).copied();
            let fitting: Vec<(u32, BTreeSet<Host<'_>>)> =
                (0..).zip(&hosts).filter_map(|(comm, hosts)| Some((comm, fits(dumped, hosts, own)?))).collect();
            let places: BTreeSet<&BTreeSet<Host<'_>>> = fitting.iter().map(|(_, hosts)| hosts).gather();
            if places.len() > 1 || (places.is_empty() && own.is_none()) {
                topology.unused.push((Dump::System, format!("{}: it is unknown which host it describes", dumped.file)));
                continue;
            }
            let hosts_of_dump: BTreeSet<Host<'_>> = places.into_iter().flatten().copied().chain(own).gather();
            if is_foreign(dumped, processes, &hosts_of_dump) {
                let reason = format!("{}: CUDA knows none of its GPUs on this host", dumped.file);
                topology.unused.push((Dump::System, reason));
                continue;
            }
            if let (true, Some(own)) = (fitting.is_empty(), own) {
                topology.add_devices(&dumped.system, |_| Some(own));
                // NCCL reports next to nothing of a communicator of one rank.
                if dumped.graphs.iter().any(|graph| graph.has_network() || graph.ranks().len() > 1) {
                    let reason =
                        "no communicator of the archive has exactly its ranks on this host, so its graphs are not used";
                    topology.unused.push((Dump::Graphs, format!("{}: {reason}", dumped.file)));
                }
            }
            for (comm, _) in &fitting {
                let Some(hosts) = hosts.get(index(*comm)) else { continue };
                topology.add_devices(&dumped.system, |rank| hosts.get(index(rank)).copied().flatten());
                topology.add_ranks(*comm, hosts, dumped);
            }
        }
        topology
    }

    /// Adds the devices of a file, each to the host of the ranks that are on the same one of its hosts.
    fn add_devices(&mut self, system: &'a System, host: impl Fn(u32) -> Option<Host<'a>>) {
        let hosts: BTreeMap<u8, Host<'_>> =
            system.gpus.iter().filter_map(|gpu| Some((gpu.place.host, host(gpu.rank)?))).gather();
        for (number, host) in hosts {
            let devices = self.hosts.entry(host).or_default();
            for gpu in system.gpus.iter().filter(|gpu| gpu.place.host == number && !gpu.pci.is_empty()) {
                devices.gpus.entry(&gpu.pci).or_insert(gpu);
            }
            for nic in system.nics.iter().filter(|nic| nic.place.host == number) {
                devices.nics.entry(nic.dev).or_insert(nic);
            }
        }
    }

    fn add_ranks(&mut self, comm: u32, hosts: &HostsOfRanks<'a>, dumped: &'a CommunicatorDump) {
        for rank in ranks(dumped) {
            let Some(host) = hosts.get(index(rank)).copied().flatten() else { continue };
            let gpu = dumped.system.gpus.iter().find(|gpu| gpu.rank == rank);
            // GPUs that do not reach each other have graphs of their own.
            let is_own = dumped.graphs.iter().any(|graph| graph.ranks().contains(&rank));
            if is_own || !self.ranks.contains_key(&(comm, rank)) {
                self.ranks.insert((comm, rank), RankTopology { dumped, host, gpu });
            }
        }
    }

    /// A name of a network interface that no other one of its host has.
    pub(crate) fn nic_name(&self, host: Host<'_>, nic: &Nic) -> String {
        let same = self
            .hosts
            .get(&host)
            .into_iter()
            .flat_map(|devices| devices.nics.values())
            .filter(|other| other.name == nic.name);
        if same.count() > 1 { format!("{}/{}", nic.name, nic.dev & 0xff_ffff) } else { nic.name.clone() }
    }

    /// The properties of a location of a process; `map` has the archive's numbers of the part's communicators.
    pub(crate) fn location_properties(
        &self,
        host: Host<'_>,
        location: &LocationDefinition,
        map: &[u32],
        ends: &ChannelEnds,
    ) -> Vec<Property> {
        let LocationKind::Communicator { comm, rank, .. } = &location.kind else {
            return Vec::new();
        };
        let Some(rank) = map.get(index(*comm)).map(|comm| (*comm, *rank)) else {
            return Vec::new();
        };
        let mut properties = self.rank_properties(rank.0, rank.1);
        let nics = ends.0.get(&rank).into_iter().flatten();
        let lines: Vec<String> = nics
            .filter_map(|(channel, send)| Some(self.channel_nic(host, rank, *channel, *send)?.to_string()))
            .collect();
        properties.extend((!lines.is_empty()).then(|| property(ChannelNics, lines.join("\n"))));
        properties
    }

    fn rank_properties(&self, comm: u32, rank: u32) -> Vec<Property> {
        let Some(known) = self.ranks.get(&(comm, rank)) else {
            return Vec::new();
        };
        let pci = known.gpu.filter(|gpu| !gpu.pci.is_empty());
        let mut properties: Vec<Property> = pci.map(|gpu| property(GpuPci, gpu.pci.clone())).into_iter().collect();
        // The graphs are those of the first rank that they have.
        let ring_ranks = known.dumped.graphs.first().map(Graph::ranks).unwrap_or_default();
        if ring_ranks.first() == Some(&rank) {
            properties.extend(known.dumped.graphs.iter().map(|graph| {
                let text = graph.to_string();
                match graph.kind {
                    GraphKind::Ring => property(GraphRing, text),
                    GraphKind::Tree => property(GraphTree, text),
                    GraphKind::CollNetChain => property(GraphCollNetChain, text),
                    GraphKind::Nvls => property(GraphNvls, text),
                    GraphKind::CollNetDirect => property(GraphCollNetDirect, text),
                }
            }));
        }
        properties
    }

    /// The network interface of a channel, if all graphs agree in which the rank is at an end of the channel.
    fn channel_nic(&self, host: Host<'_>, rank: (u32, u32), channel: u8, send: bool) -> Option<ChannelNic> {
        let known = self.ranks.get(&rank);
        let devices = self.hosts.get(&known.map_or(host, |known| known.host))?;
        let graphs = known.into_iter().flat_map(|known| &known.dumped.graphs);
        let channel = u32::from(channel);
        let end_graphs = graphs.filter(|graph| is_end(graph, rank.1, channel, send));
        let devs: BTreeSet<u64> = end_graphs.filter_map(|graph| graph.nic(rank.1, channel)).gather();
        let nic = match (devices.nics.len(), devs.first()) {
            (1, _) => devices.nics.values().next(),
            (_, Some(dev)) if devs.len() == 1 => devices.nics.get(dev),
            _ => None,
        }?;
        let path = known.and_then(|known| known.gpu?.place.path(&nic.place));
        Some(ChannelNic {
            channel,
            is_send: send,
            path: path.map(|path| path.name().to_owned()).unwrap_or_default(),
            nic: self.nic_name(known.map_or(host, |known| known.host), nic),
        })
    }

    pub(crate) fn add_to_statements(&self, statements: &mut Statements) {
        statements.topology_hosts = Sum::some(self.hosts.len() as u64);
        let unused = |dump: Dump| {
            let kind_lines = self.unused.iter().filter(|(kind, _)| *kind == dump).map(|(_, line)| line);
            let all: Vec<&String> = kind_lines.collect();
            Listed { number: Sum::some(all.len() as u64), lines: Lines::from_entries(&all) }
        };
        statements.topology_unused = unused(Dump::System);
        statements.graphs_unused = unused(Dump::Graphs);
    }
}

/// Whether a rank sends to, or receives from, another host on a channel of a graph.
fn is_end(graph: &Graph, rank: u32, channel: u32, send: bool) -> bool {
    let length = graph.channels.len();
    let Some(ranks) =
        index(channel).checked_rem(length).and_then(|at| graph.channels.get(at)).map(|channel| &channel.ranks)
    else {
        return false;
    };
    let is = |end: Option<&u32>| end == Some(&rank);
    match graph.kind {
        GraphKind::Ring => is(if send { ranks.last() } else { ranks.first() }),
        GraphKind::Nvls => true,
        GraphKind::Tree | GraphKind::CollNetChain | GraphKind::CollNetDirect => is(ranks.first()) || is(ranks.get(1)),
    }
}

/// Whether CUDA named other GPUs than a dump has.
fn is_foreign(dumped: &CommunicatorDump, processes: &[Process], hosts: &BTreeSet<Host<'_>>) -> bool {
    let on_hosts = processes.iter().filter(|process| hosts.contains(&process.host()));
    let devices = on_hosts.flat_map(|process| &process.manifest.gpu_work.devices);
    // Parts of a GPU may share its address, or not.
    let devices = devices.filter(|device| !device.is_mig);
    let named: BTreeSet<&str> = devices.map(|device| device.pci.as_str()).filter(|pci| !pci.is_empty()).gather();
    let dumped: BTreeSet<&str> =
        dumped.system.gpus.iter().map(|gpu| gpu.pci.as_str()).filter(|pci| !pci.is_empty()).gather();
    !named.is_empty() && !dumped.is_empty() && named.is_disjoint(&dumped)
}

/// The ranks that a dump is about, ascending.
fn ranks(dumped: &CommunicatorDump) -> Vec<u32> {
    let system_ranks: BTreeSet<u32> = dumped.system.gpus.iter().map(|gpu| gpu.rank).gather();
    if !system_ranks.is_empty() {
        system_ranks.into_iter().collect()
    } else {
        dumped.graphs.first().map(Graph::ranks).unwrap_or_default()
    }
}

fn hosts_of_ranks<'a>(processes: &'a [Process], communicators: &Communicators) -> Vec<HostsOfRanks<'a>> {
    let mut hosts_by_location: BTreeMap<u64, Host<'a>> = BTreeMap::new();
    for process in processes {
        let ranks = process.locations().filter(|(_, location)| location.is_rank());
        hosts_by_location.extend(ranks.map(|(id, _)| (id, process.host())));
    }
    let hosts = |locations: &[u64]| locations.iter().map(|id| hosts_by_location.get(id).copied()).collect();
    communicators.all.iter().map(|comm| hosts(&comm.locations)).collect()
}

/// The hosts of a dump if it may be of a communicator: it has all ranks of these hosts, and a network for several.
fn fits<'a>(dumped: &CommunicatorDump, hosts: &HostsOfRanks<'a>, own: Option<Host<'_>>) -> Option<BTreeSet<Host<'a>>> {
    let ranks = ranks(dumped);
    let on: Option<BTreeSet<Host<'_>>> = ranks.iter().map(|rank| hosts.get(index(*rank)).copied().flatten()).collect();
    let on = on.filter(|on| !on.is_empty() && own.is_none_or(|own| on.contains(&own)))?;
    let host_count = hosts.iter().flatten().filter(|host| on.contains(*host)).count();
    let has_more = hosts.iter().any(|host| host.is_none_or(|host| !on.contains(&host)));
    // GPUs that reach each other neither directly nor through memory use the network within a host, too.
    let is_split = dumped.graphs.first().is_some_and(|graph| graph.ranks() != ranks);
    let has_network = dumped.graphs.iter().any(Graph::has_network);
    let is_alike = dumped.graphs.is_empty() || is_split || has_network == has_more;
    let in_file: BTreeSet<u8> = dumped.system.gpus.iter().map(|gpu| gpu.place.host).gather();
    let is_all = host_count == ranks.len() && on.len() == in_file.len().max(1);
    (is_all && is_alike).then_some(on)
}
