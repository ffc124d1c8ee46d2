//! The global definitions of an archive as data, before anything is written. One owner, one order,
//! nothing from arrival.
//!
//! ```text
//!  machine ─ host ─┬ PROCESS "rank 0 [host:pid]" ── API threads, net lanes
//!                  └ GPU ─ ACCELERATOR "GPU 0 …"     ── communicator, stream and channel lanes
//! ```

use std::collections::{BTreeMap, BTreeSet};

use otf2::records::{
    Attribute, ClockProperties, Comm, Group, Location, LocationGroup, MetricClass, MetricMember,
    ParadigmRecord, Region, RmaWin, SystemTreeNode,
};
use otf2::{
    AttributeType, AttributeValue, CommRef, GroupRef, GroupType, LocationGroupRef,
    LocationGroupType, LocationType, MetricBase, MetricMemberRef, MetricMode, MetricOccurrence,
    MetricType, Paradigm, ParadigmClass, RecorderKind, RegionRole, StringRef, SystemTreeDomain,
    SystemTreeNodeRef,
};

use crate::archive::job::Process;
use crate::archive::members::{ArchiveComm, Members, lane_name};
use crate::archive::union::{Metrics, Strings, region_groups};
use crate::clocks::alignment::statement::{self, Hosts, Value};
use crate::clocks::anchors;
use crate::clocks::lane_clock;
use crate::links::gpu_work::definition::DeviceDefinition;
use crate::links::pxn::Origins;
use crate::part::sidecar::{
    AttributeDefinition, LaneDefinition, LaneKind, LaneOwner, RegionDefinition,
};
use crate::tables::place::{index, place};
use journal::part::options::CommLanes;

/// The definitions of an archive; numbers are places in the lists.
#[derive(Debug, Default)]
pub(crate) struct Plan {
    /// Strings.
    pub(crate) strings: Strings,
    /// System tree: the machine, then its hosts, then their GPUs.
    pub(crate) nodes: Vec<SystemTreeNode>,
    /// Processes, then accelerators.
    pub(crate) location_groups: Vec<LocationGroup>,
    /// Locations by id.
    pub(crate) locations: BTreeMap<u64, Location>,
    /// Attributes.
    pub(crate) attributes: Vec<Attribute>,
    /// Regions.
    pub(crate) regions: Vec<Region>,
    /// Groups: communicating locations, communicators, regions.
    pub(crate) groups: Vec<Group>,
    /// Communicators.
    pub(crate) comms: Vec<Comm>,
    /// Windows of the communicators, by the numbers of those; none where no steps are shown.
    pub(crate) windows: Vec<RmaWin>,
    /// Metrics, each a class of its own.
    pub(crate) metrics: Vec<(MetricMember, MetricClass)>,
    /// What NCCL's paradigm is called.
    pub(crate) paradigm: Option<ParadigmRecord>,
}

impl Plan {
    /// Plans the archive of these processes. `strings` has the strings of the parts already.
    #[must_use]
    pub(crate) fn of(
        processes: &[Process],
        members: &Members,
        origins: &Origins<'_>,
        attributes: &[AttributeDefinition],
        regions: &[RegionDefinition],
        metrics: &Metrics,
        strings: Strings,
    ) -> Self {
        let mut plan = Self {
            strings,
            ..Self::default()
        };
        let tree = plan.add_tree(processes);
        plan.add_places(processes, members, origins, &tree);
        plan.add_stubs(members, metrics.comm_lanes);
        for definition in attributes {
            let attribute = Attribute {
                name: plan.string(&definition.name),
                description: plan.string(&definition.description),
                attribute_type: AttributeType::from_raw(definition.value_type),
            };
            plan.attributes.push(attribute);
        }
        for definition in regions {
            let region = Region {
                name: plan.string(&definition.name),
                canonical_name: plan.string(match definition.canonical_name.as_str() {
                    "" => &definition.name,
                    canonical => canonical,
                }),
                description: plan.string(&definition.description),
                role: RegionRole::from_raw(definition.role),
                paradigm: Paradigm::from_raw(definition.paradigm),
                ..Region::default()
            };
            plan.regions.push(region);
        }
        plan.add_comms(members);
        plan.add_windows(processes);
        for (name, members) in region_groups(regions) {
            let group = Group {
                name: plan.string(name),
                group_type: GroupType::Regions,
                paradigm: Paradigm::Unspecified,
                flags: 0,
                members: members.into_iter().collect(),
            };
            plan.groups.push(group);
        }
        plan.add_metrics(metrics);
        plan.paradigm = Some(ParadigmRecord {
            name: plan.string("NCCL"),
            class: ParadigmClass::Process,
            properties: Vec::new(),
        });
        plan
    }

    /// A step puts data into the memory of its peer: a window of the communicator.
    fn add_windows(&mut self, processes: &[Process]) {
        let mut lanes = processes.iter().flat_map(|process| &process.sidecar.lanes);
        if !lanes.any(|lane| matches!(lane.kind, LaneKind::Step { send: true, .. })) {
            return;
        }
        let comms = (0..).zip(&self.comms);
        let windows = comms.map(|(number, comm)| RmaWin {
            name: comm.name,
            comm: CommRef::new(number),
            flags: 0,
        });
        self.windows = windows.collect();
    }

    /// One class for each metric: events refer to it directly, and are on the lane that they are about.
    fn add_metrics(&mut self, metrics: &Metrics) {
        let communicators = match metrics.comm_lanes {
            Some(CommLanes::Stream) => RecorderKind::Gpu,
            Some(CommLanes::Cpu) => RecorderKind::Cpu,
            None => RecorderKind::Unspecified,
        };
        for (number, metric) in (0..).zip(&metrics.all) {
            let member = MetricMember {
                name: self.string(metric.name()),
                description: self.string(metric.description()),
                metric_type: MetricType::Other,
                mode: MetricMode::AbsoluteNext,
                value_type: AttributeType::U64,
                base: MetricBase::Decimal,
                exponent: 0,
                unit: self.string(metric.unit()),
            };
            let class = MetricClass {
                members: vec![MetricMemberRef::new(number)],
                occurrence: MetricOccurrence::Asynchronous,
                recorder_kind: match metric.is_on_communicator() {
                    true => communicators,
                    false => RecorderKind::Cpu,
                },
            };
            self.metrics.push((member, class));
        }
    }

    fn statements(&mut self, said: Vec<(&str, Value)>) -> Vec<(StringRef, AttributeValue)> {
        let said = said.into_iter().map(|(name, value)| {
            let value = match value {
                Value::Text(text) => AttributeValue::String(self.string(&text)),
                Value::Signed(number) => AttributeValue::I64(number),
                Value::Unsigned(number) => AttributeValue::U64(number),
            };
            (self.string(name), value)
        });
        said.collect()
    }

    fn string(&mut self, text: &str) -> StringRef {
        StringRef::new(self.strings.number(text))
    }

    /// The machine, its hosts, and their GPUs as far as they are known.
    fn add_tree<'a>(&mut self, processes: &'a [Process]) -> Tree<'a> {
        let jobs = processes.iter().filter_map(|process| {
            let job = &process.sidecar.process.environment.job;
            job.as_deref().filter(|job| !job.is_empty())
        });
        let job = jobs.min().unwrap_or("machine");
        let machine = SystemTreeNode {
            name: self.string(job),
            class_name: self.string("machine"),
            parent: SystemTreeNodeRef::UNDEFINED,
            domains: vec![SystemTreeDomain::Machine],
            properties: Vec::new(),
        };
        self.nodes.push(machine);
        let hosts: BTreeSet<(&str, &str)> = processes.iter().map(Process::host).collect();
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
            let reference = SystemTreeNodeRef::new(place(self.nodes.len()));
            tree.hosts.insert((host, boot_id), reference);
            self.nodes.push(node);
        }
        self.add_devices(processes, &mut tree);
        tree
    }

    /// The GPUs that are used, each once, whichever processes use it.
    fn add_devices<'a>(&mut self, processes: &'a [Process], tree: &mut Tree<'a>) {
        let mut devices: BTreeMap<(Host<'a>, &'a str), &'a DeviceDefinition> = BTreeMap::new();
        for process in processes {
            let lanes = process.sidecar.options.comm_lanes;
            let gpus = process
                .sidecar
                .lanes
                .iter()
                .filter_map(|lane| gpu(lane, lanes));
            let gpus: BTreeSet<u32> = gpus.collect();
            for device in gpus.into_iter().filter_map(|gpu| device(process, gpu)) {
                if let Some(identity) = device.identity() {
                    devices.entry((process.host(), identity)).or_insert(device);
                }
            }
        }
        for ((host, identity), device) in devices {
            let said = device.statements().into_iter();
            let said = said.map(|(name, text)| (name, Value::Text(text)));
            let node = SystemTreeNode {
                name: self.string(&format!("GPU {}", tree_name(device))),
                class_name: self.string("GPU"),
                parent: tree.hosts.get(&host).copied().unwrap_or_default(),
                domains: vec![SystemTreeDomain::AcceleratorDevice],
                properties: self.statements(said.collect()),
            };
            let reference = SystemTreeNodeRef::new(place(self.nodes.len()));
            tree.devices.insert((host, identity), reference);
            self.nodes.push(node);
        }
    }

    /// Processes, their GPUs, and the lanes of both.
    fn add_places(
        &mut self,
        processes: &[Process],
        members: &Members,
        origins: &Origins<'_>,
        tree: &Tree<'_>,
    ) {
        let names = Hosts::of(processes);
        for process in processes {
            let node = tree.host(process);
            let mut said = statement::of_process(process, &names);
            said.extend(anchors::of_process(&process.sidecar));
            let group = LocationGroup {
                name: self.string(&process.name()),
                group_type: LocationGroupType::Process,
                system_tree_parent: node,
                creator: LocationGroupRef::UNDEFINED,
                properties: self.statements(said),
            };
            self.location_groups.push(group);
        }
        for ((creator, process), map) in (0..).zip(processes).zip(&members.maps) {
            let comms: Vec<&ArchiveComm> = map
                .iter()
                .filter_map(|&number| members.comms.get(index(number)))
                .collect();
            let node = tree.host(process);
            let mut gpus: BTreeMap<u32, LocationGroupRef> = BTreeMap::new();
            let lanes = process.sidecar.options.comm_lanes;
            let gpu = |lane| gpu(lane, lanes);
            let used: BTreeSet<u32> = process.sidecar.lanes.iter().filter_map(gpu).collect();
            for number in used {
                let (device_node, said) = match device(process, number) {
                    Some(device) => (tree.device(process, device), statements(device)),
                    None => (None, Vec::new()),
                };
                let group = LocationGroup {
                    name: self.string(&gpu_name(process, number, &comms)),
                    group_type: LocationGroupType::Accelerator,
                    system_tree_parent: device_node.unwrap_or(node),
                    creator: LocationGroupRef::new(creator),
                    properties: self.statements(said),
                };
                gpus.insert(
                    number,
                    LocationGroupRef::new(place(self.location_groups.len())),
                );
                self.location_groups.push(group);
            }
            for (id, lane) in process.lanes() {
                let gpu = gpu(lane).and_then(|number| gpus.get(&number));
                // What a process did for a rank of another is among that one's rows.
                let origin = origins.of_lane(process, &lane.kind);
                let whose = origin.map(|origin| origins.short(origin));
                let mut name = lane_name(&lane.kind, lane.sibling, &comms, whose.as_deref());
                if origin.is_some() {
                    name.push_str(&format!(" by {}", process.place()));
                }
                let owner = origin.map_or(creator, |origin| place(origin.process));
                let location = Location {
                    name: self.string(&name),
                    location_type: match gpu {
                        Some(_) => LocationType::AcceleratorStream,
                        None => LocationType::CpuThread,
                    },
                    number_of_events: lane.events,
                    group: gpu.copied().unwrap_or(LocationGroupRef::new(owner)),
                    properties: lane_clock::properties(
                        &process.sidecar,
                        &lane.kind,
                        &mut self.strings,
                    ),
                };
                self.locations.insert(id, location);
            }
        }
    }

    /// Ranks that no part has: members of communicators without events.
    fn add_stubs(&mut self, members: &Members, lanes: Option<CommLanes>) {
        if members.stubs.is_empty() {
            return;
        }
        let (group_type, location_type) = match lanes {
            Some(CommLanes::Cpu) => (LocationGroupType::Process, LocationType::CpuThread),
            _ => (
                LocationGroupType::Accelerator,
                LocationType::AcceleratorStream,
            ),
        };
        let group = LocationGroup {
            name: self.string("ranks that were not recorded"),
            group_type,
            system_tree_parent: SystemTreeNodeRef::new(0),
            creator: LocationGroupRef::UNDEFINED,
            properties: Vec::new(),
        };
        let reference = LocationGroupRef::new(place(self.location_groups.len()));
        self.location_groups.push(group);
        for stub in &members.stubs {
            let location = Location {
                name: self.string(&stub.name),
                location_type,
                number_of_events: 0,
                group: reference,
                properties: Vec::new(),
            };
            self.locations.insert(stub.location, location);
        }
    }

    /// One group of all communicating lanes, and one group and communicator for each of NCCL's.
    fn add_comms(&mut self, members: &Members) {
        let all = Group {
            name: self.string("NCCL communicator lanes"),
            group_type: GroupType::CommLocations,
            paradigm: Paradigm::Mpi,
            flags: 0,
            // A lane's place in this list is its id, see `job::number_lanes`.
            members: (0..members.recorded + members.stubs.len() as u64).collect(),
        };
        self.groups.push(all);
        for comm in &members.comms {
            let name = self.string(&comm.name);
            let group = Group {
                name,
                group_type: GroupType::CommGroup,
                paradigm: Paradigm::Mpi,
                flags: 0,
                members: comm.lanes.clone(),
            };
            let reference = GroupRef::new(place(self.groups.len()));
            self.groups.push(group);
            self.comms.push(Comm {
                name,
                group: reference,
                parent: CommRef::UNDEFINED,
                flags: 0,
            });
        }
    }
}

/// A host: its name and boot.
type Host<'a> = (&'a str, &'a str);

/// The nodes of the system tree.
#[derive(Debug, Default)]
struct Tree<'a> {
    hosts: BTreeMap<Host<'a>, SystemTreeNodeRef>,
    /// By host and what tells a device from others.
    devices: BTreeMap<(Host<'a>, &'a str), SystemTreeNodeRef>,
}

impl Tree<'_> {
    fn host(&self, process: &Process) -> SystemTreeNodeRef {
        self.hosts.get(&process.host()).copied().unwrap_or_default()
    }

    fn device(&self, process: &Process, device: &DeviceDefinition) -> Option<SystemTreeNodeRef> {
        let key = (process.host(), device.identity()?);
        self.devices.get(&key).copied()
    }
}

/// A device among those of its host.
fn tree_name(device: &DeviceDefinition) -> &str {
    let names = [device.pci.as_str(), device.uuid.as_str()];
    names
        .into_iter()
        .find(|name| !name.is_empty())
        .unwrap_or("?")
}

/// What is known of a process's GPU.
fn device(process: &Process, number: u32) -> Option<&DeviceDefinition> {
    let gpu = process.sidecar.gpus.get(index(number))?;
    let ordinal = gpu.ordinal?;
    let mut devices = process.sidecar.gpu_work.devices.iter();
    devices.find(|device| device.ordinal == ordinal)
}

/// What the group of a process's GPU says of it.
fn statements(device: &DeviceDefinition) -> Vec<(&'static str, Value)> {
    let mut said = vec![("ordinal", Value::Unsigned(device.ordinal.into()))];
    let known = device.statements().into_iter();
    said.extend(known.map(|(name, text)| (name, Value::Text(text))));
    said
}

/// Which of its process's GPUs a lane belongs to, if any.
fn gpu(lane: &LaneDefinition, lanes: CommLanes) -> Option<u32> {
    match lane.kind {
        LaneKind::Communicator { .. } if lanes == CommLanes::Cpu => None,
        LaneKind::Communicator { gpu, .. }
        | LaneKind::Stream { gpu, .. }
        | LaneKind::Channel {
            owner: LaneOwner::Rank { gpu, .. },
            ..
        } => Some(gpu),
        // Whose GPU a communicator of another process is on, nobody here can tell.
        LaneKind::Channel {
            owner: LaneOwner::Foreign { .. },
            ..
        }
        | LaneKind::Thread { .. }
        | LaneKind::Proxy { .. }
        | LaneKind::Net { .. }
        | LaneKind::Step { .. }
        | LaneKind::Plugin { .. } => None,
    }
}

/// What a GPU is called: by its number in CUDA and its address; where those are not known, after a rank.
fn gpu_name(process: &Process, number: u32, comms: &[&ArchiveComm]) -> String {
    let place = process.place();
    let Some(gpu) = process.sidecar.gpus.get(index(number)) else {
        return format!("GPU [{place}]");
    };
    if let Some(ordinal) = gpu.ordinal {
        let known = device(process, number).filter(|device| !device.pci.is_empty());
        let place = known.map_or(place, |device| device.pci.clone());
        return format!("GPU {ordinal} [{place}]");
    }
    match comms.get(index(gpu.comm)) {
        Some(comm) if !gpu.in_largest => {
            format!("GPU of rank {} of {} [{place}]", gpu.rank, comm.name)
        }
        _ => format!("GPU of rank {} [{place}]", gpu.rank),
    }
}

/// The archive's clock: nanoseconds since 1970, from the first event to the last.
#[must_use]
pub(crate) fn clock(processes: &[Process]) -> ClockProperties {
    let with_events = || {
        let some = |process: &&Process| process.sidecar.lanes.iter().any(|lane| lane.events > 0);
        processes.iter().filter(some)
    };
    let first = with_events().map(|process| process.archive_ns(process.sidecar.span_ns.0));
    let last = with_events().map(|process| process.archive_ns(process.sidecar.span_ns.1));
    let first = first.min().unwrap_or(0);
    let length = last.max().unwrap_or(0).saturating_sub(first);
    ClockProperties {
        timer_resolution: 1_000_000_000,
        global_offset: first,
        trace_length: length.saturating_add(1),
        realtime_timestamp: first,
    }
}
