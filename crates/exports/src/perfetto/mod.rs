//! One file for Perfetto's viewer (ui.perfetto.dev) and for SQL by its trace processor.
//!
//! ```text
//!  tracks    processes, threads, GPUs, communicators, network: one track per location
//!   ├ Flows      arrows: call → launch → operation → kernel and transfers; the ranks of a collective; messages
//!   └ Arguments  the attributes of events
//!  Sequence  the events of a location as packets
//!  Counter   what is under way on a location, if asked for
//! ```
//!
//! Each location is a track, whose region instances nest as Perfetto requires of slices. Each location is a separate
//! packet sequence, so that locations can be written concurrently, in any order.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use crate::error::{Outcome, Result};
use crate::perfetto::counters::{Counter, Counters, Sample, counters};
use crate::perfetto::tracks::{Arguments, AttributeNames, BegunSlice, Flows, Group, Tracks, named};
use crate::protobuf::{
    InternedData, SEQ_INCREMENTAL_STATE_CLEARED, SEQ_NEEDS_INCREMENTAL_STATE, TracePacket, TracePacketDefaults,
    TrackDescriptor, TrackEvent, TrackEventDefaults, clock, event_type,
};
use crate::source::{CHUNK_BYTES, FOREIGN_OTHERS, Output, Selection, Source};
use crate::values::signed;
use analysis::{Fields, Lane, RegionInfo, Slice, Slices, Trace};
use nccl_events::archive::{LocationKind, RegionClass};
use otf2::{Event, EventKind, LocationRef, MetricMemberRef, MetricValue, RegionRef};

mod counters;
mod tracks;

/// `with_counters`: whether to draw how much is under way.
pub fn write(source: &Source<'_>, out: &Path, with_counters: bool) -> Result<Outcome> {
    let selection = Selection::new(*source)?;
    let flows = Flows::read(source)?;
    let tracks = Tracks::new(source, &selection);
    let names = AttributeNames::new(source.trace);
    let counters = match with_counters {
        true => counters(source, &selection)?,
        false => Counters::default(),
    };
    let output = Output::create(out)?;
    output.append(tracks.packets())?;
    let statements = &source.trace.statements;
    let has_unfinished = statements.unfinished() + statements.counts.others.ranges_unfinished > 0;
    let written = source.each_location(selection.locations(), |location| {
        let unfinished = if has_unfinished { unfinished(source, &selection, location)? } else { Vec::new() };
        let mut sequence = Sequence::new(source.trace, (&tracks, &flows, &names), location, unfinished);
        let mut failed = Ok(());
        selection.events(location, |time_ns, event| {
            sequence.event(time_ns, event);
            if failed.is_ok() && sequence.bytes.len() >= CHUNK_BYTES {
                failed = output.append(&sequence.bytes);
                sequence.bytes.clear();
            }
        })?;
        failed?;
        for (counter, samples) in counters.locations.get(&location).into_iter().flatten() {
            sequence.counter(*counter, samples);
        }
        for (lane, samples) in counters.connections.get(&location).into_iter().flatten() {
            sequence.lane_counter(*lane, Counter::NetworkBandwidth, samples);
        }
        output.append(&sequence.bytes)?;
        Ok((sequence.count, sequence.left_out))
    })?;
    output.finish()?;
    let sum = |count: fn(&(u64, LeftOut)) -> u64| written.iter().map(count).sum();
    let mut outcome = Outcome { files: vec![PathBuf::new()], events: sum(|counts| counts.0), ..Outcome::default() };
    outcome.leave_out(sum(|counts| counts.1.metrics), "records of metric instances: their metrics are not read");
    outcome.leave_out(sum(|counts| counts.1.others), FOREIGN_OTHERS);
    Ok(outcome)
}

/// Indices of the slices that had not ended: their LEAVE says so, but the name is written at the start.
fn unfinished(source: &Source<'_>, selection: &Selection<'_>, location: LocationRef) -> Result<Vec<u64>> {
    let (mut begun, mut open, mut found) = (0, Vec::new(), Vec::new());
    selection.events(location, |_, event| match event.kind {
        EventKind::Enter(_) => {
            open.push(begun);
            begun += 1;
        }
        EventKind::Leave(_) => {
            found.extend(open.pop().filter(|_| source.trace.fields_of(&event.attributes).is_unfinished == Some(true)));
        }
        _ => {}
    })?;
    found.sort_unstable();
    Ok(found)
}

/// The events of a location as packets: slices with attributes as arguments, and counter values.
pub(crate) struct Sequence<'a> {
    trace: &'a Trace,
    tracks: &'a Tracks<'a>,
    flows: &'a Flows,
    location: LocationRef,
    is_stream: bool,
    arguments: Arguments<'a>,
    regions: BTreeMap<RegionRef, Option<RegionInfo<'a>>>,
    packet: TracePacket,
    names: BTreeSet<u64>,
    categories: BTreeSet<u64>,
    metrics: BTreeSet<MetricMemberRef>,
    slices: Slices<'a>,
    /// The lanes whose tracks are described.
    lanes: BTreeSet<Lane>,
    unfinished: Vec<u64>,
    begun: u64,
    group: Group,
    depth: usize,
    is_foreign: bool,
    pub(crate) count: u64,
    pub(crate) left_out: LeftOut,
    pub(crate) bytes: Vec<u8>,
}

/// Numbers of records without a packet.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct LeftOut {
    /// Of metrics that are not defined, or instances.
    pub(crate) metrics: u64,
    /// Of other kinds, on locations of other writers.
    pub(crate) others: u64,
}

const UNFINISHED: &str = "unfinished";
/// The id of the category `unfinished`; classes have smaller ones.
const UNFINISHED_CATEGORY: u64 = 1 << 16;

impl<'a> Sequence<'a> {
    pub(crate) fn new(
        trace: &'a Trace,
        (tracks, flows, names): (&'a Tracks<'a>, &'a Flows, &'a AttributeNames<'a>),
        location: LocationRef,
        unfinished: Vec<u64>,
    ) -> Self {
        let sequence = Some(tracks.sequence(location));
        let mut found = Self {
            trace,
            tracks,
            flows,
            location,
            is_stream: trace.location_kind(location) == Some(LocationKind::Stream),
            arguments: Arguments::new(trace, names),
            regions: BTreeMap::new(),
            packet: TracePacket {
                trusted_packet_sequence_id: sequence,
                sequence_flags: Some(SEQ_INCREMENTAL_STATE_CLEARED),
                trace_packet_defaults: Some(TracePacketDefaults {
                    timestamp_clock_id: Some(clock::REALTIME),
                    track_event_defaults: Some(TrackEventDefaults {
                        track_uuid: Some(tracks.location_track(location)),
                    }),
                }),
                ..TracePacket::default()
            },
            names: BTreeSet::new(),
            categories: BTreeSet::new(),
            metrics: BTreeSet::new(),
            slices: Slices::new(trace, location),
            lanes: BTreeSet::new(),
            unfinished,
            begun: 0,
            group: Group::default(),
            depth: 0,
            is_foreign: trace.location_kind(location).is_none(),
            count: 0,
            left_out: LeftOut::default(),
            bytes: Vec::new(),
        };
        found.packet.append_to(&mut found.bytes);
        found.packet.trace_packet_defaults = None;
        found.packet.sequence_flags = Some(SEQ_NEEDS_INCREMENTAL_STATE);
        found
    }

    /// Adds an event. Communication records of NCCL's are skipped: the slices around them contain the same data.
    pub(crate) fn event(&mut self, after_ns: u64, event: &Event) {
        self.packet.timestamp = Some(self.tracks.time_ns(after_ns));
        match &event.kind {
            EventKind::Enter(region) => self.begin(*region, event),
            EventKind::Leave(_) => self.end(event),
            EventKind::ParameterUnsignedInt { .. } => match self.slices.step(after_ns, event) {
                Some(Slice { lane: Some(lane), region, start_ns, .. }) => {
                    self.record(lane, region, (start_ns, after_ns), event);
                }
                _ => self.left_out.others += u64::from(self.is_foreign),
            },
            EventKind::Metric { metric, values } => {
                let Some(class) = self.trace.definitions.metric_classes.get(metric) else {
                    self.left_out.metrics += 1;
                    return;
                };
                for (member, value) in class.members.iter().zip(values) {
                    self.metric(*member, *value);
                }
            }
            _ => self.left_out.others += u64::from(self.is_foreign),
        }
    }

    fn begin(&mut self, region: RegionRef, event: &Event) {
        let mut slice = self.empty(event_type::SLICE_BEGIN);
        let mut interned = InternedData::default();
        let fields = self.trace.read_fields(&event.attributes);
        let info = *self.regions.entry(region).or_insert_with(|| self.trace.region(region));
        let is_unfinished = self.unfinished.binary_search(&self.begun).is_ok();
        self.begun += 1;
        slice.name_iid = Some(self.name(region, is_unfinished, &mut interned));
        self.add_categories(info, is_unfinished, &mut slice, &mut interned);
        self.arguments.add(event, &mut slice.debug_annotations, &mut interned);
        let begun = BegunSlice { region: info, is_on_stream: self.is_stream, fields };
        self.flows.add(&begun, &mut self.group, &mut slice.flow_ids);
        self.depth += 1;
        self.count += 1;
        self.write(slice, interned);
    }

    fn end(&mut self, event: &Event) {
        let mut slice = self.empty(event_type::SLICE_END);
        let mut interned = InternedData::default();
        self.arguments.add(event, &mut slice.debug_annotations, &mut interned);
        self.depth = self.depth.saturating_sub(1);
        if self.depth == 0 {
            self.group = Group::default();
        }
        self.write(slice, interned);
    }

    /// Adds what is shown as a record, as a slice on the track of its lane.
    fn record(&mut self, lane: Lane, region: RegionRef, (start_ns, stop_ns): (u64, u64), event: &Event) {
        let track_uuid = Some(self.tracks.lane_track(lane));
        self.describe_lane(lane);
        let mut slice = TrackEvent { track_uuid, ..self.empty(event_type::SLICE_BEGIN) };
        let mut interned = InternedData::default();
        let fields: Fields<'_> = self.trace.read_fields(&event.attributes);
        let info = *self.regions.entry(region).or_insert_with(|| self.trace.region(region));
        let is_unfinished = fields.is_unfinished == Some(true);
        slice.name_iid = Some(self.name(region, is_unfinished, &mut interned));
        self.add_categories(info, is_unfinished, &mut slice, &mut interned);
        self.arguments.add(event, &mut slice.debug_annotations, &mut interned);
        let fields = self.trace.read_fields(&event.attributes);
        let begun = BegunSlice { region: info, is_on_stream: false, fields };
        self.flows.add(&begun, &mut self.group, &mut slice.flow_ids);
        self.count += 1;
        self.packet.timestamp = Some(self.tracks.time_ns(start_ns));
        self.write(slice, interned);
        self.packet.timestamp = Some(self.tracks.time_ns(stop_ns));
        let end = TrackEvent { track_uuid, ..self.empty(event_type::SLICE_END) };
        self.write(end, InternedData::default());
    }

    fn describe_lane(&mut self, lane: Lane) {
        if !self.lanes.contains(&lane) {
            for (lane, track) in self.tracks.lane(lane) {
                if self.lanes.insert(lane) {
                    self.describe(Some(track));
                }
            }
        }
    }

    fn metric(&mut self, member: MetricMemberRef, value: MetricValue) {
        if self.metrics.insert(member) {
            self.describe(self.tracks.metric(self.location, member));
        }
        self.value(self.tracks.metric_track(self.location, member), value);
    }

    /// Adds a counter's values, whose times are in ns from the start of the trace.
    pub(crate) fn counter(&mut self, counter: Counter, samples: &[Sample]) {
        self.samples(self.tracks.counter(self.location, counter), samples);
    }

    /// The same for a connection.
    pub(crate) fn lane_counter(&mut self, lane: Lane, counter: Counter, samples: &[Sample]) {
        self.describe_lane(lane);
        self.samples(self.tracks.lane_counter(lane, counter), samples);
    }

    fn samples(&mut self, track: TrackDescriptor, samples: &[Sample]) {
        let uuid = track.uuid.unwrap_or_default();
        self.describe(Some(track));
        for sample in samples {
            self.packet.timestamp = Some(self.tracks.time_ns(sample.time_ns));
            self.value(uuid, MetricValue::U64(sample.value));
        }
    }

    fn describe(&mut self, track_descriptor: Option<TrackDescriptor>) {
        let trusted_packet_sequence_id = self.packet.trusted_packet_sequence_id;
        let packet = TracePacket { trusted_packet_sequence_id, track_descriptor, ..TracePacket::default() };
        packet.append_to(&mut self.bytes);
    }

    fn value(&mut self, track: u64, value: MetricValue) {
        let mut sample = self.empty(event_type::COUNTER);
        sample.track_uuid = Some(track);
        match value {
            MetricValue::U64(number) => sample.counter_value = Some(signed(number)),
            MetricValue::I64(number) => sample.counter_value = Some(number),
            MetricValue::F64(number) => sample.double_counter_value = Some(number),
        }
        self.count += 1;
        self.write(sample, InternedData::default());
    }

    /// An event that reuses the memory of the previous one.
    fn empty(&mut self, event_type: i32) -> TrackEvent {
        let mut event = self.packet.track_event.take().unwrap_or_default();
        event.category_iids.clear();
        event.debug_annotations.clear();
        event.flow_ids.clear();
        TrackEvent {
            event_type: Some(event_type),
            category_iids: event.category_iids,
            debug_annotations: event.debug_annotations,
            flow_ids: event.flow_ids,
            ..TrackEvent::default()
        }
    }

    fn write(&mut self, event: TrackEvent, interned: InternedData) {
        self.packet.track_event = Some(event);
        self.packet.interned_data = (interned != InternedData::default()).then_some(interned);
        self.packet.append_to(&mut self.bytes);
    }

    fn name(&mut self, region: RegionRef, is_unfinished: bool, interned: &mut InternedData) -> u64 {
        let iid = (u64::from(region.get()) << 1 | u64::from(is_unfinished)) + 1;
        if self.names.insert(iid) {
            let name = self.trace.region_name(region);
            let name = if is_unfinished { format!("{name}, {UNFINISHED}") } else { name };
            interned.event_names.push(named(iid, name));
        }
        iid
    }

    /// Adds the class of the region; kernel names contain none.
    fn add_categories(
        &mut self,
        region: Option<RegionInfo<'_>>,
        is_unfinished: bool,
        slice: &mut TrackEvent,
        interned: &mut InternedData,
    ) {
        let class = match region {
            Some(region) => Some(region.class),
            None => self.is_stream.then_some(RegionClass::Kernel),
        };
        let class = class.map(|class| (class as u64 + 1, class.name()));
        for (iid, name) in class.into_iter().chain(is_unfinished.then_some((UNFINISHED_CATEGORY, UNFINISHED))) {
            if self.categories.insert(iid) {
                interned.event_categories.push(named(iid, name.to_owned()));
            }
            slice.category_iids.push(iid);
        }
    }
}
