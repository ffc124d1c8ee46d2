//! The global definitions of an archive as data. Their order does not depend on that in which parts arrive.
//!
//! ```text
//!  machine ─ host ─┬ PROCESS "rank 0 [host:pid]" ── API threads, network connections
//!                  └ GPU ─ ACCELERATOR "GPU 0 …"     ── communicators, streams and channels
//! ```

use std::collections::BTreeMap;

use otf2::records::{
    Attribute, ClockProperties, Comm, Group, Location, LocationGroup, MetricClass, MetricMember, ParadigmRecord,
    Region, RmaWin,
};
use otf2::{
    AttributeType, AttributeValue, CommRef, GroupRef, GroupType, LocationGroupRef, LocationGroupType, LocationType,
    MetricBase, MetricMemberRef, MetricMode, MetricOccurrence, MetricType, Paradigm, ParadigmClass, ParadigmProperty,
    RecorderKind, RegionRole, StringRef, SystemTreeNodeRef,
};

use crate::archive::clock_statements::{self, Hosts};
use crate::archive::communicators::{Communicator, Communicators};
use crate::archive::location_names::location_name;
use crate::archive::location_properties;
use crate::archive::merged::{Strings, region_groups};
use crate::archive::processes::Process;
use crate::part::manifest::RegionDefinition;
use journal::part::environment::{ArchiveOptions, CommLocations};
use nccl_events::archive::{LocationKind, RegionClass, parse_canonical_name};
use nccl_events::ids::{index, index_u32};

mod gpus;
mod lists;
mod system_tree;
pub(crate) mod topology;

pub(crate) use lists::{Definitions, Sources};

use gpus::{device, gpu_name, gpu_of, properties_of, used_gpus};
use system_tree::Tree;

impl Definitions {
    /// The definitions of an archive. `strings` already has the strings of the parts.
    pub(crate) fn of(sources: &Sources<'_>, strings: Strings) -> Self {
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
        definitions.add_comms(sources.communicators);
        definitions.add_windows(sources.processes);
        definitions.add_region_groups(sources.regions);
        definitions.add_metrics(sources.options);
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

    fn add_region_groups(&mut self, regions: &[RegionDefinition]) {
        for (name, members) in region_groups(regions) {
            let name = self.string(name);
            self.add_group(name, (GroupType::Regions, Paradigm::None), members.into_iter().collect());
        }
    }

    /// Adds a window for each communicator: a step puts data into its peer's memory.
    fn add_windows(&mut self, processes: &[Process]) {
        let mut locations = processes.iter().flat_map(|it| &it.manifest.locations);
        if !locations.any(|location| location.kind.is_sending_step()) {
            return;
        }
        let comms = (0..).zip(&self.comms);
        let windows = comms.map(|(number, comm)| RmaWin { name: comm.name, comm: CommRef::new(number), flags: 0 });
        self.windows = windows.collect();
    }

    /// Adds one class for each metric: events refer to it directly, on the location that they describe.
    fn add_metrics(&mut self, options: ArchiveOptions) {
        let communicators = match options.comm_locations {
            CommLocations::Stream => RecorderKind::Gpu,
            CommLocations::Cpu => RecorderKind::Cpu,
        };
        for (number, metric) in (0..).zip(options.metrics()) {
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

    fn add_processes(&mut self, processes: &[Process], tree: &Tree<'_>) {
        let names = Hosts::of(processes);
        for process in processes {
            let mut properties = clock_statements::of_process(process, &names);
            properties.extend(clock_statements::identity(&process.manifest));
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
        let Sources { processes, communicators, origins, .. } = *sources;
        for ((creator, process), map) in (0..).zip(processes).zip(&communicators.maps) {
            let comms = map.iter().filter_map(|&number| communicators.all.get(index(number)));
            let comms: Vec<&Communicator> = comms.collect();
            let gpus = self.add_gpus(process, LocationGroupRef::new(creator), sources, &comms, tree);
            for (id, definition) in process.locations() {
                let gpu = gpu_of(definition, sources.options.comm_locations).and_then(|number| gpus.get(&number));
                // Work for a rank of another process is listed among that rank's locations.
                let origin = origins.of_location(process, &definition.kind);
                let mut name = location_name(definition, &comms, origin.map(|origin| origins.short(origin)).as_deref());
                if origin.is_some() {
                    name.push_str(&format!(" by {}", process.place()));
                }
                let owner = origin.map_or(creator, |origin| index_u32(origin.process));
                let mut stated = location_properties::of_location(definition, origin, communicators, map);
                stated.extend(clock_statements::of_location(&process.manifest, &definition.kind));
                stated.extend(sources.topology.of_location(process.host(), definition, origin, map));
                let properties = self.properties(stated);
                let location = Location {
                    name: self.string(&name),
                    location_type: match gpu {
                        Some(_) => LocationType::AcceleratorStream,
                        None => LocationType::CpuThread,
                    },
                    number_of_events: definition.events,
                    group: gpu.copied().unwrap_or(LocationGroupRef::new(owner)),
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
        sources: &Sources<'a>,
        comms: &[&Communicator],
        tree: &Tree<'a>,
    ) -> BTreeMap<u32, LocationGroupRef> {
        let mut gpus = BTreeMap::new();
        for number in used_gpus(process, sources.options) {
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
        let (group_type, location_type) = match sources.options.comm_locations {
            CommLocations::Cpu => (LocationGroupType::Process, LocationType::CpuThread),
            CommLocations::Stream => (LocationGroupType::Accelerator, LocationType::AcceleratorStream),
        };
        let group = LocationGroup {
            name: self.string("ranks that were not recorded"),
            group_type,
            system_tree_parent: SystemTreeNodeRef::new(0),
            creator: LocationGroupRef::UNDEFINED,
            properties: Vec::new(),
        };
        let group = self.add_location_group(group);
        for stub in stubs {
            let location = Location {
                name: self.string(&stub.name),
                location_type,
                number_of_events: 0,
                group,
                properties: self.properties(vec![location_properties::kind(LocationKind::NotRecorded)]),
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
