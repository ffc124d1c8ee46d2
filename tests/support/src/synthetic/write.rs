//! Writes a job as an archive in this project's vocabulary (`docs/MAPPING.md`).

use std::path::{Path, PathBuf};

use otf2::records::{
    Attribute, ClockProperties, Comm, Group, Location, LocationGroup, Parameter, Region, SystemTreeNode,
};
use otf2::{
    ArchiveWriter, AttributeRef, AttributeType, AttributeValue, Attributes, CommRef, EventWriter, GlobalDefinitions,
    GroupRef, GroupType, LocationGroupRef, LocationGroupType, LocationRef, LocationType, MeasurementMode, Paradigm,
    ParameterRef, ParameterType, RegionRef, StringRef, SystemTreeNodeRef,
};

use super::job::{Job, Operation};

const ATTRIBUTES: [(&str, AttributeType); 16] = [
    ("nccl.event", AttributeType::U64),
    ("nccl.parent", AttributeType::U64),
    ("nccl.bytes", AttributeType::U64),
    ("nccl.seq", AttributeType::U64),
    ("nccl.timing", AttributeType::String),
    ("nccl.algbw", AttributeType::F64),
    ("nccl.busbw", AttributeType::F64),
    ("nccl.peer", AttributeType::I32),
    ("nccl.channel", AttributeType::U32),
    ("nccl.root", AttributeType::I32),
    ("nccl.launch", AttributeType::U64),
    ("nccl.duration_ns", AttributeType::U64),
    ("nccl.comm", AttributeType::Comm),
    ("nccl.rank", AttributeType::U32),
    ("nccl.wait_net_ns", AttributeType::U64),
    ("nccl.group", AttributeType::U64),
];
const REGIONS: [(&str, &str); 17] = [
    ("ncclAllReduce", "nccl::operation::ncclAllReduce"),
    ("netSend", "nccl::transfer::netSend"),
    ("send step", "nccl::transfer::send step"),
    ("ncclDevKernel_AllReduce", "_Z23ncclDevKernel_AllReducev"),
    ("gemm", "_Z4gemmv"),
    ("ncclSend", "nccl::operation::ncclSend"),
    ("ncclRecv", "nccl::operation::ncclRecv"),
    ("ncclAlltoAll", "nccl::operation::ncclAlltoAll"),
    ("ncclBroadcast", "nccl::operation::ncclBroadcast"),
    ("ncclReduce", "nccl::operation::ncclReduce"),
    ("ncclAllGather", "nccl::operation::ncclAllGather"),
    ("step #", "nvtx::::step #"),
    ("load", "nvtx::::load"),
    ("backward", "nvtx::::backward"),
    ("ncclAllReduce", "nccl::call::ncclAllReduce"),
    ("NCCL launch", "nccl::launch::NCCL launch"),
    ("NCCL AllReduce enqueue", "nccl::enqueue::ncclAllReduce enqueue"),
];
/// The region of a call, whatever it calls.
const CALL: RegionRef = RegionRef::new(14);

pub fn write(directory: &Path, job: &Job, ranks: &[Vec<Operation>]) -> PathBuf {
    let mut archive = ArchiveWriter::create(directory, "traces").expect("a directory");
    archive.set_creator("synthetic").expect("a name");
    archive.set_property("NCCL::TABLE", "ncclProfiler_v6").expect("a property");
    if job.has_ranges {
        let ranges = 3 * ranks.iter().map(Vec::len).sum::<usize>();
        archive.set_property("NCCL::COUNT::RANGES_USER", &ranges.to_string()).expect("a property");
    }
    for name in ["NCCL::CLOCK::RESIDUAL_NS", "NCCL::CLOCK::UNCERTAINTY_NS"] {
        archive.set_property(name, "0").expect("a property");
    }
    let mut events = Vec::new();
    let mut end_ns = 0;
    for (rank, operations) in ranks.iter().enumerate() {
        end_ns = operations.last().map_or(end_ns, |operation| operation.stop_ns.max(end_ns));
        for communicator in 0..=job.communicators.len() {
            let location = member(communicator, rank as u32);
            let mut writer = archive.event_writer(location).expect("an event file");
            let communicator_operations =
                operations.iter().enumerate().filter(|(_, operation)| operation.communicator as usize == communicator);
            operation_events(&mut writer, rank, job, communicator_operations.collect()).expect("events");
            events.push((location, writer.close().expect("closed")));
        }
        for region in [3, 4].into_iter().filter(|_| job.has_kernels) {
            let location = LocationRef::new(u64::from(STREAMS + region) << 32 | rank as u64);
            let mut writer = archive.event_writer(location).expect("an event file");
            for operation in operations {
                let nccl_interval = (operation.start_ns, operation.stop_ns);
                let (start_ns, stop_ns) = if region == 3 { nccl_interval } else { operation.computation() };
                let region = RegionRef::new(region);
                writer.enter(start_ns, region, Attributes::NONE).expect("an event");
                writer.leave(stop_ns, region, Attributes::NONE).expect("an event");
            }
            events.push((location, writer.close().expect("closed")));
        }
        if job.has_ranges {
            let location = LocationRef::new(u64::from(THREADS) << 32 | rank as u64);
            let mut writer = archive.event_writer(location).expect("an event file");
            range_events(&mut writer, operations, job.backward_ns).expect("events");
            events.push((location, writer.close().expect("closed")));
        }
        if job.calls.is_some() {
            let location = LocationRef::new(u64::from(CALLERS) << 32 | rank as u64);
            let mut writer = archive.event_writer(location).expect("an event file");
            call_events(&mut writer, rank, job, operations).expect("events");
            events.push((location, writer.close().expect("closed")));
        }
        if job.calls.is_some() && job.is_by_callback {
            let location = LocationRef::new(u64::from(CALLBACKS) << 32 | rank as u64);
            let mut writer = archive.event_writer(location).expect("an event file");
            for (number, operation) in operations.iter().enumerate() {
                enqueueing(&mut writer, rank, job, (number, operation)).expect("events");
            }
            events.push((location, writer.close().expect("closed")));
        }
        if job.channels > 0 {
            let location = LocationRef::new(u64::from(PROXIES) << 32 | rank as u64);
            let mut writer = archive.event_writer(location).expect("an event file");
            network_events(&mut writer, rank, job, operations).expect("events");
            events.push((location, writer.close().expect("closed")));
        }
    }
    events.sort_by_key(|(location, _)| *location);
    define(&mut archive, job, &events, end_ns).expect("definitions");
    for (location, _) in &events {
        archive.local_definitions(*location).expect("a file").close().expect("closed");
    }
    archive.close().expect("closed");
    directory.join("traces.otf2")
}

const STREAMS: u32 = 1000;
const THREADS: u32 = 1500;
const CALLERS: u32 = 1600;
const CALLBACKS: u32 = 1700;
const PROXIES: u32 = 1800;
/// First location number for communicators other than the first.
const MEMBERS: u32 = 2000;

/// The location of a job's rank in a communicator.
fn member(communicator: usize, rank: u32) -> LocationRef {
    LocationRef::new(
        if communicator == 0 { 0 } else { u64::from(MEMBERS) + communicator as u64 } << 32 | u64::from(rank),
    )
}

/// One operation after the other.
fn range_events(writer: &mut EventWriter<'_>, operations: &[Operation], backward_ns: u64) -> otf2::Result<()> {
    let mut before_ns = 0;
    for operation in operations {
        let [(step, (begin_ns, end_ns)), inside @ ..] = operation.ranges(before_ns, backward_ns);
        writer.enter(begin_ns, region(step), Attributes::NONE)?;
        for (name, (begin_ns, end_ns)) in inside {
            writer.enter(begin_ns, region(name), Attributes::NONE)?;
            writer.leave(end_ns, region(name), Attributes::NONE)?;
        }
        writer.leave(end_ns, region(step), Attributes::NONE)?;
        before_ns = end_ns;
    }
    Ok(())
}

/// Calls outside of groups; NCCL enqueues right after the launch.
fn call_events(writer: &mut EventWriter<'_>, rank: usize, job: &Job, operations: &[Operation]) -> otf2::Result<()> {
    for (number, operation) in operations.iter().enumerate() {
        let (called_ns, launched_ns) = job.called_and_launched(rank, operation);
        let [group, call, launch] = [GROUP_EVENT, CALL_EVENT, LAUNCH_EVENT].map(|kind| event(rank, number, kind));
        writer.enter(called_ns, CALL, &attributes(&[(0, call), (15, group)]))?;
        writer.enter(launched_ns, region("NCCL launch"), &attributes(&[(0, launch), (1, group)]))?;
        writer.leave(launched_ns + 2_000, region("NCCL launch"), Attributes::NONE)?;
        if !job.is_by_callback {
            enqueueing(writer, rank, job, (number, operation))?;
        }
        writer.leave(launched_ns + 5_000, CALL, Attributes::NONE)?;
        let next = operations.get(number + 1).filter(|next| job.is_switched && next.sequence > operation.sequence + 1);
        if let Some(next) = next {
            writer.measurement_on_off(launched_ns + 6_000, MeasurementMode::Off, Attributes::NONE)?;
            let (called_ns, _) = job.called_and_launched(rank, next);
            writer.measurement_on_off(called_ns - 1_000, MeasurementMode::On, Attributes::NONE)?;
        }
    }
    Ok(())
}

fn enqueueing(
    writer: &mut EventWriter<'_>,
    rank: usize,
    job: &Job,
    (number, operation): (usize, &Operation),
) -> otf2::Result<()> {
    let (_, launched_ns) = job.called_and_launched(rank, operation);
    let ids = attributes(&[(0, event(rank, number, 0)), (1, event(rank, number, CALL_EVENT))]);
    writer.enter(launched_ns + 3_000, region("NCCL AllReduce enqueue"), &ids)?;
    writer.leave(launched_ns + 4_000, region("NCCL AllReduce enqueue"), Attributes::NONE)
}

/// Kinds of events beyond those of steps.
const GROUP_EVENT: u64 = 60_001;
const CALL_EVENT: u64 = 60_002;
const LAUNCH_EVENT: u64 = 60_003;

fn event(rank: usize, number: usize, kind: u64) -> AttributeValue {
    AttributeValue::U64((rank as u64 + 1) << 48 | (number as u64) << 16 | kind)
}

fn attributes(values: &[(u32, AttributeValue)]) -> Attributes {
    let mut attributes = Attributes::new();
    for (number, value) in values {
        attributes.add(AttributeRef::new(*number), *value).expect("once");
    }
    attributes
}

/// Writes the operations of a location in time order; overlapping ones are nested.
fn operation_events(
    writer: &mut EventWriter<'_>,
    rank: usize,
    job: &Job,
    mut operations: Vec<(usize, &Operation)>,
) -> otf2::Result<()> {
    operations.sort_by_key(|(number, operation)| (operation.start_ns, std::cmp::Reverse(operation.stop_ns), *number));
    let mut open: Vec<&Operation> = Vec::new();
    for (number, operation) in operations {
        while let Some(ended) = open.pop_if(|open| open.stop_ns <= operation.start_ns) {
            leave(writer, job, ended)?;
        }
        assert!(open.last().is_none_or(|open| operation.stop_ns <= open.stop_ns), "{operation:?} is not in {open:?}");
        let mut enter = attributes(&[
            (0, event(rank, number, 0)),
            (2, AttributeValue::U64(operation.bytes)),
            (4, AttributeValue::String(StringRef::new(0))),
        ]);
        if has_sequence(operation) {
            enter.add(AttributeRef::new(3), AttributeValue::U64(operation.sequence))?;
        }
        if job.calls.is_some() {
            enter.add(AttributeRef::new(1), event(rank, number, CALL_EVENT))?;
            enter.add(AttributeRef::new(10), event(rank, number, LAUNCH_EVENT))?;
        }
        if let Some(partner) = operation.partner {
            let attribute = if is_message(operation) { 7 } else { 9 };
            enter.add(AttributeRef::new(attribute), AttributeValue::I32(partner as i32))?;
        }
        writer.enter(operation.start_ns, region(operation.function), &enter)?;
        open.push(operation);
    }
    while let Some(ended) = open.pop() {
        leave(writer, job, ended)?;
    }
    Ok(())
}

fn is_message(operation: &Operation) -> bool {
    matches!(operation.function, "ncclSend" | "ncclRecv")
}

fn has_sequence(operation: &Operation) -> bool {
    !is_message(operation) && operation.function != "ncclAlltoAll"
}

fn leave(writer: &mut EventWriter<'_>, job: &Job, operation: &Operation) -> otf2::Result<()> {
    let seconds = (operation.stop_ns - operation.start_ns) as f64 / 1e9;
    let algbw = operation.bytes as f64 / seconds;
    let ranks = f64::from(job.ranks);
    let bandwidths =
        attributes(&[(5, AttributeValue::F64(algbw)), (6, AttributeValue::F64(algbw * 2.0 * (ranks - 1.0) / ranks))]);
    let none = is_message(operation);
    writer.leave(operation.stop_ns, region(operation.function), if none { Attributes::NONE } else { &bandwidths })
}

fn region(function: &str) -> RegionRef {
    let known = REGIONS.iter().position(|(name, _)| *name == function);
    RegionRef::new(known.expect("a region of REGIONS") as u32)
}

/// The transfers and steps of a rank, as records at their ends.
fn network_events(writer: &mut EventWriter<'_>, rank: usize, job: &Job, operations: &[Operation]) -> otf2::Result<()> {
    let mut records: Vec<(u64, u32, Attributes)> = Vec::new();
    let with_sends = operations.iter().enumerate().filter(|(_, operation)| !operation.sends.is_empty());
    for (number, operation) in with_sends {
        for channel in 0..job.channels {
            let connection = |from_ns: u64, to_ns: u64| {
                attributes(&[
                    (7, AttributeValue::I32((rank as i32 + 1) % job.ranks as i32)),
                    (8, AttributeValue::U32(channel)),
                    (11, AttributeValue::U64(to_ns - from_ns)),
                    (12, AttributeValue::Comm(CommRef::new(0))),
                    (13, AttributeValue::U32(rank as u32)),
                ])
            };
            let transfer = event(rank, number, 1 + u64::from(channel) * 256);
            let steps = &operation.sends[channel as usize];
            for (at, step) in (0..).zip(steps) {
                let end_ns = step.sent_ns + step.ns;
                let mut record = connection(step.sent_ns, end_ns);
                for (attribute, value) in [
                    (0, event(rank, number, 2 + u64::from(channel) * 256 + at)),
                    (1, transfer),
                    (2, AttributeValue::U64(step.bytes)),
                    (14, AttributeValue::U64(step.ns)),
                ] {
                    record.add(AttributeRef::new(attribute), value)?;
                }
                records.push((end_ns, STEP, record));
            }
            let mut record = connection(steps[0].sent_ns - 500, operation.stop_ns);
            record.add(AttributeRef::new(0), transfer)?;
            record.add(AttributeRef::new(1), event(rank, number, 0))?;
            records.push((operation.stop_ns, TRANSFER, record));
        }
    }
    records.sort_by_key(|(at_ns, ..)| *at_ns);
    for (at_ns, parameter, record) in records {
        writer.parameter_u64(at_ns, ParameterRef::new(parameter), 0, &record)?;
    }
    Ok(())
}

/// The parameters of transfers and of steps.
const TRANSFER: u32 = 0;
const STEP: u32 = 1;

/// Defines strings when they are first used.
struct Definer<'a> {
    to: GlobalDefinitions<'a>,
    texts: Vec<String>,
}

impl Definer<'_> {
    fn text(&mut self, text: &str) -> StringRef {
        let known = self.texts.iter().position(|known| known == text);
        let place = known.unwrap_or(self.texts.len());
        let reference = StringRef::new(place as u32);
        if known.is_none() {
            self.texts.push(text.to_owned());
            self.to.string(reference, text).expect("a string");
        }
        reference
    }

    fn text_property(&mut self, name: &str, value: &str) -> (StringRef, AttributeValue) {
        (self.text(name), AttributeValue::String(self.text(value)))
    }
}

fn define(archive: &mut ArchiveWriter, job: &Job, events: &[(LocationRef, u64)], end_ns: u64) -> otf2::Result<()> {
    let mut to = Definer { to: archive.definitions()?, texts: Vec::new() };
    to.text(job.timing);
    to.to.clock_properties(&ClockProperties {
        timer_resolution: 1_000_000_000,
        global_offset: 0,
        trace_length: end_ns + 1,
        realtime_timestamp: job.began_ns.unwrap_or(u64::MAX),
    })?;
    for (number, (name, attribute_type)) in (0..).zip(ATTRIBUTES) {
        let name = to.text(name);
        let attribute = Attribute { name, description: StringRef::UNDEFINED, attribute_type };
        to.to.attribute(AttributeRef::new(number), &attribute)?;
    }
    for host in 0..job.host_count().max(2) {
        let name = to.text(&format!("host{host}"));
        let boot = to.text_property("boot id", &format!("boot{host}"));
        let class_name = to.text("node");
        let node = SystemTreeNode { name, class_name, properties: vec![boot], ..SystemTreeNode::default() };
        to.to.system_tree_node(SystemTreeNodeRef::new(host), &node)?;
    }
    for rank in 0..job.ranks {
        let name = to.text(&format!("rank {rank} [host:{rank}]"));
        let mut properties = Vec::new();
        let error_ns = job.error_ns.or((job.hosts > 1).then_some(Some(0)));
        if let Some(error_ns) = error_ns {
            properties.push(to.text_property("NCCL::CLOCK::REFERENCE", "host0"));
            if let Some(error_ns) = error_ns {
                properties.push((to.text("NCCL::CLOCK::UNCERTAINTY_NS"), AttributeValue::U64(error_ns)));
            }
        }
        let group = LocationGroup {
            name,
            group_type: LocationGroupType::Process,
            system_tree_parent: SystemTreeNodeRef::new(job.host(rank)),
            creator: LocationGroupRef::UNDEFINED,
            properties,
        };
        to.to.location_group(LocationGroupRef::new(rank), &group)?;
    }
    for (location, number_of_events) in events {
        let rank = location.get() & 0xffff_ffff;
        let kind = match location.get() >> 32 {
            0 => "communicator",
            other if other >= MEMBERS.into() => "communicator",
            thread if [THREADS, CALLERS].map(u64::from).contains(&thread) => "api-thread",
            thread if thread == u64::from(CALLBACKS) => "callback-thread",
            thread if thread == u64::from(PROXIES) => "proxy-thread",
            _ => "stream",
        };
        let properties = vec![to.text_property("NCCL::LOCATION_KIND", kind)];
        let name = to.text(&format!("{kind} of rank {rank}"));
        let location_type =
            if kind == "communicator" { LocationType::AcceleratorStream } else { LocationType::CpuThread };
        let group = LocationGroupRef::new(rank as u32);
        let definition = Location { name, location_type, number_of_events: *number_of_events, group, properties };
        to.to.location(*location, &definition)?;
    }
    for (number, (name, canonical_name)) in (0..).zip(REGIONS) {
        let region = Region { name: to.text(name), canonical_name: to.text(canonical_name), ..Region::default() };
        to.to.region(RegionRef::new(number), &region)?;
    }
    for (number, name) in [(TRANSFER, "netSend"), (STEP, "send step")] {
        let parameter = Parameter { name: to.text(name), parameter_type: ParameterType::U64 };
        to.to.parameter(ParameterRef::new(number), &parameter)?;
    }
    communicators(&mut to, job)
}

fn communicators(to: &mut Definer<'_>, job: &Job) -> otf2::Result<()> {
    let world: Vec<u32> = (0..job.ranks).collect();
    let all: Vec<&Vec<u32>> = std::iter::once(&world).chain(&job.communicators).collect();
    let locations =
        (0..all.len()).flat_map(|communicator| world.iter().map(move |rank| member(communicator, *rank).get()));
    let locations: Vec<u64> = locations.collect();
    let name = to.text("world");
    let group =
        Group { name, group_type: GroupType::CommLocations, paradigm: Paradigm::Mpi, flags: 0, members: locations };
    to.to.group(GroupRef::new(0), &group)?;
    for (number, ranks) in (0..).zip(all) {
        let name = if number == 0 { name } else { to.text(&format!("communicator {number}")) };
        let members = ranks.iter().map(|rank| u64::from(number * job.ranks + rank)).collect();
        let group = Group { name, group_type: GroupType::CommGroup, paradigm: Paradigm::Mpi, flags: 0, members };
        to.to.group(GroupRef::new(number + 1), &group)?;
        let comm = Comm { name, group: GroupRef::new(number + 1), parent: CommRef::UNDEFINED, flags: 0 };
        to.to.comm(CommRef::new(number), &comm)?;
    }
    Ok(())
}
