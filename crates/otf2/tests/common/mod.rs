//! What the tests share: a sample archive, and foreign readers.

#![allow(dead_code, reason = "every test binary uses a part of it")]

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use otf2::records::{
    Attribute, ClockProperties, Comm, Group, Location, LocationGroup, MetricClass, MetricMember,
    ParadigmRecord, Parameter, Region, RmaWin, SystemTreeNode,
};
use otf2::{
    Archive, ArchiveWriter, AttributeRef, AttributeType, AttributeValue, Attributes, Collective,
    CollectiveOp, CommRef, Definitions, Event, EventKind, EventWriter, GlobalDefinitions, GroupRef,
    GroupType, LocationGroupRef, LocationGroupType, LocationRef, LocationType, MeasurementMode,
    Message, MetricBase, MetricMemberRef, MetricMode, MetricOccurrence, MetricRef, MetricType,
    MetricValue, Paradigm, ParadigmClass, ParadigmProperty, ParameterRef, ParameterType,
    RecorderKind, RegionRef, RegionRole, Result, RmaAccess, RmaWinRef, StringRef, SystemTreeDomain,
    SystemTreeNodeRef,
};

pub(crate) const HOST_THREAD: LocationRef = LocationRef::new(0);
pub(crate) const GPU_LANE: LocationRef = LocationRef::new(1 << 32);
pub(crate) const QUIET: LocationRef = LocationRef::new(7 << 32 | 3);

const STRINGS: &[&str] = &[
    "machine",
    "node",
    "cluster",
    "host1",
    "rank 0",
    "GPU 0",
    "API thread 1",
    "NCCL comm ranks 0/1",
    "ncclAllReduce",
    "ncclSend",
    "NCCL",
    "all",
    "comm 0",
    "window",
    "nccl.bytes",
    "nccl.algo",
    "Ring",
    "bytes in flight",
    "B",
    "NCCL bandwidth",
    "B/s",
    "tag",
    "quiet",
    "uuid",
    "GPU-0123",
    "a note, äöü ✓",
    "regions",
    "ratio",
];

pub(crate) fn string(text: &str) -> StringRef {
    let index = STRINGS
        .iter()
        .position(|known| *known == text)
        .expect("a string of the sample");
    StringRef::new(u32::try_from(index).expect("few strings"))
}

/// All kinds of definitions, as they are written and are to be read.
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
        let attribute = Attribute {
            name: string(name),
            description: string(description),
            attribute_type,
        };
        sample
            .attributes
            .insert(AttributeRef::new(number), attribute);
    }
    sample.system_tree_nodes.insert(
        SystemTreeNodeRef::new(0),
        SystemTreeNode {
            name: string("cluster"),
            class_name: string("machine"),
            ..SystemTreeNode::default()
        },
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
        let record = Location {
            name,
            location_type,
            number_of_events,
            group,
            properties,
        };
        sample.locations.insert(reference, record);
    };
    location(
        HOST_THREAD,
        "API thread 1",
        LocationType::CpuThread,
        events[0],
        0,
        Vec::new(),
    );
    let properties = vec![(string("tag"), AttributeValue::U64(u64::MAX))];
    location(
        GPU_LANE,
        "NCCL comm ranks 0/1",
        LocationType::AcceleratorStream,
        events[1],
        1,
        properties,
    );
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
        (
            "all",
            GroupType::CommLocations,
            vec![GPU_LANE.get(), QUIET.get()],
        ),
        ("comm 0", GroupType::CommGroup, vec![1, 0]),
        ("regions", GroupType::Regions, vec![0, 1]),
        ("all", GroupType::Locations, vec![HOST_THREAD.get()]),
    ]) {
        let name = string(name);
        let group = Group {
            name,
            group_type,
            paradigm: Paradigm::Mpi,
            flags: 0,
            members,
        };
        sample.groups.insert(GroupRef::new(number), group);
    }
    sample.comms.insert(
        CommRef::new(0),
        Comm {
            name: string("comm 0"),
            group: GroupRef::new(1),
            parent: CommRef::UNDEFINED,
            flags: 0,
        },
    );
    sample.rma_wins.insert(
        RmaWinRef::new(0),
        RmaWin {
            name: string("window"),
            comm: CommRef::new(0),
            flags: 0,
        },
    );
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
    for (number, parameter_type) in (0..).zip([
        ParameterType::String,
        ParameterType::I64,
        ParameterType::U64,
    ]) {
        let parameter = Parameter {
            name: string("tag"),
            parameter_type,
        };
        sample
            .parameters
            .insert(ParameterRef::new(number), parameter);
    }
    sample.paradigms.insert(
        Paradigm::Mpi,
        ParadigmRecord {
            name: string("NCCL"),
            class: ParadigmClass::Process,
            properties: vec![(
                ParadigmProperty::CommNameTemplate,
                AttributeValue::String(string("comm 0")),
            )],
        },
    );
    sample
}

/// Writes definitions in an order in which everything is defined before it is used.
pub(crate) fn write_definitions(to: &mut GlobalDefinitions<'_>, from: &Definitions) -> Result<()> {
    if let Some(clock) = &from.clock {
        to.clock_properties(clock)?;
    }
    from.strings
        .iter()
        .try_for_each(|(id, it)| to.string(*id, it))?;
    from.attributes
        .iter()
        .try_for_each(|(id, it)| to.attribute(*id, it))?;
    from.paradigms
        .iter()
        .try_for_each(|(id, it)| to.paradigm(*id, it))?;
    from.system_tree_nodes
        .iter()
        .try_for_each(|(id, it)| to.system_tree_node(*id, it))?;
    from.location_groups
        .iter()
        .try_for_each(|(id, it)| to.location_group(*id, it))?;
    from.locations
        .iter()
        .try_for_each(|(id, it)| to.location(*id, it))?;
    from.regions
        .iter()
        .try_for_each(|(id, it)| to.region(*id, it))?;
    from.groups
        .iter()
        .try_for_each(|(id, it)| to.group(*id, it))?;
    from.comms
        .iter()
        .try_for_each(|(id, it)| to.comm(*id, it))?;
    from.rma_wins
        .iter()
        .try_for_each(|(id, it)| to.rma_win(*id, it))?;
    from.metric_members
        .iter()
        .try_for_each(|(id, it)| to.metric_member(*id, it))?;
    from.metric_classes
        .iter()
        .try_for_each(|(id, it)| to.metric_class(*id, it))?;
    from.parameters
        .iter()
        .try_for_each(|(id, it)| to.parameter(*id, it))
}

/// One event of every kind.
pub(crate) fn sample_events() -> Vec<Event> {
    let comm = CommRef::new(0);
    let collective = Collective {
        op: CollectiveOp::Allreduce,
        comm,
        root: None,
        bytes_sent: 8192,
        bytes_received: 8192,
    };
    let rooted = Collective {
        op: CollectiveOp::Bcast,
        root: Some(1),
        ..collective
    };
    let message = Message {
        peer: 1,
        comm,
        tag: 3,
        bytes: 1 << 40,
    };
    let access = RmaAccess {
        win: RmaWinRef::new(0),
        remote: 1,
        bytes: 4096,
        matching: 17,
    };
    let (win, matching) = (access.win, access.matching);
    let kinds = [
        EventKind::MeasurementOnOff(MeasurementMode::On),
        EventKind::Enter(RegionRef::new(0)),
        EventKind::MpiCollectiveBegin,
        EventKind::MpiCollectiveEnd(collective),
        EventKind::NonBlockingCollectiveRequest { request: 9 },
        EventKind::NonBlockingCollectiveComplete {
            collective: rooted,
            request: 9,
        },
        EventKind::MpiIsend {
            message,
            request: 10,
        },
        EventKind::MpiIsendComplete { request: 10 },
        EventKind::MpiIrecvRequest { request: 11 },
        EventKind::MpiIrecv {
            message,
            request: 11,
        },
        EventKind::RmaPut(access),
        EventKind::RmaOpCompleteNonBlocking { win, matching },
        EventKind::RmaGet(access),
        EventKind::RmaOpCompleteBlocking { win, matching },
        EventKind::Metric {
            metric: MetricRef::new(0),
            values: vec![MetricValue::U64(u64::MAX)],
        },
        EventKind::Metric {
            metric: MetricRef::new(1),
            values: vec![
                MetricValue::U64(1),
                MetricValue::F64(-2.5),
                MetricValue::I64(i64::MIN),
            ],
        },
        EventKind::ParameterString {
            parameter: ParameterRef::new(0),
            value: string("Ring"),
        },
        EventKind::ParameterInt {
            parameter: ParameterRef::new(1),
            value: -1,
        },
        EventKind::ParameterUnsignedInt {
            parameter: ParameterRef::new(2),
            value: 1,
        },
        EventKind::Leave(RegionRef::new(0)),
        EventKind::MeasurementOnOff(MeasurementMode::Off),
    ];
    let attributes = vec![
        (AttributeRef::new(0), AttributeValue::U64(1 << 50)),
        (AttributeRef::new(1), AttributeValue::String(string("Ring"))),
        (AttributeRef::new(2), AttributeValue::F64(0.125)),
        (AttributeRef::new(3), AttributeValue::I32(-3)),
    ];
    kinds
        .into_iter()
        .zip(1..)
        .map(|(kind, number): (_, u64)| {
            // Every third event without attributes, every second at the time of the one before.
            let attributes = if number % 3 == 0 {
                Vec::new()
            } else {
                attributes.clone()
            };
            Event {
                time: 1000 + number / 2,
                kind,
                attributes,
            }
        })
        .collect()
}

/// Writes an event as it was read.
pub(crate) fn write_event(to: &mut EventWriter<'_>, event: &Event) -> Result<()> {
    let mut list = Attributes::new();
    for (attribute, value) in &event.attributes {
        list.add(*attribute, *value)?;
    }
    let time = event.time;
    match &event.kind {
        EventKind::Enter(region) => to.enter(time, *region, &list),
        EventKind::Leave(region) => to.leave(time, *region, &list),
        EventKind::MpiCollectiveBegin => to.mpi_collective_begin(time, &list),
        EventKind::MpiCollectiveEnd(collective) => to.mpi_collective_end(time, collective, &list),
        EventKind::NonBlockingCollectiveRequest { request } => {
            to.non_blocking_collective_request(time, *request, &list)
        }
        EventKind::NonBlockingCollectiveComplete {
            collective,
            request,
        } => to.non_blocking_collective_complete(time, collective, *request, &list),
        EventKind::MpiIsend { message, request } => to.mpi_isend(time, message, *request, &list),
        EventKind::MpiIsendComplete { request } => to.mpi_isend_complete(time, *request, &list),
        EventKind::MpiIrecvRequest { request } => to.mpi_irecv_request(time, *request, &list),
        EventKind::MpiIrecv { message, request } => to.mpi_irecv(time, message, *request, &list),
        EventKind::RmaPut(access) => to.rma_put(time, access, &list),
        EventKind::RmaGet(access) => to.rma_get(time, access, &list),
        EventKind::RmaOpCompleteBlocking { win, matching } => {
            to.rma_op_complete_blocking(time, *win, *matching, &list)
        }
        EventKind::RmaOpCompleteNonBlocking { win, matching } => {
            to.rma_op_complete_non_blocking(time, *win, *matching, &list)
        }
        EventKind::Metric { metric, values } => to.metric(time, *metric, values, &list),
        EventKind::ParameterString { parameter, value } => {
            to.parameter_string(time, *parameter, *value, &list)
        }
        EventKind::ParameterInt { parameter, value } => {
            to.parameter_i64(time, *parameter, *value, &list)
        }
        EventKind::ParameterUnsignedInt { parameter, value } => {
            to.parameter_u64(time, *parameter, *value, &list)
        }
        EventKind::MeasurementOnOff(mode) => to.measurement_on_off(time, *mode, &list),
        other => panic!("{other:?} cannot be written"),
    }
}

/// The sample definitions with these events of the GPU lane and one enter and leave of the host thread.
pub(crate) fn write_archive(directory: &Path, gpu_events: &[Event]) -> Result<PathBuf> {
    let mut archive = ArchiveWriter::create(directory, "traces")?;
    archive.set_creator("otf2 tests 1.0")?;
    archive.set_machine_name("cluster")?;
    archive.set_description("a sample\nof two lines")?;
    archive.set_property("Sample::Dropped", "17")?;

    let mut host = archive.event_writer(HOST_THREAD)?;
    host.enter(1000, RegionRef::new(1), Attributes::NONE)?;
    host.leave(90_000, RegionRef::new(1), Attributes::NONE)?;
    let host_events = host.close()?;

    let mut gpu = archive.event_writer(GPU_LANE)?;
    for event in gpu_events {
        write_event(&mut gpu, event)?;
    }
    let gpu_events = gpu.close()?;
    otf2::write_stub_events(&archive.event_file(QUIET))?;

    let sample = sample_definitions([host_events, gpu_events]);
    write_definitions(&mut archive.definitions()?, &sample)?;
    for location in [HOST_THREAD, GPU_LANE, QUIET] {
        archive.local_definitions(location)?.close()?;
    }
    let anchor = archive.anchor_file();
    archive.close()?;
    Ok(anchor)
}

/// All events of some locations, each with its location.
pub(crate) fn read_events(
    archive: &Archive,
    locations: &[LocationRef],
) -> Result<Vec<(LocationRef, Event)>> {
    let mut events = Vec::new();
    archive.for_each_event(locations, |location, event| {
        events.push((location, event));
        ControlFlow::Continue(())
    })?;
    Ok(events)
}

/// Says that a test is skipped, which is a failure in CI.
pub(crate) fn skip(reason: &str) {
    assert!(
        std::env::var_os("CI").is_none_or(|ci| ci != "true"),
        "must not be skipped in CI: {reason}"
    );
    // Past the test harness, which keeps to itself what a test prints that passes.
    let line = format!("skipped: {reason}\n");
    std::io::Write::write_all(&mut std::io::stderr(), line.as_bytes()).expect("write to stderr");
}

/// `otf2-print` with all it knows, warnings being errors; `None` when it is not installed.
pub(crate) fn otf2_print(anchor: &Path) -> Option<Output> {
    Command::new("otf2-print")
        .arg("-Werror")
        .arg("--show-all")
        .arg(anchor)
        .output()
        .ok()
}

/// Runs a Python program with the `otf2` package; `None` when there is none.
pub(crate) fn python(program: &str, arguments: &[&Path]) -> Option<Output> {
    let interpreter = std::env::var_os("PYTHON").unwrap_or_else(|| "python3".into());
    let has_otf2 = Command::new(&interpreter)
        .args(["-c", "import otf2"])
        .output();
    if !has_otf2.is_ok_and(|output| output.status.success()) {
        return None;
    }
    Command::new(&interpreter)
        .arg("-c")
        .arg(program)
        .args(arguments)
        .output()
        .ok()
}
