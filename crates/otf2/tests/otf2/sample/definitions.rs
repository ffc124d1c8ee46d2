//! The definitions of the sample, at least one of every kind.

use otf2::verbatim::Definition::{self, *};
use otf2::{
    AttributeRef, AttributeValue, CallingContextRef, CallpathRef, CallsiteRef, CartDimensionRef, CartTopologyRef,
    CommRef, GroupRef, InterruptGeneratorRef, IoFileRef, IoHandleRef, IoParadigmRef, LocationGroupRef, LocationRef,
    MetricMemberRef, MetricRef, ParameterRef, RegionRef, RmaWinRef, SourceCodeLocationRef, StringRef,
    SystemTreeNodeRef,
};

use super::events::VALUES;

pub(crate) const HOST_THREAD: LocationRef = LocationRef::new(0);
pub(crate) const GPU_STREAM: LocationRef = LocationRef::new(1 << 32);
pub(crate) const QUIET: LocationRef = LocationRef::new(7 << 32 | 3);
/// The name of most definitions.
const NAME: StringRef = StringRef::new(1);

pub(crate) fn text(number: u32, text: &[u8]) -> Definition {
    String { this: StringRef::new(number), text: text.to_vec() }
}

/// Definitions with values in all fields, including numbers that OTF2 3.0 does not have, where libotf2 stores them
/// unchanged. `events` are the numbers of events of the host's thread and of the GPU's stream.
pub(crate) fn every_kind(events: [u64; 2]) -> Vec<Definition> {
    [system(events), communication(), values(), calls(), files()].concat()
}

/// Clock, texts, paradigms and the system.
fn system(events: [u64; 2]) -> Vec<Definition> {
    let group = |number, group_type, creator| LocationGroup {
        this: LocationGroupRef::new(number),
        name: NAME,
        group_type,
        parent: SystemTreeNodeRef::new(0),
        creator,
    };
    let location = |this, location_type, number_of_events, group| {
        let group = LocationGroupRef::new(group);
        Location { this, name: NAME, location_type, number_of_events, group }
    };
    vec![
        ClockProperties {
            timer_resolution: 2_445_450_361,
            global_offset: 1000,
            trace_length: 100_000,
            realtime_timestamp: 1_700_000_000_000_000_000,
        },
        text(0, b""),
        text(1, b"name"),
        text(2, &[0xff, 0xfe, b'x']),
        Paradigm { paradigm: 4, name: NAME, class: 0 },
        ParadigmProperty { paradigm: 4, property: 0, value: AttributeValue::String(NAME) },
        IoParadigm {
            this: IoParadigmRef::new(0),
            identification: NAME,
            name: StringRef::new(2),
            class: 1,
            flags: 1,
            properties: vec![(0, AttributeValue::String(NAME))],
        },
        SystemTreeNode {
            this: SystemTreeNodeRef::new(0),
            name: NAME,
            class_name: StringRef::new(2),
            parent: SystemTreeNodeRef::UNDEFINED,
        },
        SystemTreeNodeProperty { of: SystemTreeNodeRef::new(0), name: NAME, value: AttributeValue::U64(7) },
        SystemTreeNodeDomain { of: SystemTreeNodeRef::new(0), domain: 0 },
        group(0, 1, LocationGroupRef::UNDEFINED),
        group(1, 2, LocationGroupRef::new(0)),
        LocationGroupProperty { of: LocationGroupRef::new(0), name: NAME, value: AttributeValue::F64(0.5) },
        location(HOST_THREAD, 1, events[0], 0),
        location(GPU_STREAM, 2, events[1], 1),
        location(QUIET, 1, 0, 0),
        LocationProperty { of: HOST_THREAD, name: NAME, value: AttributeValue::I8(-3) },
    ]
}

fn communication() -> Vec<Definition> {
    let region = |number| Region {
        this: RegionRef::new(number),
        name: NAME,
        canonical_name: StringRef::new(2),
        description: StringRef::new(0),
        role: 40,
        paradigm: 4,
        flags: 1,
        source_file: NAME,
        begin_line: 3,
        end_line: 4,
    };
    let group = |number, group_type, members| {
        let this = GroupRef::new(number);
        Group { this, name: NAME, group_type, paradigm: 4, flags: 1, members }
    };
    vec![
        region(0),
        region(1),
        group(0, 4, vec![GPU_STREAM.get(), QUIET.get()]),
        group(1, 5, vec![1, 0]),
        group(2, 2, vec![0, 1]),
        Comm { this: CommRef::new(0), name: NAME, group: GroupRef::new(1), parent: CommRef::UNDEFINED, flags: 0 },
        InterComm {
            this: CommRef::new(1),
            name: NAME,
            group_a: GroupRef::new(1),
            group_b: GroupRef::new(1),
            common: CommRef::new(0),
            flags: 0,
        },
        RmaWin { this: RmaWinRef::new(0), name: NAME, comm: CommRef::new(0), flags: 0 },
    ]
}

fn values() -> Vec<Definition> {
    let attributes = (0..).zip(VALUES).map(|(number, value)| Attribute {
        this: AttributeRef::new(number),
        name: NAME,
        description: StringRef::new(2),
        attribute_type: value.attribute_type().raw(),
    });
    // U64, F64 and I64.
    let members = (0..).zip([4, 10, 8]).map(|(number, value_type)| MetricMember {
        this: MetricMemberRef::new(number),
        name: NAME,
        description: StringRef::new(2),
        metric_type: 1,
        mode: 1,
        value_type,
        base: 1,
        exponent: -9,
        unit: StringRef::new(0),
    });
    let classes = (0..).zip([1, 3]).map(|(number, members)| MetricClass {
        this: MetricRef::new(number),
        members: (0..members).map(MetricMemberRef::new).collect(),
        occurrence: 2,
        recorder_kind: 1,
    });
    let instance = MetricInstance {
        this: MetricRef::new(2),
        class: MetricRef::new(0),
        recorder: HOST_THREAD,
        scope_kind: 1,
        scope: 0,
    };
    let recorder = MetricClassRecorder { metric: MetricRef::new(0), recorder: HOST_THREAD };
    let parameters = (0..3_u8).map(|parameter_type| {
        let this = ParameterRef::new(parameter_type.into());
        Parameter { this, name: NAME, parameter_type }
    });
    attributes.chain(members).chain(classes).chain([instance, recorder]).chain(parameters).collect()
}

fn calls() -> Vec<Definition> {
    vec![
        Callsite {
            this: CallsiteRef::new(0),
            source_file: NAME,
            line: 5,
            entered: RegionRef::new(0),
            left: RegionRef::new(0),
        },
        Callpath { this: CallpathRef::new(0), parent: CallpathRef::UNDEFINED, region: RegionRef::new(0) },
        CallpathParameter { of: CallpathRef::new(0), parameter: ParameterRef::new(0), value: AttributeValue::U64(9) },
        CartDimension { this: CartDimensionRef::new(0), name: NAME, size: 1, periodicity: 1 },
        CartTopology {
            this: CartTopologyRef::new(0),
            name: NAME,
            comm: CommRef::new(0),
            dimensions: vec![CartDimensionRef::new(0)],
        },
        CartCoordinate { topology: CartTopologyRef::new(0), rank: 0, coordinates: vec![0] },
        SourceCodeLocation { this: SourceCodeLocationRef::new(0), file: NAME, line: 8 },
        CallingContext {
            this: CallingContextRef::new(0),
            region: RegionRef::new(0),
            source_code_location: SourceCodeLocationRef::new(0),
            parent: CallingContextRef::UNDEFINED,
        },
        CallingContextProperty {
            of: CallingContextRef::new(0),
            name: NAME,
            value: AttributeValue::Region(RegionRef::new(0)),
        },
        InterruptGenerator {
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
        IoRegularFile { this: IoFileRef::new(0), name: NAME, scope: SystemTreeNodeRef::new(0) },
        IoDirectory { this: IoFileRef::new(1), name: NAME, scope: SystemTreeNodeRef::UNDEFINED },
        IoFileProperty { of: IoFileRef::new(0), name: NAME, value: AttributeValue::String(NAME) },
        IoHandle {
            this: IoHandleRef::new(0),
            name: NAME,
            file: IoFileRef::new(0),
            paradigm: IoParadigmRef::new(0),
            flags: 1,
            comm: CommRef::new(0),
            parent: IoHandleRef::UNDEFINED,
        },
        IoPreCreatedHandleState { of: IoHandleRef::new(0), mode: 2, status_flags: 1 },
    ]
}
