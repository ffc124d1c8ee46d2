//! Tracks: processes with their threads, GPUs with communicators, channels and streams, and the network. Also the flows
//! between slices, and the attributes of events as arguments of their slices.

use std::collections::{BTreeMap, BTreeSet};

use crate::error::Result;
use crate::perfetto::counters::Counter;
use crate::protobuf::{
    Clock, ClockSnapshot, CounterDescriptor, DebugAnnotation, Interned, InternedData, MERGE_NONE, ORDERING_EXPLICIT,
    ProcessDescriptor, ThreadDescriptor, TracePacket, TrackDescriptor, UNIT_SIZE_BYTES, clock,
};
use crate::source::{Selection, Source};
use crate::values::Value;
use analysis::read::{NONE, Tables};
use analysis::{Connection, ConnectionRank, Fields, Lane, LaneKind, MatchedCollectives, RegionInfo, Role, Trace};
use nccl_events::Kind;
use nccl_events::archive::{LocationKind, RegionClass};
use nccl_events::collective::Function;
use nccl_events::ids::index;
use nccl_events::schema::definition::{ProcessId, ThreadId};
use nccl_events::sort::Gather;
use otf2::{AttributeRef, AttributeValue, Event, LocationGroupRef, LocationRef, MetricMemberRef};

/// The namespace of an id: ids of different spaces never collide.
#[derive(Clone, Copy)]
pub(crate) enum Space {
    Group = 1,
    Network,
    Location,
    Lane,
    Metric,
    Counter,
    Chain,
    Collective,
    Message,
    Transfer,
}

/// Ids of tracks and flows. They differ between archives, so that their exports can be concatenated.
#[derive(Clone, Copy)]
pub(crate) struct Uuids {
    seed: u64,
}

impl Uuids {
    pub(crate) fn from_trace(trace: &Trace) -> Self {
        let clock = trace.definitions.clock.as_ref();
        let begin = clock.map_or(0, |clock| clock.global_offset ^ clock.trace_length.rotate_left(32));
        Self { seed: mix(begin ^ trace.events().rotate_left(48)) }
    }

    /// The id of an object; never 0.
    pub(crate) fn uuid(self, space: Space, id: u64) -> u64 {
        mix(mix(self.seed ^ space as u64) ^ id).max(1)
    }
}

/// SplitMix64's finaliser, a bijection: different inputs give different outputs.
const fn mix(number: u64) -> u64 {
    let number = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let number = (number ^ (number >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ (number >> 31)
}

/// The first packet sequence id: Perfetto's own services use small ones.
const FIRST_SEQUENCE: u32 = 1 << 24;

pub(crate) struct Tracks<'a> {
    trace: &'a Trace,
    uuids: Uuids,
    begin_ns: u64,
    locations: Vec<LocationRef>,
    processes: BTreeMap<LocationGroupRef, i32>,
}

impl<'a> Tracks<'a> {
    pub(crate) fn new(source: &Source<'a>, selection: &Selection<'a>) -> Self {
        let trace = source.trace;
        let locations: BTreeSet<LocationRef> = selection.locations().iter().copied().gather();
        Self {
            trace,
            uuids: Uuids::from_trace(trace),
            begin_ns: source.begin_ns(),
            locations: locations.into_iter().collect(),
            processes: process_numbers(trace),
        }
    }

    /// The time of an event, given in ns from the start of the trace.
    pub(crate) const fn time_ns(&self, after_ns: u64) -> u64 {
        self.begin_ns.saturating_add(after_ns)
    }

    pub(crate) fn sequence(&self, location: LocationRef) -> u32 {
        let at = self.locations.binary_search(&location).unwrap_or_default();
        FIRST_SEQUENCE.saturating_add(u32::try_from(at).unwrap_or(u32::MAX)).saturating_add(1)
    }

    pub(crate) fn location_track(&self, location: LocationRef) -> u64 {
        self.uuids.uuid(Space::Location, location.get())
    }

    pub(crate) fn lane_track(&self, lane: Lane) -> u64 {
        let (kind, number, connection) = match lane.shows {
            LaneKind::Operations => (5, 0, None),
            LaneKind::Channel(channel) => (0, channel, None),
            LaneKind::Phases(channel) => (1, channel, None),
            LaneKind::Connection(connection) => (2, 0, Some(connection)),
            LaneKind::Slot(connection, slot) => (3, slot, Some(connection)),
            LaneKind::Plugin(connection, slot) => (4, slot, Some(connection)),
        };
        let mut id = mix(mix(lane.location.get()) ^ u64::from(lane.row) << 40 ^ u64::from(number) << 8 ^ kind);
        if let Some(Connection { rank, channel, is_send, peer }) = connection {
            let rank = match rank {
                ConnectionRank::Member(comm, rank) => u64::from(comm.get()) << 32 | u64::from(rank),
                ConnectionRank::Foreign(origin) => !u64::from(origin.get()),
                ConnectionRank::Unknown => u64::MAX >> 1,
            };
            id = mix(mix(id ^ rank) ^ (u64::from(peer) << 32 | u64::from(channel) << 1 | u64::from(is_send)));
        }
        self.uuids.uuid(Space::Lane, id)
    }

    /// The tracks of a lane and of those above it, the uppermost first: connections are below the network of their
    /// process, channels below their rank.
    pub(crate) fn lane(&self, lane: Lane) -> Vec<(Lane, TrackDescriptor)> {
        let above = lane.shows.above().map(|shows| Lane { shows, row: 0, ..lane });
        let parent_uuid = match (above, lane.shows.connection()) {
            (Some(above), _) => self.lane_track(above),
            (None, Some(_)) => self.network_of(self.process_of(lane.location)),
            (None, None) => self.location_track(lane.location),
        };
        let order = match lane.shows {
            LaneKind::Operations => 0,
            LaneKind::Channel(channel) => (channel << 1) + 1,
            LaneKind::Phases(channel) => (channel << 1) + 2,
            LaneKind::Connection(Connection { channel, is_send, peer, .. }) => {
                channel << 20 | u32::from(is_send) << 19 | peer & 0x7_ffff
            }
            LaneKind::Slot(_, slot) | LaneKind::Plugin(_, slot) => slot,
        };
        let descriptor = TrackDescriptor {
            uuid: Some(self.lane_track(lane)),
            parent_uuid: Some(parent_uuid),
            name: Some(lane.name(self.trace)),
            ..parent(i32::try_from(order).unwrap_or(i32::MAX))
        };
        let mut tracks = above.map_or_else(Vec::new, |above| self.lane(above));
        tracks.push((lane, descriptor));
        tracks
    }

    /// The counter of a connection.
    pub(crate) fn lane_counter(&self, lane: Lane, counter: Counter) -> TrackDescriptor {
        let track = self.lane_track(lane);
        let uuid = self.uuids.uuid(Space::Counter, mix(track) ^ (counter as u64).rotate_right(16));
        TrackDescriptor {
            parent_uuid: Some(track),
            ..self.below(lane.location, uuid, Some(counter.name()), counter.unit())
        }
    }

    fn group_track(&self, group: LocationGroupRef) -> u64 {
        self.uuids.uuid(Space::Group, group.get().into())
    }

    pub(crate) fn packets(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        let mut add = |packet: TracePacket| {
            TracePacket { trusted_packet_sequence_id: Some(FIRST_SEQUENCE), ..packet }.append_to(&mut bytes);
        };
        let clocks = vec![Clock { clock_id: Some(clock::REALTIME), timestamp: Some(self.begin_ns) }];
        let snapshot = ClockSnapshot { clocks, primary_trace_clock: Some(clock::REALTIME) };
        add(TracePacket { clock_snapshot: Some(snapshot), ..TracePacket::default() });
        for descriptor in self.groups().into_iter().chain(self.location_descriptors()) {
            add(TracePacket { track_descriptor: Some(descriptor), ..TracePacket::default() });
        }
        bytes
    }

    /// The track of a metric's member; `None` if the archive does not define it.
    pub(crate) fn metric(&self, location: LocationRef, reference: MetricMemberRef) -> Option<TrackDescriptor> {
        let definitions = &self.trace.definitions;
        let member = definitions.metric_members.get(&reference)?;
        let (name, unit) = (definitions.string(member.name), definitions.string(member.unit).unwrap_or_default());
        Some(self.below(location, self.metric_track(location, reference), name, unit))
    }

    pub(crate) fn metric_track(&self, location: LocationRef, reference: MetricMemberRef) -> u64 {
        self.uuids.uuid(Space::Metric, location.get() ^ u64::from(reference.get()).rotate_right(16))
    }

    pub(crate) fn counter(&self, location: LocationRef, counter: Counter) -> TrackDescriptor {
        let uuid = self.uuids.uuid(Space::Counter, location.get() ^ (counter as u64).rotate_right(16));
        self.below(location, uuid, Some(counter.name()), counter.unit())
    }

    fn below(&self, location: LocationRef, uuid: u64, name: Option<&str>, unit: &str) -> TrackDescriptor {
        let counter = match unit {
            "B" | "bytes" => CounterDescriptor { unit: Some(UNIT_SIZE_BYTES), unit_name: None },
            other => CounterDescriptor { unit: None, unit_name: Some(other.to_owned()) },
        };
        TrackDescriptor {
            uuid: Some(uuid),
            parent_uuid: Some(self.location_track(location)),
            name: name.map(str::to_owned),
            counter: Some(counter),
            ..TrackDescriptor::default()
        }
    }

    fn groups(&self) -> Vec<TrackDescriptor> {
        let location_groups = self.locations.iter().map(|location| self.trace.group(*location));
        let groups: BTreeSet<LocationGroupRef> = location_groups.gather();
        let processes: BTreeSet<LocationGroupRef> = groups.iter().map(|group| self.trace.process(*group)).gather();
        let is_network =
            |location: &&LocationRef| self.trace.location_kind(**location) == Some(LocationKind::ProxyThread);
        let networks = self.locations.iter().filter(is_network).map(|location| self.process_of(*location));
        let networks: BTreeSet<LocationGroupRef> = networks.gather();
        let mut found: Vec<TrackDescriptor> = processes.iter().map(|process| self.process(*process)).collect();
        for group in groups.difference(&processes) {
            found.push(TrackDescriptor {
                uuid: Some(self.group_track(*group)),
                parent_uuid: Some(self.group_track(self.trace.process(*group))),
                name: Some(self.trace.group_name(*group).to_owned()),
                ..parent(0)
            });
        }
        found.extend(networks.into_iter().map(|process| TrackDescriptor {
            uuid: Some(self.network_of(process)),
            parent_uuid: Some(self.group_track(process)),
            name: Some("network".to_owned()),
            ..parent(1)
        }));
        found
    }

    fn process(&self, process: LocationGroupRef) -> TrackDescriptor {
        let host = self.trace.host_name(process);
        let descriptor = ProcessDescriptor {
            pid: self.processes.get(&process).copied(),
            process_name: Some(self.trace.group_name(process).to_owned()),
            process_labels: host.map(str::to_owned).into_iter().collect(),
        };
        TrackDescriptor {
            uuid: Some(self.group_track(process)),
            process: Some(descriptor),
            child_ordering: Some(ORDERING_EXPLICIT),
            ..TrackDescriptor::default()
        }
    }

    fn process_of(&self, location: LocationRef) -> LocationGroupRef {
        self.trace.process(self.trace.group(location))
    }

    fn network_of(&self, process: LocationGroupRef) -> u64 {
        self.uuids.uuid(Space::Network, process.get().into())
    }

    fn location_descriptors(&self) -> Vec<TrackDescriptor> {
        let mut found = Vec::with_capacity(self.locations.len());
        for (order, location) in (0..).zip(&self.locations) {
            let group = self.group_track(self.trace.group(*location));
            let thread = self.thread(*location);
            found.push(TrackDescriptor {
                uuid: Some(self.location_track(*location)),
                parent_uuid: thread.is_none().then_some(group),
                name: thread.is_none().then(|| self.trace.location_name(*location)),
                thread,
                ..parent(order)
            });
        }
        found
    }

    fn thread(&self, location: LocationRef) -> Option<ThreadDescriptor> {
        let tid = self.trace.location_property(location, ThreadId)?;
        Some(ThreadDescriptor {
            pid: self.processes.get(&self.process_of(location)).copied(),
            tid: i64::try_from(tid).ok(),
            thread_name: Some(self.trace.location_name(location)),
        })
    }
}

/// A track that can have children, ordered by their numbers.
fn parent(order: i32) -> TrackDescriptor {
    TrackDescriptor {
        child_ordering: Some(ORDERING_EXPLICIT),
        sibling_order_rank: Some(order),
        sibling_merge_behavior: Some(MERGE_NONE),
        ..TrackDescriptor::default()
    }
}

/// The ids by which Perfetto identifies processes: the system's, unless processes on two hosts share one.
fn process_numbers(trace: &Trace) -> BTreeMap<LocationGroupRef, i32> {
    let mut taken = BTreeSet::new();
    let mut free = 1 << 30;
    let numbers = trace.processes().map(|process| {
        let own = trace.group_property(process, ProcessId);
        let own = own.and_then(|own| i32::try_from(own).ok()).filter(|own| *own > 0 && taken.insert(*own));
        let number = own.unwrap_or_else(|| {
            free += 1;
            free
        });
        (process, number)
    });
    numbers.gather()
}

/// Arrows: slices with the same flow id are connected in the order of their starts.
pub(crate) struct Flows {
    uuids: Uuids,
    /// By operation id: the collectives, messages and transfers that the operation is part of. Ascending.
    of_operations: Vec<(u64, u64)>,
    /// Whether calls were recorded; if not, an operation's flow starts at its enqueueing.
    has_calls: bool,
}

#[derive(Default)]
pub(crate) struct Group {
    /// For each call: id of the group, stream, and id of the call.
    calls: Vec<(Option<u64>, Option<u64>, u64)>,
}

pub(crate) struct BegunSlice<'a> {
    pub(crate) region: Option<RegionInfo<'a>>,
    pub(crate) is_on_stream: bool,
    pub(crate) fields: Chained<'a>,
}

nccl_events::fields! {
    pub(crate) struct Chained {
        event: Event,
        parent: Parent,
        group: Group,
        stream: Stream,
    }
}

impl Flows {
    pub(crate) fn read(source: &Source<'_>) -> Result<Self> {
        let trace = source.trace;
        let uuids = Uuids::from_trace(trace);
        let tables = Tables::read(trace, source.progress)?;
        let collectives = MatchedCollectives::new(trace, &tables, source.filter);
        let event = |row: u32| tables.operations.event.get(index(row));
        let mut found = Vec::new();
        for (number, instance) in (0..).zip(&collectives.all) {
            let rows = collectives.operations(instance).iter();
            found.extend(rows.map(|row| (event(*row), uuids.uuid(Space::Collective, number))));
        }
        let transfer = |fields: Fields<'_>| fields.parent.zip(fields.event);
        let transfers = source.fields(LocationKind::ProxyThread, transfer)?.into_iter();
        found.extend(transfers.map(|(operation, event)| (operation, uuids.uuid(Space::Transfer, event))));
        for (number, (send, receive)) in (0..).zip(messages(source, &tables)) {
            let flow = uuids.uuid(Space::Message, number);
            found.extend([(send, flow), (receive, flow)]);
        }
        found.sort_unstable();
        let is_call = |role| matches!(role, Role::Call(Kind::CollApi | Kind::P2pApi));
        let has_calls = trace.definitions.regions.keys().any(|region| trace.role(*region).is_some_and(is_call));
        Ok(Self { uuids, of_operations: found, has_calls })
    }

    /// Adds the flows of a slice. `group` holds the preceding calls on the same location.
    pub(crate) fn add(&self, begun: &BegunSlice<'_>, group: &mut Group, flows: &mut Vec<u64>) {
        let chain = |id: u64| self.uuids.uuid(Space::Chain, id);
        let fields = &begun.fields;
        if begun.is_on_stream {
            return flows.extend(fields.parent.map(chain));
        }
        let (Some(region), Some(event)) = (begun.region, fields.event) else {
            return;
        };
        match region.class {
            RegionClass::Api if matches!(region.kind, Some(Kind::CollApi | Kind::P2pApi)) => {
                group.calls.push((fields.group.or(fields.parent), fields.stream, event));
                flows.push(chain(event));
            }
            RegionClass::Launch => {
                let is_of =
                    |call: &&(Option<u64>, Option<u64>, u64)| call.0 == fields.parent && call.1 == fields.stream;
                flows.extend(group.calls.iter().filter(is_of).map(|(.., call)| chain(*call)));
                flows.push(chain(event));
            }
            RegionClass::Enqueue if !self.has_calls || region.kind == Some(Kind::Group) => flows.push(chain(event)),
            RegionClass::Operation => {
                flows.extend([Some(event), fields.parent].into_iter().flatten().map(chain));
                let begin = self.of_operations.partition_point(|(operation, _)| *operation < event);
                let own = self.of_operations.iter().skip(begin).take_while(|(operation, _)| *operation == event);
                flows.extend(own.map(|(_, flow)| *flow));
            }
            RegionClass::Network if region.kind == Some(Kind::ProxyOp) => {
                flows.push(self.uuids.uuid(Space::Transfer, event));
            }
            _ => {}
        }
    }
}

/// The ids of sends and of their receives: NCCL matches messages of two ranks in order. If the messages of a rank and
/// its peer differ, it is unknown which one is missing.
fn messages(source: &Source<'_>, tables: &Tables) -> Vec<(u64, u64)> {
    /// Starts and ids of sends and of receives.
    type Ends = [Vec<(u64, u64)>; 2];
    let mut ends: BTreeMap<(u32, u32, u32), Ends> = BTreeMap::new();
    for operation in tables.operations.rows().filter(|operation| operation.partner != NONE) {
        let member = tables.members.row(operation.member);
        let (from, to, end) = match source.trace.function(operation.function).and_then(Function::is_send) {
            Some(true) => (member.rank, operation.partner, 0),
            Some(false) => (operation.partner, member.rank, 1),
            None => continue,
        };
        ends.entry((member.communicator, from, to)).or_default()[end].push((operation.start_ns, operation.event));
    }
    let mut found = Vec::new();
    for [mut sends, mut receives] in ends.into_values().filter(|[sends, receives]| sends.len() == receives.len()) {
        sends.sort_unstable();
        receives.sort_unstable();
        found.extend(sends.into_iter().zip(receives).map(|((_, send), (_, receive))| (send, receive)));
    }
    found
}

/// The names of an archive's attributes, by number. Perfetto replaces dots by underscores, but joins nested names with
/// a dot: so `nccl.bytes` is written as `bytes` nested in `nccl`.
pub(crate) struct AttributeNames<'a> {
    above: Vec<&'a str>,
    all: Vec<(Option<usize>, &'a str)>,
}

impl<'a> AttributeNames<'a> {
    pub(crate) fn new(trace: &'a Trace) -> Self {
        let mut found = Self { above: Vec::new(), all: Vec::new() };
        for attribute in trace.definitions.attributes.values() {
            let name = trace.definitions.string(attribute.name).unwrap_or("unnamed");
            let (above, own) = name.split_once('.').map_or((None, name), |(above, own)| (Some(above), own));
            let above = above.map(|above| {
                found.above.iter().position(|known| *known == above).unwrap_or_else(|| {
                    found.above.push(above);
                    found.above.len() - 1
                })
            });
            // OTF2 requires attribute numbers without gaps.
            found.all.push((above, own));
        }
        found
    }

    fn get(&self, attribute: AttributeRef) -> (Option<usize>, &'a str) {
        self.all.get(index(attribute.get())).copied().unwrap_or((None, "unnamed"))
    }
}

/// Writes the attributes of an event as arguments of its slice.
pub(crate) struct Arguments<'a> {
    trace: &'a Trace,
    names: &'a AttributeNames<'a>,
    /// Interned names: of first words, then of attributes.
    named: BTreeSet<u64>,
    texts: BTreeSet<u64>,
}

impl<'a> Arguments<'a> {
    pub(crate) const fn new(trace: &'a Trace, names: &'a AttributeNames<'a>) -> Self {
        Self { trace, names, named: BTreeSet::new(), texts: BTreeSet::new() }
    }

    pub(crate) fn add(&mut self, event: &Event, arguments: &mut Vec<DebugAnnotation>, interned: &mut InternedData) {
        let first_attribute = self.names.above.len() as u64 + 1;
        for (attribute, value) in &event.attributes {
            let (above, own) = self.names.get(*attribute);
            let name_iid = first_attribute + u64::from(attribute.get());
            self.name(name_iid, own, interned);
            let argument = self.argument(name_iid, *value, interned);
            let Some(above) = above else {
                arguments.push(argument);
                continue;
            };
            let above_iid = above as u64 + 1;
            match arguments.iter_mut().find(|annotation| annotation.name_iid == Some(above_iid)) {
                Some(above) => above.dict_entries.push(argument),
                None => {
                    self.name(above_iid, self.names.above[above], interned);
                    let dict_entries = vec![argument];
                    let name_iid = Some(above_iid);
                    arguments.push(DebugAnnotation { name_iid, dict_entries, ..DebugAnnotation::default() });
                }
            }
        }
    }

    fn name(&mut self, iid: u64, name: &str, interned: &mut InternedData) {
        if self.named.insert(iid) {
            interned.debug_annotation_names.push(named(iid, name.to_owned()));
        }
    }

    fn argument(&mut self, name_iid: u64, value: AttributeValue, interned: &mut InternedData) -> DebugAnnotation {
        let mut argument = DebugAnnotation { name_iid: Some(name_iid), ..DebugAnnotation::default() };
        match Value::new(self.trace, value) {
            Value::Unsigned(number) => argument.uint_value = Some(number),
            Value::Signed(number) => argument.int_value = Some(number),
            Value::Real(number) => argument.double_value = Some(number),
            Value::Text(text) => {
                let (space, reference) = match value {
                    AttributeValue::String(string) => (0, string.get().into()),
                    AttributeValue::Region(region) => (1, region.get().into()),
                    AttributeValue::Location(location) => (2, location.get()),
                    AttributeValue::Comm(comm) => (3, comm.get().into()),
                    // This project writes none of these types: each value gets a new number.
                    _ => (4, self.texts.len() as u64),
                };
                let iid = ((reference << 3) | space) + 1;
                if self.texts.insert(iid) {
                    interned.debug_annotation_string_values.push(named(iid, text.into_owned()));
                }
                argument.string_value_iid = Some(iid);
            }
        }
        argument
    }
}

pub(crate) const fn named(iid: u64, name: String) -> Interned {
    Interned { iid: Some(iid), name: Some(name) }
}
