//! The global definitions of an archive as data: lists, the system tree, and the GPUs of a process. Their order does
//! not depend on that in which parts arrive.
//!
//! ```text
//!  machine ─ host ─┬ PROCESS "rank 0 [host:pid]" ── API threads, network connections
//!                  └ GPU ─ ACCELERATOR "GPU 0 …"     ── communicators, streams and channels
//! ```

use std::collections::{BTreeMap, BTreeSet};

use crate::job::clocks::{Hosts, Property};
use crate::job::communicators::{Communicator, Communicators, Origins};
use crate::job::names::{Strings, location_name, region_groups};
use crate::job::processes::Process;
use crate::job::topology::{ChannelEnds, Host, Topology};
use crate::job::{clocks, names};
use crate::part::manifest::{AttributeDefinition, LocationDefinition, LocationKind, RegionDefinition};
use nccl_events::archive::{LocationKind as LocationClass, RegionClass, parse_canonical_name};
use nccl_events::ids::{index, index_u32};
use nccl_events::schema::carriers::Value;
use nccl_events::schema::definition::{
    GpuCapability, GpuNvlinks, NicDevice, NicGdr, NicSpeed, PciAddress, PciPath, property,
};
use nccl_events::sort::Gather;
use otf2::records::{
    Attribute, ClockProperties, Comm, Group, Location, LocationGroup, ParadigmRecord, Parameter, Region, RmaWin,
    SystemTreeNode,
};
use otf2::{
    AttributeType, AttributeValue, CommRef, GroupRef, GroupType, LocationGroupRef, LocationGroupType, LocationType,
    Paradigm, ParadigmClass, ParadigmProperty, ParameterType, RegionRole, StringRef, SystemTreeDomain,
    SystemTreeNodeRef,
};
use timeline::attributes::attribute_value;
use timeline::definitions::DeviceDefinition;
use topology::Place;

impl Definitions {
    /// The definitions of an archive. `strings` already has the strings of the parts.
    pub(crate) fn new(sources: &Sources<'_>, strings: Strings) -> Self {
        let mut definitions = Self { strings, ..Self::default() };
        let tree = definitions.add_tree(sources);
        definitions.add_processes(sources.processes, &tree);
        definitions.add_locations(sources, &tree);
        definitions.add_stubs(sources);
        for attribute in sources.attributes {
            let attribute = Attribute {
                name: definitions.string(&attribute.name),
                description: definitions.string(&attribute.description),
                attribute_type: AttributeType::from_raw(attribute.value_type),
            };
            definitions.attributes.push(attribute);
        }
        definitions.add_regions(sources.regions);
        definitions.add_parameters(sources);
        definitions.add_comms(sources.communicators);
        definitions.add_windows(sources.processes);
        definitions.add_region_groups(sources.regions);
        definitions.add_paradigms();
        definitions
    }

    /// Adds the paradigms with events of their own: NCCL's communicators, and CUDA's kernels and copies.
    fn add_paradigms(&mut self) {
        let name = self.string("NCCL");
        let nccl = ParadigmRecord { name, class: ParadigmClass::Process, properties: Vec::new() };
        self.paradigms.push((Paradigm::Mpi, nccl));
        if self.regions.iter().any(|region| region.paradigm == Paradigm::Cuda) {
            let name = self.string("CUDA");
            let properties = vec![(ParadigmProperty::RmaOnly, AttributeValue::U8(1))];
            let cuda = ParadigmRecord { name, class: ParadigmClass::Accelerator, properties };
            self.paradigms.push((Paradigm::Cuda, cuda));
        }
    }

    fn add_regions(&mut self, regions: &[RegionDefinition]) {
        for definition in regions {
            let source_file = match parse_canonical_name(&definition.canonical_name) {
                // Copies and kernels belong to CUDA, ranges and marks to the program.
                None | Some((RegionClass::Copy | RegionClass::User | RegionClass::Mark, _)) => StringRef::UNDEFINED,
                Some(_) => self.string("NCCL"),
            };
            let region = Region {
                name: self.string(&definition.name),
                canonical_name: self.string(&definition.canonical_name),
                description: self.string(&definition.description),
                role: RegionRole::from_raw(definition.role),
                paradigm: Paradigm::from_raw(definition.paradigm),
                source_file,
                ..Region::default()
            };
            self.regions.push(region);
        }
    }

    fn add_parameters(&mut self, sources: &Sources<'_>) {
        for region in sources.parameters.iter().filter_map(|region| sources.regions.get(index(*region))) {
            let parameter_type = ParameterType::U64;
            let name = self.string(&region.name);
            self.parameters.push(Parameter { name, parameter_type });
        }
    }

    fn add_region_groups(&mut self, regions: &[RegionDefinition]) {
        for (name, members) in region_groups(regions) {
            let name = self.string(name);
            self.add_group(name, (GroupType::Regions, Paradigm::None), members.into_iter().collect());
        }
    }

    /// Adds a window for each communicator: a step puts data into its peer's memory.
    fn add_windows(&mut self, processes: &[Process]) {
        if !processes.iter().any(|process| process.manifest.has_puts) {
            return;
        }
        let comms = (0..).zip(&self.comms);
        let windows = comms.map(|(number, comm)| RmaWin { name: comm.name, comm: CommRef::new(number), flags: 0 });
        self.windows = windows.collect();
    }

    fn add_processes(&mut self, processes: &[Process], tree: &Tree<'_>) {
        let names = Hosts::new(processes);
        for process in processes {
            let mut properties = clocks::process_properties(process, &names);
            properties.extend(clocks::identity(&process.manifest));
            let group = LocationGroup {
                name: self.string(&process.name()),
                group_type: LocationGroupType::Process,
                system_tree_parent: tree.host(process),
                creator: LocationGroupRef::UNDEFINED,
                properties: self.properties(properties),
            };
            self.location_groups.push(group);
        }
    }

    fn add_locations<'a>(&mut self, sources: &Sources<'a>, tree: &Tree<'a>) {
        let Sources { processes, communicators, .. } = *sources;
        let ends = ChannelEnds::new(sources);
        for ((creator, process), map) in (0..).zip(processes).zip(&communicators.maps) {
            let comms = map.iter().filter_map(|&number| communicators.all.get(index(number)));
            let comms: Vec<&Communicator> = comms.collect();
            let gpus = self.add_gpus(process, LocationGroupRef::new(creator), &comms, tree);
            for (id, definition) in process.locations() {
                let gpu = gpu_of(definition).and_then(|number| gpus.get(&number));
                let name = location_name(definition, &comms);
                let mut stated = names::location_properties(definition, &comms);
                stated.extend(clocks::gpu_clock_properties(&process.manifest, &definition.kind));
                stated.extend(sources.topology.location_properties(process.host(), definition, map, &ends));
                let properties = self.properties(stated);
                let location = Location {
                    name: self.string(&name),
                    location_type: match gpu {
                        Some(_) => LocationType::AcceleratorStream,
                        None => LocationType::CpuThread,
                    },
                    number_of_events: definition.events,
                    group: gpu.copied().unwrap_or(LocationGroupRef::new(creator)),
                    properties,
                };
                self.locations.insert(id, location);
            }
        }
    }

    fn add_gpus<'a>(
        &mut self,
        process: &'a Process,
        creator: LocationGroupRef,
        comms: &[&Communicator],
        tree: &Tree<'a>,
    ) -> BTreeMap<u32, LocationGroupRef> {
        let mut gpus = BTreeMap::new();
        for number in used_gpus(process) {
            let device = device(process, number);
            let node = device.and_then(|device| tree.device(process, device));
            let group = LocationGroup {
                name: self.string(&gpu_name(process, number, comms)),
                group_type: LocationGroupType::Accelerator,
                system_tree_parent: node.unwrap_or_else(|| tree.host(process)),
                creator,
                properties: self.properties(device.map(properties_of).unwrap_or_default()),
            };
            gpus.insert(number, self.add_location_group(group));
        }
        gpus
    }

    fn add_location_group(&mut self, group: LocationGroup) -> LocationGroupRef {
        self.location_groups.push(group);
        LocationGroupRef::new(index_u32(self.location_groups.len() - 1))
    }

    /// Adds ranks without a part: members of communicators without events.
    fn add_stubs(&mut self, sources: &Sources<'_>) {
        let stubs = &sources.communicators.stubs;
        if stubs.is_empty() {
            return;
        }
        let group = LocationGroup {
            name: self.string("ranks that were not recorded"),
            group_type: LocationGroupType::Accelerator,
            system_tree_parent: SystemTreeNodeRef::new(0),
            creator: LocationGroupRef::UNDEFINED,
            properties: Vec::new(),
        };
        let group = self.add_location_group(group);
        for stub in stubs {
            let comm = sources.communicators.all.get(index(stub.comm));
            let properties = [names::kind(LocationClass::NotRecorded)].into_iter().chain(comm.and_then(names::comm_id));
            let properties = properties.collect();
            let location = Location {
                name: self.string(&stub.name),
                location_type: LocationType::AcceleratorStream,
                number_of_events: 0,
                group,
                properties: self.properties(properties),
            };
            self.locations.insert(stub.location, location);
        }
    }

    /// Adds a group of all communicating locations, and a group and a communicator for each NCCL communicator.
    fn add_comms(&mut self, communicators: &Communicators) {
        let name = self.string("NCCL communicator locations");
        // A location's index in this list is its id, see `processes::number_locations`.
        let all = (0..communicators.recorded + communicators.stubs.len() as u64).collect();
        self.add_group(name, (GroupType::CommLocations, Paradigm::Mpi), all);
        for comm in &communicators.all {
            let name = self.string(&comm.name);
            let group = self.add_group(name, (GroupType::CommGroup, Paradigm::Mpi), comm.locations.clone());
            let parent = comm.parent.map_or(CommRef::UNDEFINED, CommRef::new);
            self.comms.push(Comm { name, group, parent, flags: 0 });
        }
    }

    fn add_group(
        &mut self,
        name: StringRef,
        (group_type, paradigm): (GroupType, Paradigm),
        members: Vec<u64>,
    ) -> GroupRef {
        self.groups.push(Group { name, group_type, paradigm, flags: 0, members });
        GroupRef::new(index_u32(self.groups.len() - 1))
    }
}

/// The archive's clock: nanoseconds since 1970, from the first event to the last.
pub(crate) fn clock(processes: &[Process]) -> ClockProperties {
    let with_events = || processes.iter().filter(|process| process.has_events());
    let last = with_events().map(|process| process.archive_ns(process.manifest.span_ns.1));
    let first = with_events().map(|process| process.archive_ns(process.manifest.span_ns.0)).min();
    let begin = first.unwrap_or(0);
    let length = last.max().unwrap_or(0).saturating_sub(begin);
    ClockProperties {
        timer_resolution: 1_000_000_000,
        global_offset: begin,
        trace_length: length.saturating_add(1),
        // OTF2's undefined value, for an archive without events.
        realtime_timestamp: first.unwrap_or(u64::MAX),
    }
}

/// The hosts and GPUs of the system tree.
#[derive(Debug, Default)]
pub(super) struct Tree<'a> {
    hosts: BTreeMap<Host<'a>, SystemTreeNodeRef>,
    /// By host and the identity of the device.
    devices: BTreeMap<(Host<'a>, &'a str), SystemTreeNodeRef>,
}

impl Tree<'_> {
    pub(super) fn host(&self, process: &Process) -> SystemTreeNodeRef {
        self.hosts.get(&process.host()).copied().unwrap_or_default()
    }

    pub(super) fn device(&self, process: &Process, device: &DeviceDefinition) -> Option<SystemTreeNodeRef> {
        let key = (process.host(), device.identity()?);
        self.devices.get(&key).copied()
    }
}

/// The machine's name: the batch system's cluster, the only host, or the domain that all hosts share.
fn machine_name(processes: &[Process]) -> &str {
    let clusters = processes.iter().filter_map(|process| process.manifest.process.environment.cluster.as_deref());
    if let Some(cluster) = clusters.min() {
        return cluster;
    }
    let hosts: BTreeSet<&str> = processes.iter().map(|process| process.host().0).gather();
    let domains: BTreeSet<&str> =
        hosts.iter().map(|host| host.split_once('.').map_or("", |(_, domain)| domain)).gather();
    let names = if hosts.len() == 1 { hosts } else { domains };
    let name = if names.len() == 1 { names.first().copied() } else { None };
    name.filter(|name| !name.is_empty()).unwrap_or("machine")
}

impl Definitions {
    /// Adds the machine, its hosts, and their known GPUs.
    pub(super) fn add_tree<'a>(&mut self, sources: &Sources<'a>) -> Tree<'a> {
        let processes = sources.processes;
        let machine = SystemTreeNode {
            name: self.string(machine_name(processes)),
            class_name: self.string("machine"),
            parent: SystemTreeNodeRef::UNDEFINED,
            domains: vec![SystemTreeDomain::Machine],
            properties: Vec::new(),
        };
        self.nodes.push(machine);
        let hosts: BTreeSet<Host<'_>> = processes.iter().map(Process::host).gather();
        let mut tree = Tree::default();
        for (host, boot_id) in hosts {
            let mut properties = Vec::new();
            if !boot_id.is_empty() {
                let value = AttributeValue::String(self.string(boot_id));
                properties.push((self.string("boot id"), value));
            }
            let node = SystemTreeNode {
                name: self.string(host),
                class_name: self.string("node"),
                parent: SystemTreeNodeRef::new(0),
                domains: vec![SystemTreeDomain::SharedMemory],
                properties,
            };
            let reference = SystemTreeNodeRef::new(index_u32(self.nodes.len()));
            tree.hosts.insert((host, boot_id), reference);
            self.nodes.push(node);
        }
        self.add_devices(sources, &mut tree);
        tree
    }

    /// Adds the GPUs in use, each once, however many processes use it.
    fn add_devices<'a>(&mut self, sources: &Sources<'a>, tree: &mut Tree<'a>) {
        let mut devices: BTreeMap<(Host<'a>, &'a str), &'a DeviceDefinition> = BTreeMap::new();
        for process in sources.processes {
            for device in used_gpus(process).into_iter().filter_map(|gpu| device(process, gpu)) {
                if let Some(identity) = device.identity() {
                    devices.entry((process.host(), identity)).or_insert(device);
                }
            }
        }
        let mut known = BTreeSet::new();
        for ((host, identity), device) in devices {
            let properties = device.statements().into_iter().map(|(name, text)| (name, Value::String(text)));
            let node = SystemTreeNode {
                name: self.string(&format!("GPU {}", tree_name(device))),
                class_name: self.string("GPU"),
                parent: tree.hosts.get(&host).copied().unwrap_or_default(),
                domains: vec![SystemTreeDomain::AcceleratorDevice],
                properties: self.properties(properties.chain(dumped_gpu(sources, host, &device.pci)).collect()),
            };
            let reference = SystemTreeNodeRef::new(index_u32(self.nodes.len()));
            tree.devices.insert((host, identity), reference);
            known.insert((host, device.pci.as_str()));
            self.nodes.push(node);
        }
        self.add_dumped(sources, tree, &known);
    }

    /// Adds what NCCL's dumps have of hosts: their network interfaces, and GPUs that CUDA did not name.
    fn add_dumped<'a>(&mut self, sources: &Sources<'a>, tree: &Tree<'a>, known: &BTreeSet<(Host<'a>, &str)>) {
        for (host, devices) in &sources.topology.hosts {
            let parent = tree.hosts.get(host).copied().unwrap_or_default();
            let mut add = |name: String, class: &str, domain, properties| {
                let node = SystemTreeNode {
                    name: self.string(&name),
                    class_name: self.string(class),
                    parent,
                    domains: vec![domain],
                    properties: self.properties(properties),
                };
                self.nodes.push(node);
            };
            for pci in devices.gpus.keys().filter(|pci| !known.contains(&(*host, **pci))) {
                let properties = dumped_gpu(sources, *host, pci);
                add(format!("GPU {pci}"), "GPU", SystemTreeDomain::AcceleratorDevice, properties);
            }
            for nic in devices.nics.values() {
                let name = sources.topology.nic_name(*host, nic);
                let mut properties = vec![
                    property(NicDevice, nic.dev),
                    property(NicGdr, nic.gdr),
                    property(PciPath, pci_path(&nic.place)),
                ];
                properties.extend(nic.speed_mbps.map(|speed| property(NicSpeed, speed)));
                properties.extend((!nic.pci.is_empty()).then(|| property(PciAddress, nic.pci.clone())));
                add(format!("NIC {name}"), "NIC", SystemTreeDomain::NetworkingDevice, properties);
            }
        }
    }
}

/// What NCCL's dump says of a GPU.
fn dumped_gpu(sources: &Sources<'_>, host: Host<'_>, pci: &str) -> Vec<Property> {
    let gpu = sources.topology.hosts.get(&host).and_then(|devices| devices.gpus.get(pci));
    let Some(gpu) = gpu else { return Vec::new() };
    vec![
        property(PciAddress, gpu.pci.clone()),
        property(GpuCapability, gpu.capability),
        property(GpuNvlinks, gpu.nvlinks),
        property(PciPath, pci_path(&gpu.place)),
    ]
}

/// As in `0/0000:10:00.0`: the number of the processor, then the bridges from there.
fn pci_path(place: &Place) -> String {
    place.bridges.iter().fold(place.cpu.to_string(), |path, bridge| format!("{path}/{bridge}"))
}

pub(super) fn used_gpus(process: &Process) -> BTreeSet<u32> {
    process.manifest.locations.iter().filter_map(gpu_of).gather()
}

/// Index of the process's GPU that a location belongs to, if any.
pub(super) fn gpu_of(location: &LocationDefinition) -> Option<u32> {
    match location.kind {
        LocationKind::Stream { gpu, .. } => gpu,
        LocationKind::Communicator { gpu, .. } => Some(gpu),
        LocationKind::Thread { .. } | LocationKind::Proxy { .. } | LocationKind::Ranges { .. } => None,
    }
}

pub(super) fn device(process: &Process, number: u32) -> Option<&DeviceDefinition> {
    let ordinal = process.manifest.gpus.get(index(number))?.ordinal?;
    let mut devices = process.manifest.gpu_work.devices.iter();
    devices.find(|device| device.ordinal == ordinal)
}

pub(super) fn tree_name(device: &DeviceDefinition) -> &str {
    let mut known = [device.pci.as_str(), device.uuid.as_str()].into_iter().filter(|name| !name.is_empty());
    known.next().unwrap_or("?")
}

pub(super) fn properties_of(device: &DeviceDefinition) -> Vec<Property> {
    let mut properties = vec![("ordinal", Value::U64(device.ordinal.into()))];
    properties.extend(device.statements().into_iter().map(|(name, text)| (name, Value::String(text))));
    properties
}

/// A GPU's name: its CUDA number and address; if unknown, named after a rank.
pub(super) fn gpu_name(process: &Process, number: u32, comms: &[&Communicator]) -> String {
    let place = process.place();
    let Some(gpu) = process.manifest.gpus.get(index(number)) else {
        return format!("GPU [{place}]");
    };
    if let Some(ordinal) = gpu.ordinal {
        let known = device(process, number).filter(|device| !device.pci.is_empty());
        let place = known.map_or(place, |device| device.pci.clone());
        return format!("GPU {ordinal} [{place}]");
    }
    match gpu.comm.and_then(|comm| comms.get(index(comm))) {
        Some(comm) if !gpu.in_largest => {
            format!("GPU of rank {} of {} [{place}]", gpu.rank, comm.name)
        }
        _ => format!("GPU of rank {} [{place}]", gpu.rank),
    }
}

/// The definitions of an archive; numbers are indices into the lists.
#[derive(Debug, Default)]
pub(crate) struct Definitions {
    pub(crate) strings: Strings,
    /// System tree: the machine, then its hosts, then their GPUs.
    pub(crate) nodes: Vec<SystemTreeNode>,
    pub(crate) location_groups: Vec<LocationGroup>,
    pub(crate) locations: BTreeMap<u64, Location>,
    pub(crate) attributes: Vec<Attribute>,
    pub(crate) regions: Vec<Region>,
    pub(crate) parameters: Vec<Parameter>,
    /// Groups: communicating locations, communicators, regions.
    pub(crate) groups: Vec<Group>,
    pub(crate) comms: Vec<Comm>,
    /// Windows, by number of the communicator; empty if no steps are shown.
    pub(crate) windows: Vec<RmaWin>,
    pub(crate) paradigms: Vec<(Paradigm, ParadigmRecord)>,
}

pub(crate) struct Sources<'a> {
    pub(crate) processes: &'a [Process],
    pub(crate) communicators: &'a Communicators,
    pub(crate) origins: &'a Origins<'a>,
    pub(crate) topology: &'a Topology<'a>,
    pub(crate) attributes: &'a [AttributeDefinition],
    pub(crate) regions: &'a [RegionDefinition],
    /// The regions after which parameters are named.
    pub(crate) parameters: &'a [u32],
}

impl Definitions {
    pub(super) fn properties(&mut self, stated: Vec<Property>) -> Vec<(StringRef, AttributeValue)> {
        let properties = stated.into_iter().map(|(name, value)| {
            let value = attribute_value(value.map(|text| self.string(&text)));
            (self.string(name), value)
        });
        properties.collect()
    }

    pub(super) fn string(&mut self, text: &str) -> StringRef {
        StringRef::new(self.strings.number(text))
    }
}
