//! Sample definitions: as records, and one of every kind.

use otf2::records::{
    Attribute, ClockProperties, Comm, Group, Location, LocationGroup, MetricClass, MetricMember, ParadigmRecord,
    Parameter, Region, RmaWin, SystemTreeNode,
};
use otf2::verbatim::Definition;
use otf2::{
    AttributeRef, AttributeType, AttributeValue, CallingContextRef, CallpathRef, CallsiteRef, CartDimensionRef,
    CartTopologyRef, CommRef, Definitions, GlobalDefinitions, GroupRef, GroupType, InterruptGeneratorRef, IoFileRef,
    IoHandleRef, IoParadigmRef, LocationGroupRef, LocationGroupType, LocationRef, LocationType, MetricBase,
    MetricMemberRef, MetricMode, MetricOccurrence, MetricRef, MetricType, Paradigm, ParadigmClass, ParadigmProperty,
    ParameterRef, ParameterType, RecorderKind, RegionRef, RegionRole, Result, RmaWinRef, SourceCodeLocationRef,
    StringRef, SystemTreeDomain, SystemTreeNodeRef,
};

pub(crate) const HOST_THREAD: LocationRef = LocationRef::new(0);
pub(crate) const GPU_LANE: LocationRef = LocationRef::new(1 << 32);
pub(crate) const QUIET: LocationRef = LocationRef::new(7 << 32 | 3);
/// The location of [`every_kind`].
pub(crate) const LOCATION: LocationRef = LocationRef::new(0);

#[rustfmt::skip] // a table
const STRINGS: &[&str] = &[ "machine", "node", "cluster", "host1", "rank 0", "GPU 0", "API thread 1", "NCCL comm ranks 0/1", "ncclAllReduce", "ncclSend", "NCCL", "all", "comm 0", "window", "nccl.bytes", "nccl.algo", "Ring", "bytes in flight", "B", "NCCL bandwidth", "B/s", "tag", "quiet", "uuid", "GPU-0123", "a note, äöü ✓", "regions", "ratio",
];

pub(crate) fn string(text: &str) -> StringRef {
    let index = STRINGS.iter().position(|known| *known == text).expect("a string of the sample");
    StringRef::new(u32::try_from(index).expect("few strings"))
}

/// All kinds of definitions, as they are written and are to be read.
#[rustfmt::skip] // a table
pub(crate) fn sample_definitions(events: [u64; 2]) -> Definitions {
    let mut sample = Definitions::default();
    for (index, text) in (0..).zip(STRINGS) {
        sample
            .strings
            .insert(StringRef::new(index), (*text).to_owned());
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
        sample
            .attributes
            .insert(AttributeRef::new(number), attribute);
    }
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
    location(GPU_LANE, "NCCL comm ranks 0/1", LocationType::AcceleratorStream, events[1], 1, properties);
    location(QUIET, "quiet", LocationType::CpuThread, 0, 0, Vec::new());
    for (number, (name, role)) in (0..).zip([
        ("ncclAllReduce", RegionRole::CollAll2All),
        ("ncclSend", RegionRole::Point2Point),
    ]) {
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
        ("all", GroupType::CommLocations, vec![GPU_LANE.get(), QUIET.get()]),
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
        sample
            .metric_members
            .insert(MetricMemberRef::new(number), member);
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
        sample
            .parameters
            .insert(ParameterRef::new(number), parameter);
    }
    sample.paradigms.insert(
        Paradigm::Mpi,
        ParadigmRecord {
            name: string("NCCL"),
            class: ParadigmClass::Process,
            properties: vec![(ParadigmProperty::CommNameTemplate, AttributeValue::String(string("comm 0")))],
        },
    );
    sample
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

pub(crate) fn text(number: u32, text: &[u8]) -> Definition {
    Definition::String { this: StringRef::new(number), text: text.to_vec() }
}

/// One of each kind at least, with values in all fields. Enumerations have numbers that OTF2 3.0 does not have where
/// it stores what it is given.
#[expect(clippy::too_many_lines, reason = "a list of every kind there is")]
#[rustfmt::skip] // a table
pub(crate) fn every_kind() -> Vec<Definition> {
    let name = StringRef::new(1);
    vec![
        Definition::ClockProperties {
            timer_resolution: 2_445_450_361,
            global_offset: 12,
            trace_length: 34,
            realtime_timestamp: u64::MAX,
        },
        text(0, b""),
        text(1, b"name"),
        text(2, &[0xff, 0xfe, b'x']),
        Definition::Paradigm { paradigm: 4, name, class: 0 },
        Definition::ParadigmProperty { paradigm: 4, property: 0, value: AttributeValue::String(name) },
        Definition::IoParadigm {
            this: IoParadigmRef::new(0),
            identification: name,
            name: StringRef::new(2),
            class: 1,
            flags: 1,
            properties: vec![(0, AttributeValue::String(name))],
        },
        Definition::SystemTreeNode {
            this: SystemTreeNodeRef::new(0),
            name,
            class_name: StringRef::new(2),
            parent: SystemTreeNodeRef::UNDEFINED,
        },
        Definition::SystemTreeNodeProperty { of: SystemTreeNodeRef::new(0), name, value: AttributeValue::U64(7) },
        Definition::SystemTreeNodeDomain { of: SystemTreeNodeRef::new(0), domain: 0 },
        Definition::LocationGroup {
            this: LocationGroupRef::new(0),
            name,
            group_type: 1,
            parent: SystemTreeNodeRef::new(0),
            creator: LocationGroupRef::UNDEFINED,
        },
        Definition::LocationGroupProperty { of: LocationGroupRef::new(0), name, value: AttributeValue::F64(0.5) },
        Definition::Location {
            this: LOCATION,
            name,
            location_type: 1,
            number_of_events: 0,
            group: LocationGroupRef::new(0),
        },
        Definition::LocationProperty { of: LOCATION, name, value: AttributeValue::I8(-3) },
        Definition::Region {
            this: RegionRef::new(0),
            name,
            canonical_name: StringRef::new(2),
            description: StringRef::new(0),
            role: 40,
            paradigm: 4,
            flags: 1,
            source_file: name,
            begin_line: 3,
            end_line: 4,
        },
        Definition::Group {
            this: GroupRef::new(0),
            name,
            group_type: 4,
            paradigm: 4,
            flags: 1,
            members: vec![LOCATION.get()],
        },
        Definition::Group { this: GroupRef::new(1), name, group_type: 5, paradigm: 4, flags: 0, members: vec![0] },
        Definition::Comm {
            this: CommRef::new(0),
            name,
            group: GroupRef::new(1),
            parent: CommRef::UNDEFINED,
            flags: 1,
        },
        Definition::InterComm {
            this: CommRef::new(1),
            name,
            group_a: GroupRef::new(1),
            group_b: GroupRef::new(1),
            common: CommRef::new(0),
            flags: 1,
        },
        Definition::RmaWin { this: RmaWinRef::new(0), name, comm: CommRef::new(0), flags: 1 },
        Definition::Attribute { this: AttributeRef::new(0), name, description: StringRef::new(2), attribute_type: 4 },
        Definition::MetricMember {
            this: MetricMemberRef::new(0),
            name,
            description: StringRef::new(2),
            metric_type: 1,
            mode: 1,
            value_type: 4,
            base: 1,
            exponent: -9,
            unit: StringRef::new(0),
        },
        Definition::MetricClass {
            this: MetricRef::new(0),
            members: vec![MetricMemberRef::new(0)],
            occurrence: 2,
            recorder_kind: 1,
        },
        Definition::MetricInstance {
            this: MetricRef::new(1),
            class: MetricRef::new(0),
            recorder: LOCATION,
            scope_kind: 1,
            scope: 0,
        },
        Definition::MetricClassRecorder { metric: MetricRef::new(0), recorder: LOCATION },
        Definition::Parameter { this: ParameterRef::new(0), name, parameter_type: 2 },
        Definition::Callsite {
            this: CallsiteRef::new(0),
            source_file: name,
            line: 5,
            entered: RegionRef::new(0),
            left: RegionRef::new(0),
        },
        Definition::Callpath { this: CallpathRef::new(0), parent: CallpathRef::UNDEFINED, region: RegionRef::new(0) },
        Definition::CallpathParameter {
            of: CallpathRef::new(0),
            parameter: ParameterRef::new(0),
            value: AttributeValue::U64(9),
        },
        Definition::CartDimension { this: CartDimensionRef::new(0), name, size: 1, periodicity: 1 },
        Definition::CartTopology {
            this: CartTopologyRef::new(0),
            name,
            comm: CommRef::new(0),
            dimensions: vec![CartDimensionRef::new(0)],
        },
        Definition::CartCoordinate { topology: CartTopologyRef::new(0), rank: 0, coordinates: vec![0] },
        Definition::SourceCodeLocation { this: SourceCodeLocationRef::new(0), file: name, line: 8 },
        Definition::CallingContext {
            this: CallingContextRef::new(0),
            region: RegionRef::new(0),
            source_code_location: SourceCodeLocationRef::new(0),
            parent: CallingContextRef::UNDEFINED,
        },
        Definition::CallingContextProperty {
            of: CallingContextRef::new(0),
            name,
            value: AttributeValue::Region(RegionRef::new(0)),
        },
        Definition::InterruptGenerator {
            this: InterruptGeneratorRef::new(0),
            name,
            mode: 1,
            base: 1,
            exponent: -3,
            period: 11,
        },
        Definition::IoRegularFile { this: IoFileRef::new(0), name, scope: SystemTreeNodeRef::new(0) },
        Definition::IoDirectory { this: IoFileRef::new(1), name, scope: SystemTreeNodeRef::UNDEFINED },
        Definition::IoFileProperty { of: IoFileRef::new(0), name, value: AttributeValue::String(name) },
        Definition::IoHandle {
            this: IoHandleRef::new(0),
            name,
            file: IoFileRef::new(0),
            paradigm: IoParadigmRef::new(0),
            flags: 1,
            comm: CommRef::new(0),
            parent: IoHandleRef::UNDEFINED,
        },
        Definition::IoPreCreatedHandleState { of: IoHandleRef::new(0), mode: 2, status_flags: 1 },
    ]
}
