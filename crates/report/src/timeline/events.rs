//! The events of the timeline: every region instance of an archive, as small as sorting and linking allow.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;

use analysis::{Analysis, Slice, Trace};
use anyhow::{Context as _, Result};
use nccl_events::Progress;
use nccl_events::archive::RegionClass;
use otf2::{AttributeRef, AttributeValue, RegionRef};
use rayon::prelude::*;
use schema::AttributeId;
use serde::Serialize;

use super::places::{LEVELS, Location, Part};

/// No set of attributes, no instance, no waiting time.
pub(super) const NONE: u64 = u64::MAX;

/// The name of a region without a definition, until all events are read.
const UNDEFINED: u32 = u32::MAX;

/// Beyond this many distinct sets, new sets drop numbers other than bytes: nearly every set would be unique.
const MOST_SETS: usize = 20_000;

/// Attributes of a single event. The page shows them in other ways, or they mean nothing to people.
const OWN: [AttributeId; 9] = [
    AttributeId::Event,
    AttributeId::Parent,
    AttributeId::Sequence,
    AttributeId::AlgorithmBandwidth,
    AttributeId::BusBandwidth,
    AttributeId::WorkRequest,
    AttributeId::ExternalCorrelation,
    AttributeId::Correlation,
    AttributeId::CommId,
];

schema::fields! {
    struct Own {
        event: Event,
        parent: Parent,
        sequence: Sequence,
        is_unfinished: Unfinished,
    }
}

#[derive(Clone, Copy, Debug)]
#[cfg_attr(test, derive(Default))]
pub(super) struct Event {
    pub(super) begin_ns: u64,
    pub(super) end_ns: u64,
    pub(super) event: u64,
    /// The id of its parent; 0 if it has none.
    pub(super) parent: u64,
    pub(super) waiting_ns: u64,
    pub(super) sequence: u64,
    pub(super) instance: u64,
    pub(super) attributes: u64,
    pub(super) location: u32,
    pub(super) name: u32,
    pub(super) depth: u32,
    /// Whether it had not ended when the recording did.
    pub(super) is_unfinished: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(untagged)]
pub(super) enum Value {
    Text(String),
    Number(i64),
}

pub(super) type Set = Vec<(String, Value)>;

#[derive(Debug, Default)]
pub(super) struct Events {
    pub(super) all: Vec<Event>,
    pub(super) names: Vec<String>,
    /// Names that are of ranges of the program.
    pub(super) ranges: Vec<u32>,
    pub(super) sets: Vec<Set>,
}

impl Events {
    pub(super) fn read(
        trace: &Trace,
        analysis: &Analysis,
        locations: &[Location],
        progress: &dyn Progress,
    ) -> Result<Self> {
        let reading = Reading::of(trace, analysis);
        progress.begin("timeline", locations.len() as u64);
        let read = locations.par_iter().enumerate().map(|(at, location)| {
            let has_levels = locations.get(at + 1).is_some_and(|next| next.part != Part::Whole);
            let made = reading.location(u32::try_from(at)?, location, has_levels);
            progress.step();
            made
        });
        let parts: Vec<(Vec<Event>, Vec<Set>)> = read.collect::<Result<_>>()?;
        progress.end();
        let ranges = reading.ranges.iter().copied().collect();
        let mut found = Self { names: reading.names, ranges, ..Self::default() };
        let mut known: BTreeMap<Set, u64> = BTreeMap::new();
        found.all.reserve_exact(parts.iter().map(|(events, _)| events.len()).sum());
        for (events, sets) in parts {
            let numbers: Vec<u64> = sets.into_iter().map(|set| found.set(&mut known, set)).collect();
            let index = |event: &Event| usize::try_from(event.attributes).unwrap_or(usize::MAX);
            let numbered =
                |event: Event| Event { attributes: numbers.get(index(&event)).copied().unwrap_or(NONE), ..event };
            found.all.extend(events.into_iter().map(numbered));
        }
        if found.all.iter().any(|event| event.name == UNDEFINED) {
            let name = u32::try_from(found.names.len())?;
            found.names.push("undefined region".to_owned());
            found.all.iter_mut().filter(|event| event.name == UNDEFINED).for_each(|event| event.name = name);
        }
        Ok(found)
    }

    fn set(&mut self, known: &mut BTreeMap<Set, u64>, mut set: Set) -> u64 {
        if known.len() >= MOST_SETS && !known.contains_key(&set) {
            set.retain(|(name, value)| matches!(value, Value::Text(_)) || name == AttributeId::Bytes.name());
        }
        if set.is_empty() {
            return NONE;
        }
        *known.entry(set).or_insert_with_key(|set| {
            self.sets.push(set.clone());
            self.sets.len() as u64 - 1
        })
    }
}

struct Reading<'a> {
    trace: &'a Trace,
    analysis: &'a Analysis,
    /// Rows of operations by event id.
    operations: Vec<(u64, u32)>,
    regions: BTreeMap<RegionRef, u32>,
    names: Vec<String>,
    /// Indices of `names`.
    ranges: BTreeSet<u32>,
    shared: BTreeMap<AttributeRef, String>,
}

impl<'a> Reading<'a> {
    fn of(trace: &'a Trace, analysis: &'a Analysis) -> Self {
        let mut operations: Vec<_> = analysis.tables.operations.event.iter().copied().zip(0..).collect();
        operations.par_sort_unstable();
        let definitions = &trace.definitions;
        let is_shared = |reference| trace.attribute(reference).is_none_or(|known| !OWN.contains(&known));
        let attributes = definitions.attributes.iter().filter(|(reference, _)| is_shared(**reference));
        Self {
            trace,
            analysis,
            operations,
            regions: definitions.regions.keys().copied().zip(0..).collect(),
            ranges: (0..)
                .zip(definitions.regions.keys())
                .filter(|(_, it)| is_range(trace, **it))
                .map(|(at, _)| at)
                .collect(),
            names: definitions.regions.keys().map(|region| trace.region_name(*region)).collect(),
            shared: attributes
                .filter_map(|(reference, it)| Some((*reference, definitions.string(it.name)?.to_owned())))
                .collect(),
        }
    }

    fn location(&self, at: u32, location: &Location, has_levels: bool) -> Result<(Vec<Event>, Vec<Set>)> {
        let mut events = Vec::new();
        if location.part != Part::Whole {
            return Ok((events, Vec::new()));
        }
        let mut known: BTreeMap<Vec<(AttributeRef, i64)>, u64> = BTreeMap::new();
        let mut sets: Vec<Set> = Vec::new();
        self.trace
            .slices(location.reference, |slice| {
                let shared = slice.attributes.iter().filter(|(name, _)| self.shared.contains_key(name));
                let key: Vec<_> = shared.filter_map(|(name, value)| Some((*name, bits(*value)?))).collect();
                let attributes = if key.is_empty() {
                    NONE
                } else {
                    *known.entry(key).or_insert_with(|| {
                        sets.push(self.set(slice));
                        sets.len() as u64 - 1
                    })
                };
                let mut event = self.event(at, location.is_operations(), slice, attributes);
                if has_levels && self.ranges.contains(&event.name) {
                    event.location += 1 + event.depth.min(LEVELS - 1);
                }
                events.push(event);
                ControlFlow::Continue(())
            })
            .context("the archive is damaged, `nccl-otf2 check` says more")?;
        Ok((events, sets))
    }

    fn set(&self, slice: &Slice) -> Set {
        let attributes = slice.attributes.iter();
        attributes.filter_map(|(name, value)| Some((self.shared.get(name)?.clone(), self.value(*value)?))).collect()
    }

    fn value(&self, value: AttributeValue) -> Option<Value> {
        if let Some(text) = self.trace.text(value) {
            return Some(Value::Text(text.to_owned()));
        }
        bits(value).map(Value::Number)
    }

    fn event(&self, location: u32, is_operation: bool, slice: &Slice, attributes: u64) -> Event {
        let own: Own<'_> = self.trace.read_fields(&slice.attributes);
        let event = own.event.unwrap_or(0);
        let operation = self.operations.binary_search_by_key(&event, |(event, _)| *event).ok();
        let row = operation.filter(|_| event != 0).map(|at| self.operations[at].1);
        // The enqueueing of an operation shares its id, but a lookup by id must find the operation.
        let event = if row.is_some() && !is_operation { 0 } else { event };
        let row = row.filter(|_| is_operation);
        let instances = &self.analysis.instances;
        let instance = row.and_then(|row| instances.of_operation(row));
        let waiting_ns = instance.zip(row).and_then(|(instance, row)| {
            instances.all.get(usize::try_from(instance).ok()?)?.waiting_ns(&self.analysis.tables, row)
        });
        Event {
            begin_ns: slice.start_ns,
            end_ns: slice.stop_ns,
            event,
            parent: own.parent.unwrap_or(0),
            waiting_ns: waiting_ns.unwrap_or(NONE),
            sequence: own.sequence.unwrap_or(NONE),
            instance: instance.map_or(NONE, u64::from),
            attributes,
            location,
            name: self.regions.get(&slice.region).copied().unwrap_or(UNDEFINED),
            depth: slice.depth,
            is_unfinished: own.is_unfinished == Some(true),
        }
    }
}

fn is_range(trace: &Trace, region: RegionRef) -> bool {
    trace.region(region).is_some_and(|region| matches!(region.class, RegionClass::User | RegionClass::Mark))
}

/// An integer, or the reference of a string; `None` for other values.
fn bits(value: AttributeValue) -> Option<i64> {
    match value {
        AttributeValue::U64(number) => Some(number.cast_signed()),
        AttributeValue::U32(number) => Some(number.into()),
        AttributeValue::U16(number) => Some(number.into()),
        AttributeValue::U8(number) => Some(number.into()),
        AttributeValue::I64(number) => Some(number),
        AttributeValue::I32(number) => Some(number.into()),
        AttributeValue::String(string) => Some(string.get().into()),
        _ => None,
    }
}
