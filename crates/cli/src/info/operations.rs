//! How long operations took, by function and size.

use std::collections::BTreeMap;

use otf2::{AttributeRef, AttributeValue, Event, EventKind, RegionRef};
use serde::Serialize;

use crate::archive::Trace;

/// What is looked for on events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wanted {
    Timing,
    Bytes,
    Unfinished,
    AlgorithmBandwidth,
    BusBandwidth,
}

const WANTED: [(&str, Wanted); 5] = [
    ("nccl.timing", Wanted::Timing),
    ("nccl.bytes", Wanted::Bytes),
    ("nccl.unfinished", Wanted::Unfinished),
    ("nccl.algbw", Wanted::AlgorithmBandwidth),
    ("nccl.busbw", Wanted::BusBandwidth),
];

/// Operations of all locations so far.
pub(crate) struct Operations<'a> {
    trace: &'a Trace,
    wanted: BTreeMap<AttributeRef, Wanted>,
    classes: BTreeMap<(RegionRef, u32), Class>,
    open: Vec<Option<Open>>,
}

/// The operations of one function with sizes from one power of two to the next.
#[derive(Debug, Default)]
struct Class {
    bytes: Option<(u64, u64)>,
    count: u64,
    unfinished: u64,
    timing: BTreeMap<String, u64>,
    durations_ns: Vec<u64>,
    algorithm_bandwidths: Vec<f64>,
    bus_bandwidths: Vec<f64>,
}

/// An operation that is not over.
struct Open {
    start: u64,
    bytes: u64,
    timing: String,
}

impl<'a> Operations<'a> {
    /// No operations yet.
    pub(crate) fn new(trace: &'a Trace) -> Self {
        let attributes = trace.definitions.attributes.iter();
        let wanted = attributes.filter_map(|(reference, attribute)| {
            let name = trace.definitions.string(attribute.name)?;
            let (_, wanted) = WANTED.iter().find(|(known, _)| *known == name)?;
            Some((*reference, *wanted))
        });
        Self {
            trace,
            wanted: wanted.collect(),
            classes: BTreeMap::new(),
            open: Vec::new(),
        }
    }

    /// The events of the next location follow.
    pub(crate) fn next_location(&mut self) {
        self.open.clear();
    }

    /// Takes in an event.
    pub(crate) fn event(&mut self, event: &Event) {
        match event.kind {
            EventKind::Enter(_) => {
                // Only operations say what they were timed by; calls and network transfers do not.
                let open = self.find(event, Wanted::Timing).map(|timing| Open {
                    start: event.time,
                    bytes: number(self.find(event, Wanted::Bytes)).unwrap_or(0),
                    timing: self.trace.text(timing).unwrap_or("unknown").to_owned(),
                });
                self.open.push(open);
            }
            EventKind::Leave(region) => {
                if let Some(Some(open)) = self.open.pop() {
                    self.operation(region, open, event);
                }
            }
            _ => {}
        }
    }

    fn find(&self, event: &Event, wanted: Wanted) -> Option<AttributeValue> {
        let mut attributes = event.attributes.iter();
        let is_it = |attribute| self.wanted.get(attribute) == Some(&wanted);
        attributes
            .find(|(attribute, _)| is_it(attribute))
            .map(|(_, value)| *value)
    }

    fn operation(&mut self, region: RegionRef, open: Open, leave: &Event) {
        let unfinished = number(self.find(leave, Wanted::Unfinished)).unwrap_or(0) > 0;
        let algorithm = fraction(self.find(leave, Wanted::AlgorithmBandwidth));
        let bus = fraction(self.find(leave, Wanted::BusBandwidth));
        let size = u64::BITS - open.bytes.leading_zeros();
        let class = self.classes.entry((region, size)).or_default();
        class.count += 1;
        *class.timing.entry(open.timing).or_insert(0) += 1;
        let (least, most) = class.bytes.unwrap_or((open.bytes, open.bytes));
        class.bytes = Some((least.min(open.bytes), most.max(open.bytes)));
        if unfinished {
            class.unfinished += 1;
        } else {
            class
                .durations_ns
                .push(leave.time.saturating_sub(open.start));
            class.algorithm_bandwidths.extend(algorithm);
            class.bus_bandwidths.extend(bus);
        }
    }

    /// The rows, by function and size.
    pub(crate) fn finish(self) -> Vec<Row> {
        let trace = self.trace;
        let classes = self.classes.into_iter();
        let mut rows: Vec<Row> = classes
            .map(|((region, _), class)| class.row(trace.region_name(region)))
            .collect();
        rows.sort_by(|a, b| (&a.function, a.bytes_min).cmp(&(&b.function, b.bytes_min)));
        rows
    }
}

fn number(value: Option<AttributeValue>) -> Option<u64> {
    match value? {
        AttributeValue::U64(number) => Some(number),
        AttributeValue::U32(number) => Some(number.into()),
        AttributeValue::U8(number) => Some(number.into()),
        _ => None,
    }
}

fn fraction(value: Option<AttributeValue>) -> Option<f64> {
    match value? {
        AttributeValue::F64(number) if number.is_finite() => Some(number),
        _ => None,
    }
}

/// The operations of one function in one class of sizes.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Row {
    /// The function, such as `ncclAllReduce`.
    pub(crate) function: String,
    /// The smallest size.
    pub(crate) bytes_min: u64,
    /// The largest size.
    pub(crate) bytes_max: u64,
    /// How many, on all ranks.
    pub(crate) count: u64,
    /// How many of them had not ended.
    pub(crate) unfinished: u64,
    /// How many were timed by what.
    pub(crate) timing: BTreeMap<String, u64>,
    /// How long those took that ended.
    pub(crate) duration_ns: Option<Durations>,
    /// Algorithm bandwidth, where the timing allows one.
    pub(crate) algbw: Option<Bandwidths>,
    /// Bus bandwidth, where the timing allows one.
    pub(crate) busbw: Option<Bandwidths>,
}

/// Times in ns.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Durations {
    pub(crate) min: u64,
    pub(crate) median: u64,
    pub(crate) max: u64,
    pub(crate) total: u64,
}

/// Bandwidths in bytes per second.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(crate) struct Bandwidths {
    pub(crate) median: f64,
    pub(crate) max: f64,
}

impl Class {
    fn row(self, function: String) -> Row {
        let (bytes_min, bytes_max) = self.bytes.unwrap_or_default();
        Row {
            function,
            bytes_min,
            bytes_max,
            count: self.count,
            unfinished: self.unfinished,
            timing: self.timing,
            duration_ns: durations(self.durations_ns),
            algbw: bandwidths(self.algorithm_bandwidths),
            busbw: bandwidths(self.bus_bandwidths),
        }
    }
}

fn durations(mut all: Vec<u64>) -> Option<Durations> {
    all.sort_unstable();
    Some(Durations {
        min: *all.first()?,
        median: *all.get(all.len() / 2)?,
        max: *all.last()?,
        total: all.iter().sum(),
    })
}

fn bandwidths(mut all: Vec<f64>) -> Option<Bandwidths> {
    all.sort_unstable_by(f64::total_cmp);
    Some(Bandwidths {
        median: *all.get(all.len() / 2)?,
        max: *all.last()?,
    })
}
