//! Hosts, processes and GPUs.

use std::collections::BTreeMap;

use analysis::Trace;
use otf2::LocationGroupRef;
use serde::Serialize;

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Host {
    pub(crate) name: String,
    /// How many of its processes were recorded.
    pub(crate) processes: u64,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Process {
    /// Its name, with the rank where it is known.
    pub(crate) name: String,
    pub(crate) host: String,
    pub(crate) gpus: Vec<String>,
    /// Rows of the time line, those of its GPUs included.
    pub(crate) locations: u64,
    pub(crate) events: u64,
}

/// The processes and the hosts they ran on.
pub(crate) fn places(trace: &Trace) -> (Vec<Host>, Vec<Process>) {
    let groups = &trace.definitions.location_groups;
    let mut hosts: BTreeMap<String, u64> = BTreeMap::new();
    let mut processes: BTreeMap<LocationGroupRef, Process> = BTreeMap::new();
    for reference in trace.processes() {
        let node = trace.host(reference);
        let host = node.and_then(|node| trace.node_name(node));
        let host = host.unwrap_or_default().to_owned();
        *hosts.entry(host.clone()).or_insert(0) += 1;
        let process =
            Process { name: trace.group_name(reference).to_owned(), host, gpus: Vec::new(), locations: 0, events: 0 };
        processes.insert(reference, process);
    }
    for (reference, group) in groups {
        if let Some(process) = processes.get_mut(&group.creator) {
            process.gpus.push(trace.group_name(*reference).to_owned());
        }
    }
    for location in trace.definitions.locations.values() {
        if let Some(process) = processes.get_mut(&trace.process(location.group)) {
            process.locations += 1;
            process.events += location.number_of_events;
        }
    }
    let hosts = hosts.into_iter();
    let hosts = hosts.map(|(name, processes)| Host { name, processes });
    (hosts.collect(), processes.into_values().collect())
}
