//! Reads the events of a location, and keeps those that the plan selects.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::timeline::chunks::{Event, KeptEvent, Key, MOST_SETS, NONE, PageBudget, SelectionReason, Set, Value, bits};
use crate::timeline::plan::{KeepReason, LEVELS, Location, LocationPart, Plan, RanksByCall};
use analysis::{Analysis, Clock, Lane, Role, Slice, Slices, Trace};
use anyhow::{Context as _, Result};
use nccl_events::archive::RegionClass;
use nccl_events::ids::{index as large, index_u32 as small};
use nccl_events::schema::attribute::AttributeId;
use nccl_events::sort::Gather;
use otf2::{AttributeRef, AttributeType, RegionRef, StringRef};

/// The name of a region without a definition, until all events are read.
pub(crate) const UNDEFINED: u32 = u32::MAX;

/// Number of equal parts of the time for which events are counted.
pub(crate) const PARTS: usize = 1024;

/// After this many kept events, a reader checks again which windows still fit.
const AT_ONCE: usize = 4096;

/// Attributes of a single event. The page shows them in other ways, or they mean nothing to people.
const OWN: [AttributeId; 16] = [
    AttributeId::Event,
    AttributeId::Parent,
    AttributeId::Group,
    AttributeId::Launch,
    AttributeId::Duration,
    AttributeId::WaitGpu,
    AttributeId::WaitPeer,
    AttributeId::WaitNetwork,
    AttributeId::Flush,
    AttributeId::Sequence,
    AttributeId::AlgorithmBandwidth,
    AttributeId::BusBandwidth,
    AttributeId::WorkRequest,
    AttributeId::ExternalCorrelation,
    AttributeId::Correlation,
    AttributeId::CommId,
];

nccl_events::fields! {
    struct InstanceFields {
        event: Event,
        parent: Parent,
        group: Group,
        sequence: Sequence,
        is_unfinished: Unfinished,
        wait_gpu_ns: WaitGpu,
        wait_peer_ns: WaitPeer,
        flush_ns: Flush,
        wait_network_ns: WaitNetwork,
    }
}

/// The events of a location that are kept.
#[derive(Debug, Default)]
pub(crate) struct LocationEvents {
    pub(crate) kept: Vec<KeptEvent>,
    /// Sets of attributes and their numbers in `kept`.
    pub(crate) sets: BTreeMap<Key, u64>,
    /// For a location that several ranks may use, the rank of the job that uses it most.
    pub(crate) rank: Option<u32>,
}

pub(crate) struct TimelineReader<'a> {
    trace: &'a Trace,
    analysis: &'a Analysis,
    plan: &'a Plan,
    locations: &'a [Location],
    clock: Clock,
    pub(crate) room: PageBudget,
    /// How many events begin in each of [`PARTS`] equal parts of the time.
    pub(crate) all: Vec<AtomicU64>,
    votes: RanksByCall,
    pub(crate) regions: BTreeMap<RegionRef, u32>,
    pub(crate) names: Vec<String>,
    /// Indices of `names`.
    pub(crate) ranges: BTreeSet<u32>,
    shared: BTreeMap<AttributeRef, String>,
}

/// A region instance, or a record.
struct EndedInstance {
    /// Row of the operation; `None` for other events.
    row: Option<u32>,
    slice: Slice,
}

/// The state of reading a location.
struct LocationReader {
    at: u32,
    has_levels: bool,
    /// The locations of lanes.
    lanes: BTreeMap<Lane, u32>,
    is_thread: bool,
    /// Whether all its events are kept, those of its lanes included.
    is_small: bool,
    found: LocationEvents,
    all: Vec<u64>,
    /// Numbers of events per window that have not been added to `room` yet.
    in_windows: Vec<u64>,
    fitting: u32,
    /// The number of kept events when `room` was last updated.
    asked: usize,
    /// For each row of the location and part of the time, the longest event.
    longest: Vec<Vec<Option<KeptEvent>>>,
    /// Ids of the parents of calls that are kept, and the reason to keep them.
    parents: BTreeMap<u64, KeepReason>,
}

impl<'a> TimelineReader<'a> {
    pub(crate) fn new(trace: &'a Trace, analysis: &'a Analysis, plan: &'a Plan, locations: &'a [Location]) -> Self {
        let definitions = &trace.definitions;
        let is_shared = |reference| trace.attribute(reference).is_none_or(|known| !OWN.contains(&known));
        let attributes = definitions.attributes.iter().filter(|(reference, _)| is_shared(**reference));
        Self {
            trace,
            analysis,
            plan,
            locations,
            clock: Clock::from_trace(trace),
            room: PageBudget::new(plan),
            all: (0..PARTS).map(|_| AtomicU64::new(0)).collect(),
            votes: RanksByCall::new(&analysis.tables),
            regions: definitions.regions.keys().copied().zip(0..).gather(),
            ranges: (0..)
                .zip(definitions.regions.keys())
                .filter(|(_, region)| is_range(trace, **region))
                .map(|(at, _)| at)
                .gather(),
            names: definitions.regions.keys().map(|region| trace.region_name(*region)).collect(),
            shared: attributes
                .filter_map(|(reference, attribute)| Some((*reference, definitions.string(attribute.name)?.to_owned())))
                .gather(),
        }
    }

    pub(crate) fn location(&self, at: usize) -> Result<LocationEvents> {
        let location = &self.locations[at];
        if location.part != LocationPart::Whole {
            return Ok(LocationEvents::default());
        }
        let parts =
            || (small(at)..).zip(&self.locations[at..]).take_while(|(_, part)| part.reference == location.reference);
        let has_levels = parts().any(|(_, part)| part.part == LocationPart::Level);
        let lanes = parts().filter_map(|(at, part)| match part.part {
            LocationPart::Lane(lane) => Some((lane, at)),
            LocationPart::Whole | LocationPart::Level => None,
        });
        let mut state = LocationReader {
            at: u32::try_from(at)?,
            has_levels,
            is_thread: location.is_thread(),
            is_small: parts().map(|(_, part)| part.events).sum::<u64>() <= self.plan.samples,
            found: LocationEvents::default(),
            all: vec![0; PARTS],
            in_windows: vec![0; self.plan.windows.len()],
            fitting: small(self.plan.windows.len()),
            asked: 0,
            longest: vec![Vec::new(); parts().count()],
            lanes: lanes.gather(),
            parents: BTreeMap::new(),
        };
        let mut rows = self.analysis.tables.rows_of(location.reference);
        let mut slices = Slices::new(self.trace, location.reference);
        let mut votes: BTreeMap<u32, u64> = BTreeMap::new();
        let read = self.trace.archive.for_each_event(&[location.reference], |_, event| {
            if let Some(slice) = slices.step(self.clock.ns(event.time), event) {
                let is_operation = matches!(slice.role, Some(Role::Operation(_)));
                let ended = EndedInstance { row: if is_operation { rows.next() } else { None }, slice };
                if location.is_shared {
                    self.votes.add(self.trace, &ended.slice.attributes, &mut votes);
                }
                self.take(&mut state, &ended);
            }
            ControlFlow::Continue(())
        });
        read.context("the archive is damaged, `nccl-otf2 check` says more")?;
        let fitting = self.room.add(&mut state.in_windows);
        self.all.iter().zip(state.all).for_each(|(sum, own)| _ = sum.fetch_add(own, Ordering::Relaxed));
        state.found.kept.retain(|kept| kept.stays(fitting));
        state.found.kept.extend(state.longest.into_iter().flatten().flatten());
        state.found.kept.shrink_to_fit();
        state.found.rank = votes.into_iter().max_by_key(|(_, calls)| *calls).map(|(rank, _)| rank);
        Ok(state.found)
    }

    /// Counts an event, and keeps it if the plan selects it.
    fn take(&self, state: &mut LocationReader, ended: &EndedInstance) {
        let is_wanted = match ended.slice.lane {
            Some(lane) => state.lanes.contains_key(&lane),
            None => !self.locations[large(state.at)].is_for_lanes,
        };
        if !is_wanted || !self.plan.wants(ended.slice.start_ns, ended.slice.stop_ns) {
            return;
        }
        state.all[self.plan.part(ended.slice.start_ns, PARTS as u64)] += 1;
        let window = self.plan.window(ended.slice.start_ns, ended.slice.stop_ns);
        let own = window.map_or(u32::MAX, |window| window.place);
        if let Some(events) = state.in_windows.get_mut(large(own)) {
            *events += 1;
        }
        let with = self.kept_with(state, ended);
        let place = if let Some(KeepReason::Window(place)) = with { place.min(own) } else { own };
        if with == Some(KeepReason::Chosen) {
            let event = self.event(state, ended);
            state.found.kept.push(KeptEvent { event, why: SelectionReason::Chosen, place });
        } else {
            if place < state.fitting {
                let event = self.event(state, ended);
                state.found.kept.push(KeptEvent { event, why: SelectionReason::Window, place });
            }
            if ended.row.is_none() {
                self.sample(state, ended, place);
            }
        }
        if state.found.kept.len() >= state.asked + AT_ONCE {
            let fitting = self.room.add(&mut state.in_windows);
            if fitting < state.fitting {
                state.found.kept.retain(|kept| kept.stays(fitting));
                state.fitting = fitting;
            }
            state.asked = state.found.kept.len();
        }
    }

    /// The reason to keep an event outside of windows, too. It applies to chosen operations, their calls, and the other
    /// calls of the same group.
    fn kept_with(&self, state: &mut LocationReader, ended: &EndedInstance) -> Option<KeepReason> {
        if state.is_small {
            return Some(KeepReason::Chosen);
        }
        if let Some(row) = ended.row {
            return self.plan.is_chosen(row).then_some(KeepReason::Chosen);
        }
        if !state.is_thread {
            return None;
        }
        let own: InstanceFields<'_> = self.trace.read_fields(&ended.slice.attributes);
        let ids = [own.event, own.group, own.parent].into_iter().flatten();
        let all = ids.flat_map(|id| [self.plan.call(id), state.parents.get(&id).copied()]);
        let with = all.flatten().min()?;
        own.group
            .or(own.parent)
            .map(|parent| state.parents.entry(parent).and_modify(|reason| *reason = with.min(*reason)).or_insert(with));
        Some(with)
    }

    /// Keeps an event if none in its part of the time is longer.
    fn sample(&self, state: &mut LocationReader, ended: &EndedInstance, place: u32) {
        let row = large(self.row_of(state, &ended.slice) - state.at);
        let samples = self.plan.samples;
        if state.longest[row].is_empty() {
            state.longest[row].resize(usize::try_from(samples).unwrap_or(0), None);
        }
        let length_ns = ended.slice.stop_ns - ended.slice.start_ns;
        let at = self.plan.part(ended.slice.start_ns, samples);
        if state.longest[row].get(at).is_some_and(|slot| slot.is_none_or(|kept| kept.length_ns() < length_ns)) {
            let event = self.event(state, ended);
            state.longest[row][at] = Some(KeptEvent { event, why: SelectionReason::Longest, place });
        }
    }

    fn name(&self, region: RegionRef) -> u32 {
        self.regions.get(&region).copied().unwrap_or(UNDEFINED)
    }

    /// The row of a location in which an event is shown.
    fn row_of(&self, state: &LocationReader, slice: &Slice) -> u32 {
        if let Some(lane) = slice.lane {
            return state.lanes.get(&lane).copied().unwrap_or(state.at);
        }
        let is_range = state.has_levels && self.ranges.contains(&self.name(slice.region));
        if is_range { state.at + 1 + slice.depth.min(LEVELS - 1) } else { state.at }
    }

    fn event(&self, state: &mut LocationReader, ended: &EndedInstance) -> Event {
        let own: InstanceFields<'_> = self.trace.read_fields(&ended.slice.attributes);
        let Analysis { tables, instances, .. } = self.analysis;
        let instance = ended.row.and_then(|row| instances.instance_of_operation(row));
        let waiting_ns = instance
            .zip(ended.row)
            .and_then(|(instance, row)| instances.all.get(large(instance))?.waiting_ns(tables, row));
        let waiting_ns = waiting_ns.or_else(|| own.step_waiting_ns());
        let name = self.name(ended.slice.region);
        Event {
            event: own.event.unwrap_or(0),
            parent: own.parent.or(own.group).unwrap_or(0),
            waiting_ns: waiting_ns.unwrap_or(NONE),
            sequence: own.sequence.unwrap_or(NONE),
            instance: instance.map_or(NONE, u64::from),
            attributes: self.attributes(state, ended),
            location: self.row_of(state, &ended.slice),
            name,
            is_operation: ended.row.is_some(),
            ..Event::new(ended)
        }
    }

    /// The number of an event's set of attributes among the sets of its location.
    fn attributes(&self, state: &mut LocationReader, ended: &EndedInstance) -> u64 {
        let shared = ended.slice.attributes.iter().filter(|(name, _)| self.shared.contains_key(name));
        let mut key: Key = shared.filter_map(|(name, value)| Some((*name, bits(*value)?))).collect();
        let sets = &mut state.found.sets;
        let most = (4 * MOST_SETS / self.locations.len().max(1)).clamp(MOST_SETS / 100, MOST_SETS);
        if sets.len() >= most && !sets.contains_key(&key) {
            key.retain(|(name, _)| self.is_telling(*name));
        }
        if key.is_empty() {
            return NONE;
        }
        let next = sets.len() as u64;
        *sets.entry(key).or_insert(next)
    }

    /// Whether an attribute has few values: a text, or bytes.
    fn is_telling(&self, name: AttributeRef) -> bool {
        let definition = self.trace.definitions.attributes.get(&name);
        definition.is_some_and(|attribute| attribute.attribute_type == AttributeType::String)
            || self.trace.attribute(name) == Some(AttributeId::Bytes)
    }

    pub(crate) fn set(&self, key: &Key) -> Set {
        let attributes = key.iter().filter_map(|(name, bits)| {
            let definition = self.trace.definitions.attributes.get(name)?;
            let text = || self.trace.definitions.string(StringRef::new(u32::try_from(*bits).ok()?));
            let text = (definition.attribute_type == AttributeType::String).then(text).flatten();
            let value = text.map_or(Value::Number(*bits), |text| Value::Text(text.to_owned()));
            Some((self.shared.get(name)?.clone(), value))
        });
        attributes.collect()
    }
}

impl InstanceFields<'_> {
    /// For how long a step waited for something else than the network.
    fn step_waiting_ns(&self) -> Option<u64> {
        let others = [self.wait_gpu_ns, self.wait_peer_ns, self.flush_ns];
        let is_step = others.iter().chain([&self.wait_network_ns]).any(Option::is_some);
        is_step.then(|| others.into_iter().flatten().fold(0, u64::saturating_add))
    }
}

impl Event {
    const fn new(ended: &EndedInstance) -> Self {
        Self {
            begin_ns: ended.slice.start_ns,
            end_ns: ended.slice.stop_ns,
            event: 0,
            parent: 0,
            waiting_ns: NONE,
            sequence: NONE,
            instance: NONE,
            attributes: NONE,
            location: 0,
            name: UNDEFINED,
            depth: ended.slice.depth,
            is_operation: false,
        }
    }
}

fn is_range(trace: &Trace, region: RegionRef) -> bool {
    trace.region(region).is_some_and(|region| matches!(region.class, RegionClass::User | RegionClass::Mark))
}
