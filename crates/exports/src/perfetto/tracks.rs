//! Tracks: processes with their threads, GPUs with communicators, channels and streams, and the network.

use std::collections::{BTreeMap, BTreeSet};

use analysis::Trace;
use nccl_events::archive::LocationKind;
use nccl_events::schema::definition::{ProcessId, Sibling, ThreadId};
use nccl_events::sort::Gather;
use otf2::{LocationGroupRef, LocationRef, MetricMemberRef};
use proto_messages::perfetto::{
    Clock, ClockSnapshot, CounterDescriptor, MERGE_NONE, ORDERING_EXPLICIT, ProcessDescriptor, ThreadDescriptor,
    TracePacket, TrackDescriptor, UNIT_SIZE_BYTES, clock,
};

use crate::selection::Selection;
use crate::source::Source;

/// The namespace of an id: ids of different spaces never collide.
#[derive(Clone, Copy)]
pub(super) enum Space {
    Group = 1,
    Network,
    Location,
    Counter,
    Chain,
    Collective,
    Message,
    Transfer,
}

/// Ids of tracks and flows. They differ between archives, so that their exports can be concatenated.
#[derive(Clone, Copy)]
pub(super) struct Uuids {
    seed: u64,
}

impl Uuids {
    pub(super) fn of(trace: &Trace) -> Self {
        let clock = trace.definitions.clock.as_ref();
        let begin = clock.map_or(0, |clock| clock.global_offset ^ clock.trace_length.rotate_left(32));
        Self { seed: mix(begin ^ trace.events().rotate_left(48)) }
    }

    /// The id of an object; never 0.
    pub(super) fn of_id(self, space: Space, id: u64) -> u64 {
        mix(mix(self.seed ^ space as u64) ^ id).max(1)
    }
}

/// SplitMix64's finaliser, a bijection: different inputs give different outputs.
const fn mix(number: u64) -> u64 {
    let number = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let number = (number ^ (number >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ (number >> 31)
}

/// The bits of a location's id that identify the process that wrote it.
const WRITER: u64 = 0xffff_ffff;
/// The first packet sequence id: Perfetto's own services use small ones.
const FIRST_SEQUENCE: u32 = 1 << 24;

pub(super) struct Tracks<'a> {
    trace: &'a Trace,
    uuids: Uuids,
    begin_ns: u64,
    locations: Vec<LocationRef>,
    processes: BTreeMap<LocationGroupRef, i32>,
}

impl<'a> Tracks<'a> {
    pub(super) fn of(source: &Source<'a>, selection: &Selection<'a>) -> Self {
        let trace = source.trace;
        let mut locations: BTreeSet<LocationRef> = selection.locations().iter().copied().gather();
        // Channels are below the track of their rank, which may have no events.
        locations.extend(selection.locations().iter().filter_map(|location| trace.member_of(*location)));
        Self {
            trace,
            uuids: Uuids::of(trace),
            begin_ns: source.begin_ns(),
            locations: locations.into_iter().collect(),
            processes: process_numbers(trace),
        }
    }

    /// The time of an event, given in ns from the start of the trace.
    pub(super) const fn time_ns(&self, after_ns: u64) -> u64 {
        self.begin_ns.saturating_add(after_ns)
    }

    pub(super) fn sequence(&self, location: LocationRef) -> u32 {
        let at = self.locations.binary_search(&location).unwrap_or_default();
        FIRST_SEQUENCE.saturating_add(u32::try_from(at).unwrap_or(u32::MAX)).saturating_add(1)
    }

    pub(super) fn of_location(&self, location: LocationRef) -> u64 {
        self.uuids.of_id(Space::Location, location.get())
    }

    pub(super) fn of_counter(&self, location: LocationRef, member: MetricMemberRef) -> u64 {
        self.uuids.of_id(Space::Counter, location.get() ^ u64::from(member.get()).rotate_right(16))
    }

    fn of_group(&self, group: LocationGroupRef) -> u64 {
        self.uuids.of_id(Space::Group, group.get().into())
    }

    pub(super) fn packets(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        let mut add = |packet: TracePacket| {
            TracePacket { trusted_packet_sequence_id: Some(FIRST_SEQUENCE), ..packet }.append_to(&mut bytes);
        };
        let clocks = vec![Clock { clock_id: Some(clock::REALTIME), timestamp: Some(self.begin_ns) }];
        let snapshot = ClockSnapshot { clocks, primary_trace_clock: Some(clock::REALTIME) };
        add(TracePacket { clock_snapshot: Some(snapshot), ..TracePacket::default() });
        for descriptor in self.groups().into_iter().chain(self.of_locations()) {
            add(TracePacket { track_descriptor: Some(descriptor), ..TracePacket::default() });
        }
        bytes
    }

    pub(super) fn counter(&self, location: LocationRef, reference: MetricMemberRef) -> Option<TrackDescriptor> {
        let definitions = &self.trace.definitions;
        let member = definitions.metric_members.get(&reference)?;
        let unit = definitions.string(member.unit).unwrap_or_default();
        let counter = match unit {
            "B" | "bytes" => CounterDescriptor { unit: Some(UNIT_SIZE_BYTES), unit_name: None },
            other => CounterDescriptor { unit: None, unit_name: Some(other.to_owned()) },
        };
        Some(TrackDescriptor {
            uuid: Some(self.of_counter(location, reference)),
            parent_uuid: Some(self.of_location(location)),
            name: definitions.string(member.name).map(str::to_owned),
            counter: Some(counter),
            ..TrackDescriptor::default()
        })
    }

    fn groups(&self) -> Vec<TrackDescriptor> {
        let of_locations = self.locations.iter().map(|location| self.trace.group(*location));
        let groups: BTreeSet<LocationGroupRef> = of_locations.gather();
        let processes: BTreeSet<LocationGroupRef> = groups.iter().map(|group| self.trace.process(*group)).gather();
        let is_network = |it: &&LocationRef| self.trace.location_kind(**it) == Some(LocationKind::Connection);
        let networks = self.locations.iter().filter(is_network).map(|it| self.process_of(*it));
        let networks: BTreeSet<LocationGroupRef> = networks.gather();
        let mut found: Vec<TrackDescriptor> = processes.iter().map(|process| self.process(*process)).collect();
        for group in groups.difference(&processes) {
            found.push(TrackDescriptor {
                uuid: Some(self.of_group(*group)),
                parent_uuid: Some(self.of_group(self.trace.process(*group))),
                name: Some(self.trace.group_name(*group).to_owned()),
                ..parent(0)
            });
        }
        found.extend(networks.into_iter().map(|process| TrackDescriptor {
            uuid: Some(self.network_of(process)),
            parent_uuid: Some(self.of_group(process)),
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
            uuid: Some(self.of_group(process)),
            process: Some(descriptor),
            child_ordering: Some(ORDERING_EXPLICIT),
            ..TrackDescriptor::default()
        }
    }

    fn process_of(&self, location: LocationRef) -> LocationGroupRef {
        self.trace.process(self.trace.group(location))
    }

    fn network_of(&self, process: LocationGroupRef) -> u64 {
        self.uuids.of_id(Space::Network, process.get().into())
    }

    /// All locations. Per writer, slots follow their connection, and the network plugin's location follows its slot.
    fn of_locations(&self) -> Vec<TrackDescriptor> {
        let mut found = Vec::with_capacity(self.locations.len());
        let mut last: BTreeMap<u64, [Option<u64>; 2]> = BTreeMap::new();
        for (order, location) in (0..).zip(&self.locations) {
            let kind = self.trace.location_kind(*location);
            let own = self.of_location(*location);
            let group = self.of_group(self.trace.group(*location));
            let [connection, slot] = last.entry(location.get() & WRITER).or_default();
            let above = match kind {
                Some(LocationKind::Connection) => {
                    *connection = connection.filter(|_| self.is_sibling(*location)).or(Some(own));
                    Some(self.network_of(self.process_of(*location)))
                }
                Some(LocationKind::Slot) => {
                    *slot = slot.filter(|_| self.is_sibling(*location)).or(Some(own));
                    *connection
                }
                Some(LocationKind::NetPlugin) => *slot,
                Some(LocationKind::Channel) => self.trace.member_of(*location).map(|member| self.of_location(member)),
                _ => None,
            };
            let thread = self.thread(*location);
            found.push(TrackDescriptor {
                uuid: Some(own),
                parent_uuid: thread.is_none().then_some(above.unwrap_or(group)),
                name: thread.is_none().then(|| self.trace.location_name(*location)),
                thread,
                ..parent(order)
            });
        }
        found
    }

    /// Whether a location holds what overlaps on the location before it.
    fn is_sibling(&self, location: LocationRef) -> bool {
        self.trace.of_location(location, Sibling).is_some()
    }

    fn thread(&self, location: LocationRef) -> Option<ThreadDescriptor> {
        let tid = self.trace.of_location(location, ThreadId)?;
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
        let own = trace.of_group(process, ProcessId);
        let own = own.and_then(|own| i32::try_from(own).ok()).filter(|own| *own > 0 && taken.insert(*own));
        let number = own.unwrap_or_else(|| {
            free += 1;
            free
        });
        (process, number)
    });
    numbers.gather()
}
