//! The durations of operations, by function and size.

use std::collections::BTreeMap;

use analysis::{Instance, Instances, Step, Trace};
use nccl_events::archive::Timing;
use nccl_events::sort::Gather;
use otf2::{Event, RegionRef};
use schemars::JsonSchema;
use serde::Serialize;

pub(crate) struct Operations<'a> {
    trace: &'a Trace,
    instances: Instances<'a>,
    classes: BTreeMap<(RegionRef, u32), Class>,
}

/// The operations of one function in one size class, from one power of two to the next.
#[derive(Debug, Default)]
struct Class {
    bytes: Option<(u64, u64)>,
    count: u64,
    unfinished: u64,
    timing: BTreeMap<Timing, u64>,
    durations_ns: Vec<u64>,
    algorithm_bandwidths: Vec<f64>,
    bus_bandwidths: Vec<f64>,
}

impl<'a> Operations<'a> {
    pub(crate) fn new(trace: &'a Trace) -> Self {
        Self { trace, instances: Instances::of(trace), classes: BTreeMap::new() }
    }

    pub(crate) fn next_location(&mut self) {
        self.instances.next_location();
    }

    pub(crate) fn event(&mut self, event: &Event) {
        if let Step::Left(instance) = self.instances.step(event)
            // Only operations state how they were timed; calls and network transfers do not.
            && let Some(timing) = instance.fields.timing
        {
            self.operation(&instance, timing);
        }
    }

    fn operation(&mut self, operation: &Instance<'a>, timing: Timing) {
        let fields = &operation.fields;
        let bytes = fields.bytes.unwrap_or(0);
        let class = self.classes.entry((operation.region, u64::BITS - bytes.leading_zeros())).or_default();
        class.count += 1;
        *class.timing.entry(timing).or_insert(0) += 1;
        let (least, most) = class.bytes.unwrap_or((bytes, bytes));
        class.bytes = Some((least.min(bytes), most.max(bytes)));
        if fields.is_unfinished == Some(true) {
            class.unfinished += 1;
        } else {
            class.durations_ns.push(operation.end.saturating_sub(operation.start));
            class.algorithm_bandwidths.extend(fields.algorithm_bandwidth);
            class.bus_bandwidths.extend(fields.bus_bandwidth);
        }
    }

    pub(crate) fn finish(self) -> Vec<Row> {
        let classes = self.classes.into_iter();
        let mut rows: Vec<Row> =
            classes.map(|((region, _), class)| class.row(self.trace.region_name(region))).collect();
        nccl_events::sort::sort_by(&mut rows, |a, b| (&a.function, a.bytes_min).cmp(&(&b.function, b.bytes_min)));
        rows
    }
}

/// One function and size class; the help of `info` documents the fields.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub(crate) struct Row {
    pub(crate) function: String,
    pub(crate) bytes_min: u64,
    pub(crate) bytes_max: u64,
    pub(crate) count: u64,
    pub(crate) unfinished: u64,
    pub(crate) timing: BTreeMap<String, u64>,
    pub(crate) duration_ns: Option<Durations>,
    pub(crate) algbw: Option<Bandwidths>,
    pub(crate) busbw: Option<Bandwidths>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub(crate) struct Durations {
    pub(crate) min: u64,
    pub(crate) median: u64,
    pub(crate) max: u64,
    pub(crate) total: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize, JsonSchema)]
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
            timing: self.timing.into_iter().map(|(by, number)| (by.name().to_owned(), number)).gather(),
            duration_ns: durations(self.durations_ns),
            algbw: bandwidths(self.algorithm_bandwidths),
            busbw: bandwidths(self.bus_bandwidths),
        }
    }
}

fn durations(mut all: Vec<u64>) -> Option<Durations> {
    all.sort_unstable();
    let [low, high] = middle(&all)?;
    Some(Durations { min: *all.first()?, median: low.midpoint(high), max: *all.last()?, total: all.iter().sum() })
}

fn bandwidths(mut all: Vec<f64>) -> Option<Bandwidths> {
    all.sort_unstable_by(f64::total_cmp);
    let [low, high] = middle(&all)?;
    Some(Bandwidths { median: low.midpoint(high), max: *all.last()? })
}

fn middle<T: Copy>(all: &[T]) -> Option<[T; 2]> {
    let last = all.len().checked_sub(1)?;
    Some([*all.get(last / 2)?, *all.get(all.len() / 2)?])
}
