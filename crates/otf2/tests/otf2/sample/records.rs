//! Sample definitions as records.

use otf2::records::{
    Attribute, ClockProperties, Comm, Group, Location, LocationGroup, MetricClass, MetricMember, ParadigmRecord,
    Parameter, Region, RmaWin, SystemTreeNode,
};
use otf2::{
    AttributeRef, AttributeType, AttributeValue, CommRef, Definitions, GlobalDefinitions, GroupRef, GroupType,
    LocationGroupRef, LocationGroupType, LocationRef, LocationType, MetricBase, MetricMemberRef, MetricMode,
    MetricOccurrence, MetricRef, MetricType, Paradigm, ParadigmClass, ParadigmProperty, ParameterRef, ParameterType,
    RecorderKind, RegionRef, RegionRole, Result, RmaWinRef, StringRef, SystemTreeDomain, SystemTreeNodeRef,
};

pub(crate) const HOST_THREAD: LocationRef = LocationRef::new(0);
pub(crate) const GPU_STREAM: LocationRef = LocationRef::new(1 << 32);
pub(crate) const QUIET: LocationRef = LocationRef::new(7 << 32 | 3);

#[rustfmt::skip] // a table
const STRINGS: &[&str] = &[ "machine", "node", "cluster", "host1", "rank 0", "GPU 0", "API thread 1", "NCCL comm ranks 0/1", "ncclAllReduce", "ncclSend", "NCCL", "all", "comm 0", "window", "nccl.bytes", "nccl.algo", "Ring", "bytes in flight", "B", "NCCL bandwidth", "B/s", "tag", "quiet", "uuid", "GPU-0123", "a note, äöü ✓", "regions", "ratio",
];

pub(crate) fn string(text: &str) -> StringRef {
    let index = STRINGS.iter().position(|known| *known == text).expect("a string of the sample");
    StringRef::new(u32::try_from(index).expect("few strings"))
}

/// All kinds of definitions, as they are written and are to be read.
pub(crate) fn sample_definitions(events: [u64; 2]) -> Definitions {
    let mut sample = Definitions::default();
    add_names(&mut sample);
    add_system(&mut sample, events);
    add_communication(&mut sample);
    add_values(&mut sample);
    sample
}

fn add_names(sample: &mut Definitions) {
    for (index, text) in (0..).zip(STRINGS) {
        sample.strings.insert(StringRef::new(index), (*text).to_owned());
    }
    sample.clock = Some(ClockProperties {
        timer_resolution: 1_000_000_000,
        global_offset: 1000,
        trace_length: 100_000,
        realtime_timestamp: 1_700_000_000_000_000_000,
    });
    for (number, (name, description, attribute_type)) in (0..).zip([
        ("nccl.bytes", "a note, äöü ✓", AttributeType::U64),
        ("nccl.algo", "a note, äöü ✓", AttributeType::String),
        ("ratio", "a note, äöü ✓", AttributeType::F64),
        ("tag", "a note, äöü ✓", AttributeType::I32),
    ]) {
        let attribute = Attribute { name: string(name), description: string(description), attribute_type };
        sample.attributes.insert(AttributeRef::new(number), attribute);
    }
}

/// Two nodes, a process and its GPU, and three locations.
fn add_system(sample: &mut Definitions, events: [u64; 2]) {
    sample.system_tree_nodes.insert(
        SystemTreeNodeRef::new(0),
        SystemTreeNode { name: string("cluster"), class_name: string("machine"), ..SystemTreeNode::default() },
    );
    sample.system_tree_nodes.insert(
        SystemTreeNodeRef::new(1),
        SystemTreeNode {
            name: string("host1"),
            class_name: string("node"),
            parent: SystemTreeNodeRef::new(0),
            domains: vec![SystemTreeDomain::SharedMemory],
            properties: vec![(string("uuid"), AttributeValue::String(string("GPU-0123")))],
        },
    );
    sample.location_groups.insert(
        LocationGroupRef::new(0),
        LocationGroup {
            name: string("rank 0"),
            group_type: LocationGroupType::Process,
            system_tree_parent: SystemTreeNodeRef::new(1),
            creator: LocationGroupRef::UNDEFINED,
            properties: vec![(string("tag"), AttributeValue::I32(-5))],
        },
    );
    sample.location_groups.insert(
        LocationGroupRef::new(1),
        LocationGroup {
            name: string("GPU 0"),
            group_type: LocationGroupType::Accelerator,
            system_tree_parent: SystemTreeNodeRef::new(1),
            creator: LocationGroupRef::new(0),
            properties: Vec::new(),
        },
    );
    let mut location = |reference, name, location_type, number_of_events, group, properties| {
        let group = LocationGroupRef::new(group);
        let name = string(name);
        let record = Location { name, location_type, number_of_events, group, properties };
        sample.locations.insert(reference, record);
    };
    location(HOST_THREAD, "API thread 1", LocationType::CpuThread, events[0], 0, Vec::new());
    let properties = vec![(string("tag"), AttributeValue::U64(u64::MAX))];
    location(GPU_STREAM, "NCCL comm ranks 0/1", LocationType::AcceleratorStream, events[1], 1, properties);
    location(QUIET, "quiet", LocationType::CpuThread, 0, 0, Vec::new());
}

/// Regions, groups, a communicator and its window.
fn add_communication(sample: &mut Definitions) {
    for (number, (name, role)) in
        (0..).zip([("ncclAllReduce", RegionRole::CollAll2All), ("ncclSend", RegionRole::Point2Point)])
    {
        let region = Region {
            name: string(name),
            canonical_name: string(name),
            role,
            paradigm: Paradigm::Mpi,
            ..Region::default()
        };
        sample.regions.insert(RegionRef::new(number), region);
    }
    for (number, (name, group_type, members)) in (0..).zip([
        ("all", GroupType::CommLocations, vec![GPU_STREAM.get(), QUIET.get()]),
        ("comm 0", GroupType::CommGroup, vec![1, 0]),
        ("regions", GroupType::Regions, vec![0, 1]),
        ("all", GroupType::Locations, vec![HOST_THREAD.get()]),
    ]) {
        let name = string(name);
        let group = Group { name, group_type, paradigm: Paradigm::Mpi, flags: 0, members };
        sample.groups.insert(GroupRef::new(number), group);
    }
    sample.comms.insert(
        CommRef::new(0),
        Comm { name: string("comm 0"), group: GroupRef::new(1), parent: CommRef::UNDEFINED, flags: 0 },
    );
    sample.rma_wins.insert(RmaWinRef::new(0), RmaWin { name: string("window"), comm: CommRef::new(0), flags: 0 });
}

fn add_values(sample: &mut Definitions) {
    for (number, (name, unit, value_type)) in (0..).zip([
        ("bytes in flight", "B", AttributeType::U64),
        ("NCCL bandwidth", "B/s", AttributeType::F64),
        ("ratio", "B", AttributeType::I64),
    ]) {
        let member = MetricMember {
            name: string(name),
            description: string("a note, äöü ✓"),
            metric_type: MetricType::Other,
            mode: MetricMode::AbsoluteNext,
            value_type,
            base: MetricBase::Decimal,
            exponent: 0,
            unit: string(unit),
        };
        sample.metric_members.insert(MetricMemberRef::new(number), member);
    }
    for (number, members) in (0..).zip([vec![0], vec![0, 1, 2]]) {
        let class = MetricClass {
            members: members.into_iter().map(MetricMemberRef::new).collect(),
            occurrence: MetricOccurrence::Asynchronous,
            recorder_kind: RecorderKind::Gpu,
        };
        sample.metric_classes.insert(MetricRef::new(number), class);
    }
    for (number, parameter_type) in (0..).zip([ParameterType::String, ParameterType::I64, ParameterType::U64]) {
        let parameter = Parameter { name: string("tag"), parameter_type };
        sample.parameters.insert(ParameterRef::new(number), parameter);
    }
    sample.paradigms.insert(
        Paradigm::Mpi,
        ParadigmRecord {
            name: string("NCCL"),
            class: ParadigmClass::Process,
            properties: vec![(ParadigmProperty::CommNameTemplate, AttributeValue::String(string("comm 0")))],
        },
    );
}

/// Writes definitions in an order in which everything is defined before it is used.
pub(crate) fn write_definitions(to: &mut GlobalDefinitions<'_>, from: &Definitions) -> Result<()> {
    /// Writes all records of a kind.
    macro_rules! write {
        ($($method:ident: $kind:ident,)*) => {
            $(from.$kind.iter().try_for_each(|(id, it)| to.$method(*id, it))?;)*
        };
    }
    if let Some(clock) = &from.clock {
        to.clock_properties(clock)?;
    }
    write! {
        string: strings,
        attribute: attributes,
        paradigm: paradigms,
        system_tree_node: system_tree_nodes,
        location_group: location_groups,
        location: locations,
        region: regions,
        group: groups,
        comm: comms,
        rma_win: rma_wins,
        metric_member: metric_members,
        metric_class: metric_classes,
        parameter: parameters,
    }
    Ok(())
}
