//! Kernel channels lie within the operation that was timed by them.

use std::collections::BTreeMap;

use nccl_events::Kind;
use otf2::{AttributeRef, AttributeValue, Event, EventKind, LocationRef, RegionRef};

use crate::archive::Trace;
use crate::kinds::{Shows, regions};

use super::findings::Findings;
use super::rules::Rule;

/// The operations of one process. Its communicator lanes come before the channel lanes of its GPUs.
pub(crate) struct Parents<'a> {
    trace: &'a Trace,
    regions: BTreeMap<RegionRef, Shows>,
    id: Option<AttributeRef>,
    parent: Option<AttributeRef>,
    timing: Option<AttributeRef>,
    suspicious: Option<AttributeRef>,
    residual_ns: u64,
    has_residual: bool,
    /// By event id: when it ran.
    operations: BTreeMap<u64, (u64, u64)>,
    open: Vec<Open>,
    /// Channels on GPU times.
    pub(crate) gpu_times: u64,
}

/// A region that was entered.
#[derive(Clone, Copy)]
enum Open {
    Operation { id: u64, start: u64 },
    Channel { parent: u64, start: u64 },
    Other,
}

impl<'a> Parents<'a> {
    /// Nothing seen yet.
    pub(crate) fn of(trace: &'a Trace) -> Self {
        let properties = trace.archive.properties().iter();
        let of_gpus = properties.filter(|(name, _)| name.starts_with("NCCL::GPU_CLOCK::"));
        let (mut residual_ns, mut has_residual) = (0, false);
        for (name, value) in of_gpus {
            has_residual = true;
            if name.ends_with("::RESIDUAL_NS") {
                residual_ns = residual_ns.max(value.trim().parse().unwrap_or(0));
            }
        }
        Self {
            trace,
            regions: regions(trace),
            id: trace.attribute("nccl.event"),
            parent: trace.attribute("nccl.parent"),
            timing: trace.attribute("nccl.timing"),
            suspicious: trace.attribute("nccl.suspicious"),
            residual_ns,
            has_residual,
            operations: BTreeMap::new(),
            open: Vec::new(),
            gpu_times: 0,
        }
    }

    /// The locations of the next process follow.
    pub(crate) fn next_process(&mut self) {
        self.operations.clear();
    }

    /// The events of the next location follow.
    pub(crate) fn next_location(&mut self) {
        self.open.clear();
    }

    fn get(event: &Event, wanted: Option<AttributeRef>) -> Option<AttributeValue> {
        let mut attributes = event.attributes.iter();
        let found = attributes.find(|(attribute, _)| Some(*attribute) == wanted);
        found.map(|(_, value)| *value)
    }

    /// Takes in an event.
    pub(crate) fn event(&mut self, location: LocationRef, event: &Event, findings: &mut Findings) {
        match event.kind {
            EventKind::Enter(region) => {
                let opened = self.opened(region, event);
                self.open.push(opened);
            }
            EventKind::Leave(_) => match self.open.pop() {
                Some(Open::Operation { id, start }) => {
                    self.operations.insert(id, (start, event.time));
                }
                Some(Open::Channel { parent, start }) => {
                    self.channel(location, parent, (start, event.time), findings);
                }
                _ => {}
            },
            _ => {}
        }
    }

    fn opened(&self, region: RegionRef, event: &Event) -> Open {
        let start = event.time;
        match self.regions.get(&region) {
            Some(Shows::Operation(_)) => {
                let timing = Self::get(event, self.timing);
                let timing = timing.and_then(|timing| self.trace.text(timing));
                match (timing, Self::get(event, self.id)) {
                    (Some("kernelch"), Some(AttributeValue::U64(id))) => {
                        Open::Operation { id, start }
                    }
                    _ => Open::Other,
                }
            }
            Some(Shows::Work(Kind::KernelCh)) => {
                // Those with times that make no sense are shown by the host's.
                match (
                    Self::get(event, self.suspicious),
                    Self::get(event, self.parent),
                ) {
                    (None, Some(AttributeValue::U64(parent))) => Open::Channel { parent, start },
                    _ => Open::Other,
                }
            }
            _ => Open::Other,
        }
    }

    fn channel(
        &mut self,
        location: LocationRef,
        parent: u64,
        (start, end): (u64, u64),
        findings: &mut Findings,
    ) {
        let Some((from, until)) = self.operations.get(&parent).copied() else {
            return;
        };
        self.gpu_times += 1;
        let earliest = from.saturating_sub(self.residual_ns);
        let latest = until.saturating_add(self.residual_ns);
        if start < earliest || end > latest {
            let place = (location, self.trace.location_name(location));
            let message = format!(
                "a channel runs from {start} to {end}, its operation from {from} to {until}, \
                 and the residual of the GPU clocks is {} ns",
                self.residual_ns
            );
            findings.add(Rule::InsideParent, Some(place), Some(start), message);
        }
    }

    /// No more events.
    pub(crate) fn end(&self, findings: &mut Findings) {
        if self.gpu_times > 0 && !self.has_residual {
            let message = format!(
                "{} kernel channels are on GPU times, and nothing is said of GPU clocks",
                self.gpu_times
            );
            findings.general(Rule::GpuResidual, message);
        }
    }
}
