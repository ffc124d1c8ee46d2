//! One definition of every kind.

use otf2::verbatim::Definition;
use otf2::{
    AttributeRef, AttributeValue, CallingContextRef, CallpathRef, CallsiteRef, CartDimensionRef, CartTopologyRef,
    CommRef, GroupRef, InterruptGeneratorRef, IoFileRef, IoHandleRef, IoParadigmRef, LocationGroupRef, LocationRef,
    MetricMemberRef, MetricRef, ParameterRef, RegionRef, RmaWinRef, SourceCodeLocationRef, StringRef,
    SystemTreeNodeRef,
};

/// The location of [`every_kind`].
pub(crate) const LOCATION: LocationRef = LocationRef::new(0);
/// The string that most are named by.
const NAME: StringRef = StringRef::new(1);

pub(crate) fn text(number: u32, text: &[u8]) -> Definition {
    Definition::String { this: StringRef::new(number), text: text.to_vec() }
}

/// One of each kind at least, with values in all fields. Enumerations have numbers that OTF2 3.0 does not have where
/// it stores what it is given.
pub(crate) fn every_kind() -> Vec<Definition> {
    [system(), communication(), values(), calls(), files()].concat()
}

/// Clock, texts, paradigms and the system.
fn system() -> Vec<Definition> {
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
        Definition::Paradigm { paradigm: 4, name: NAME, class: 0 },
        Definition::ParadigmProperty { paradigm: 4, property: 0, value: AttributeValue::String(NAME) },
        Definition::IoParadigm {
            this: IoParadigmRef::new(0),
            identification: NAME,
            name: StringRef::new(2),
            class: 1,
            flags: 1,
            properties: vec![(0, AttributeValue::String(NAME))],
        },
        Definition::SystemTreeNode {
            this: SystemTreeNodeRef::new(0),
            name: NAME,
            class_name: StringRef::new(2),
            parent: SystemTreeNodeRef::UNDEFINED,
        },
        Definition::SystemTreeNodeProperty { of: SystemTreeNodeRef::new(0), name: NAME, value: AttributeValue::U64(7) },
        Definition::SystemTreeNodeDomain { of: SystemTreeNodeRef::new(0), domain: 0 },
        Definition::LocationGroup {
            this: LocationGroupRef::new(0),
            name: NAME,
            group_type: 1,
            parent: SystemTreeNodeRef::new(0),
            creator: LocationGroupRef::UNDEFINED,
        },
        Definition::LocationGroupProperty { of: LocationGroupRef::new(0), name: NAME, value: AttributeValue::F64(0.5) },
        Definition::Location {
            this: LOCATION,
            name: NAME,
            location_type: 1,
            number_of_events: 0,
            group: LocationGroupRef::new(0),
        },
        Definition::LocationProperty { of: LOCATION, name: NAME, value: AttributeValue::I8(-3) },
    ]
}

fn communication() -> Vec<Definition> {
    vec![
        Definition::Region {
            this: RegionRef::new(0),
            name: NAME,
            canonical_name: StringRef::new(2),
            description: StringRef::new(0),
            role: 40,
            paradigm: 4,
            flags: 1,
            source_file: NAME,
            begin_line: 3,
            end_line: 4,
        },
        Definition::Group {
            this: GroupRef::new(0),
            name: NAME,
            group_type: 4,
            paradigm: 4,
            flags: 1,
            members: vec![LOCATION.get()],
        },
        Definition::Group {
            this: GroupRef::new(1),
            name: NAME,
            group_type: 5,
            paradigm: 4,
            flags: 0,
            members: vec![0],
        },
        Definition::Comm {
            this: CommRef::new(0),
            name: NAME,
            group: GroupRef::new(1),
            parent: CommRef::UNDEFINED,
            flags: 1,
        },
        Definition::InterComm {
            this: CommRef::new(1),
            name: NAME,
            group_a: GroupRef::new(1),
            group_b: GroupRef::new(1),
            common: CommRef::new(0),
            flags: 1,
        },
        Definition::RmaWin { this: RmaWinRef::new(0), name: NAME, comm: CommRef::new(0), flags: 1 },
    ]
}

fn values() -> Vec<Definition> {
    vec![
        Definition::Attribute {
            this: AttributeRef::new(0),
            name: NAME,
            description: StringRef::new(2),
            attribute_type: 4,
        },
        Definition::MetricMember {
            this: MetricMemberRef::new(0),
            name: NAME,
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
        Definition::Parameter { this: ParameterRef::new(0), name: NAME, parameter_type: 2 },
    ]
}

fn calls() -> Vec<Definition> {
    vec![
        Definition::Callsite {
            this: CallsiteRef::new(0),
            source_file: NAME,
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
        Definition::CartDimension { this: CartDimensionRef::new(0), name: NAME, size: 1, periodicity: 1 },
        Definition::CartTopology {
            this: CartTopologyRef::new(0),
            name: NAME,
            comm: CommRef::new(0),
            dimensions: vec![CartDimensionRef::new(0)],
        },
        Definition::CartCoordinate { topology: CartTopologyRef::new(0), rank: 0, coordinates: vec![0] },
        Definition::SourceCodeLocation { this: SourceCodeLocationRef::new(0), file: NAME, line: 8 },
        Definition::CallingContext {
            this: CallingContextRef::new(0),
            region: RegionRef::new(0),
            source_code_location: SourceCodeLocationRef::new(0),
            parent: CallingContextRef::UNDEFINED,
        },
        Definition::CallingContextProperty {
            of: CallingContextRef::new(0),
            name: NAME,
            value: AttributeValue::Region(RegionRef::new(0)),
        },
        Definition::InterruptGenerator {
            this: InterruptGeneratorRef::new(0),
            name: NAME,
            mode: 1,
            base: 1,
            exponent: -3,
            period: 11,
        },
    ]
}

fn files() -> Vec<Definition> {
    vec![
        Definition::IoRegularFile { this: IoFileRef::new(0), name: NAME, scope: SystemTreeNodeRef::new(0) },
        Definition::IoDirectory { this: IoFileRef::new(1), name: NAME, scope: SystemTreeNodeRef::UNDEFINED },
        Definition::IoFileProperty { of: IoFileRef::new(0), name: NAME, value: AttributeValue::String(NAME) },
        Definition::IoHandle {
            this: IoHandleRef::new(0),
            name: NAME,
            file: IoFileRef::new(0),
            paradigm: IoParadigmRef::new(0),
            flags: 1,
            comm: CommRef::new(0),
            parent: IoHandleRef::UNDEFINED,
        },
        Definition::IoPreCreatedHandleState { of: IoHandleRef::new(0), mode: 2, status_flags: 1 },
    ]
}
