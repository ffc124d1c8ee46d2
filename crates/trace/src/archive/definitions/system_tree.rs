//! The system tree: the machine, its hosts, and their GPUs.

use std::collections::{BTreeMap, BTreeSet};

use otf2::records::SystemTreeNode;
use otf2::{AttributeValue, SystemTreeDomain, SystemTreeNodeRef};

use super::gpus::{device, tree_name, used_gpus};
use super::lists::{Definitions, Sources};
use crate::archive::clock_statements::Property;
use crate::archive::definitions::topology::Host;
use crate::archive::processes::Process;
use nccl_events::ids::index_u32;
use nccl_events::schema::Value;
use nccl_events::schema::definition::property;
use nccl_events::schema::definition::{GpuCapability, GpuNvlinks, NicDevice, NicGdr, NicSpeed, PciAddress, PciPath};
use nccl_events::sort::Gather;
use process_model::links::gpu_work::definition::DeviceDefinition;
use topology::Place;

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
            for device in used_gpus(process, sources.options).into_iter().filter_map(|gpu| device(process, gpu)) {
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
