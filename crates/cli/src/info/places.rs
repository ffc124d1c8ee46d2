//! Hosts, processes and GPUs.

use std::collections::BTreeMap;

use otf2::{LocationGroupRef, LocationGroupType};
use serde::Serialize;

use crate::archive::Trace;

/// A host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Host {
    /// Its name.
    pub(crate) name: String,
    /// How many of its processes were recorded.
    pub(crate) processes: u64,
}

/// A process.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Process {
    /// Its name, with the rank where it is known.
    pub(crate) name: String,
    /// Where it ran.
    pub(crate) host: String,
    /// The GPUs it drove.
    pub(crate) gpus: Vec<String>,
    /// Rows of the time line, those of its GPUs included.
    pub(crate) locations: u64,
    /// Events on them.
    pub(crate) events: u64,
}

/// The processes and the hosts they ran on.
pub(crate) fn places(trace: &Trace) -> (Vec<Host>, Vec<Process>) {
    let definitions = &trace.definitions;
    let mut processes: BTreeMap<LocationGroupRef, Process> = BTreeMap::new();
    for (reference, group) in &definitions.location_groups {
        if group.group_type != LocationGroupType::Process {
            continue;
        }
        let node = definitions.system_tree_nodes.get(&group.system_tree_parent);
        let host = node.and_then(|node| definitions.string(node.name));
        let name = definitions.string(group.name).unwrap_or_default();
        let process = Process {
            name: name.to_owned(),
            host: host.unwrap_or_default().to_owned(),
            gpus: Vec::new(),
            locations: 0,
            events: 0,
        };
        processes.insert(*reference, process);
    }
    for group in definitions.location_groups.values() {
        if let Some(process) = processes.get_mut(&group.creator) {
            let name = definitions.string(group.name).unwrap_or_default();
            process.gpus.push(name.to_owned());
        }
    }
    for location in definitions.locations.values() {
        let group = definitions.location_groups.get(&location.group);
        let creator = group.map(|group| group.creator);
        let owner = creator
            .filter(|creator| creator.is_defined())
            .unwrap_or(location.group);
        if let Some(process) = processes.get_mut(&owner) {
            process.locations += 1;
            process.events += location.number_of_events;
        }
    }
    let mut hosts: BTreeMap<String, u64> = BTreeMap::new();
    for process in processes.values() {
        *hosts.entry(process.host.clone()).or_insert(0) += 1;
    }
    let hosts = hosts
        .into_iter()
        .map(|(name, processes)| Host { name, processes })
        .collect();
    (hosts, processes.into_values().collect())
}
