//! The system tree: the machine, its hosts, and their GPUs.

use std::collections::{BTreeMap, BTreeSet};

use otf2::records::SystemTreeNode;
use otf2::{AttributeValue, SystemTreeDomain, SystemTreeNodeRef};

use super::gpus::{device, tree_name, used_gpus};
use super::lists::{Definitions, Sources};
use crate::archive::processes::Process;
use process_model::links::gpu_work::definition::DeviceDefinition;
use schema::Value;
use small_sort::Gather;
use tables::index::index_u32;

/// A host: its name and boot.
type Host<'a> = (&'a str, &'a str);

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
        for ((host, identity), device) in devices {
            let properties = device.statements().into_iter().map(|(name, text)| (name, Value::String(text)));
            let node = SystemTreeNode {
                name: self.string(&format!("GPU {}", tree_name(device))),
                class_name: self.string("GPU"),
                parent: tree.hosts.get(&host).copied().unwrap_or_default(),
                domains: vec![SystemTreeDomain::AcceleratorDevice],
                properties: self.properties(properties.collect()),
            };
            let reference = SystemTreeNodeRef::new(index_u32(self.nodes.len()));
            tree.devices.insert((host, identity), reference);
            self.nodes.push(node);
        }
    }
}
