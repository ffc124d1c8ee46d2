//! Kernels and copies: within the operations that were timed by them, with their launches, on rows of the right GPU.

use std::collections::{BTreeMap, BTreeSet};

use otf2::{
    Archive, AttributeRef, AttributeValue, Event, EventKind, LocationGroupRef, LocationGroupType,
    LocationRef, RegionRef,
};

use crate::archive::Trace;
use crate::kinds::{Shows, gpu_regions, regions};
use crate::units::plural;

use super::findings::Findings;
use super::rules::Rule;

/// An operation as it is drawn.
#[derive(Clone, Copy)]
struct Operation {
    start: u64,
    end: u64,
    /// Its GPU; none where communicators are threads.
    gpu: Option<LocationGroupRef>,
    /// Whether kernels tell when it ran.
    by_kernels: bool,
}

/// A region that was entered.
#[derive(Clone, Copy)]
enum Open {
    Operation {
        id: u64,
        start: u64,
        by_kernels: bool,
    },
    Work {
        parent: u64,
        start: u64,
    },
    Other,
}

/// The work of GPUs, process by process: threads and communicators come before the rows of streams.
pub(crate) struct GpuWork<'a> {
    trace: &'a Trace,
    operations_by_region: BTreeMap<RegionRef, Shows>,
    work_by_region: BTreeMap<RegionRef, bool>,
    id: Option<AttributeRef>,
    parent: Option<AttributeRef>,
    external: Option<AttributeRef>,
    timing: Option<AttributeRef>,
    /// By event id.
    operations: BTreeMap<u64, Operation>,
    /// External ids of launches.
    launches: BTreeSet<u64>,
    open: Vec<Open>,
    kernels: u64,
    copies: u64,
    without_launch: u64,
}

impl<'a> GpuWork<'a> {
    /// Nothing seen yet.
    pub(crate) fn of(trace: &'a Trace) -> Self {
        Self {
            trace,
            operations_by_region: regions(trace),
            work_by_region: gpu_regions(trace),
            id: trace.attribute("nccl.event"),
            parent: trace.attribute("nccl.parent"),
            external: trace.attribute("nccl.external_correlation"),
            timing: trace.attribute("nccl.timing"),
            operations: BTreeMap::new(),
            launches: BTreeSet::new(),
            open: Vec::new(),
            kernels: 0,
            copies: 0,
            without_launch: 0,
        }
    }

    /// The locations of the next process follow.
    pub(crate) fn next_process(&mut self) {
        self.operations.clear();
        self.launches.clear();
    }

    /// The events of the next location follow.
    pub(crate) fn next_location(&mut self) {
        self.open.clear();
    }

    /// Takes in an event.
    pub(crate) fn event(&mut self, location: LocationRef, event: &Event, findings: &mut Findings) {
        // An archive without GPU work has nothing to be remembered.
        if self.work_by_region.is_empty() {
            return;
        }
        match event.kind {
            EventKind::Enter(region) => {
                let opened = self.entered(region, event);
                self.open.push(opened);
            }
            EventKind::Leave(_) => match self.open.pop() {
                Some(Open::Operation {
                    id,
                    start,
                    by_kernels,
                }) => {
                    let operation = Operation {
                        start,
                        end: event.time,
                        gpu: self.gpu(location),
                        by_kernels,
                    };
                    self.operations.insert(id, operation);
                }
                Some(Open::Work { parent, start }) => {
                    self.work(location, parent, (start, event.time), findings);
                }
                _ => {}
            },
            _ => {}
        }
    }

    fn number(event: &Event, wanted: Option<AttributeRef>) -> u64 {
        let mut attributes = event.attributes.iter();
        match attributes.find(|(attribute, _)| Some(*attribute) == wanted) {
            Some((_, AttributeValue::U64(number))) => *number,
            _ => 0,
        }
    }

    fn entered(&mut self, region: RegionRef, event: &Event) -> Open {
        let external = Self::number(event, self.external);
        if let Some(is_copy) = self.work_by_region.get(&region) {
            let drawn = if *is_copy {
                &mut self.copies
            } else {
                &mut self.kernels
            };
            *drawn += 1;
            // Of copies nothing is said, for collectives are copied without kernels.
            let is_known = external == 0 || *is_copy || self.launches.contains(&external);
            self.without_launch += u64::from(!is_known);
            return Open::Work {
                parent: Self::number(event, self.parent),
                start: event.time,
            };
        }
        if external != 0 {
            self.launches.insert(external);
        }
        let Some(Shows::Operation(_)) = self.operations_by_region.get(&region) else {
            return Open::Other;
        };
        let mut attributes = event.attributes.iter();
        let timing = attributes.find(|(attribute, _)| Some(*attribute) == self.timing);
        let timing = timing.and_then(|(_, timing)| self.trace.text(*timing));
        match Self::number(event, self.id) {
            0 => Open::Other,
            id => Open::Operation {
                id,
                start: event.time,
                by_kernels: timing == Some("cupti"),
            },
        }
    }

    /// The GPU that a location is of.
    fn gpu(&self, location: LocationRef) -> Option<LocationGroupRef> {
        let definitions = &self.trace.definitions;
        let group = definitions.locations.get(&location)?.group;
        let known = definitions.location_groups.get(&group)?;
        (known.group_type == LocationGroupType::Accelerator).then_some(group)
    }

    fn work(
        &mut self,
        location: LocationRef,
        parent: u64,
        (start, end): (u64, u64),
        findings: &mut Findings,
    ) {
        let Some(operation) = self.operations.get(&parent).copied() else {
            return;
        };
        let place = (location, self.trace.location_name(location));
        if operation.by_kernels && (start < operation.start || end > operation.end) {
            let message = format!(
                "it runs from {start} to {end}, its operation from {} to {}",
                operation.start, operation.end
            );
            findings.add(Rule::KernelTime, Some(place.clone()), Some(start), message);
        }
        if let (Some(gpu), Some(expected)) = (self.gpu(location), operation.gpu)
            && gpu != expected
        {
            let name = |group| {
                let groups = &self.trace.definitions.location_groups;
                let name = groups.get(&group).map(|group| group.name);
                let name = name.and_then(|name| self.trace.definitions.string(name));
                name.unwrap_or("?").to_owned()
            };
            let message = format!(
                "it is on {}, its operation on {}",
                name(gpu),
                name(expected)
            );
            findings.add(Rule::KernelRow, Some(place), Some(start), message);
        }
    }

    /// Compares with what the archive says.
    pub(crate) fn end(&self, findings: &mut Findings) {
        let said = |names: &[&str]| -> u64 {
            let numbers = names.iter();
            numbers.map(|name| said(&self.trace.archive, name)).sum()
        };
        const KERNELS: [&str; 5] = [
            "KERNELS_JOINED",
            "KERNELS_OF_GRAPHS",
            "KERNELS_OF_GRAPHS_UNKNOWN",
            "KERNELS_WITHOUT_LAUNCH",
            "KERNELS_OTHER",
        ];
        for (what, found, said) in [
            ("kernels", self.kernels, said(&KERNELS)),
            ("copies", self.copies, said(&["COPIES_DRAWN"])),
            (
                "kernels whose launch is not there",
                self.without_launch,
                said(&["KERNELS_WITHOUT_LAUNCH"]),
            ),
        ] {
            if found != said {
                let message = format!("{said} {what} were written, {found} are in the archive");
                findings.general(Rule::GpuWork, message);
            }
        }
    }
}

/// A number among the statements on GPUs.
fn said(archive: &Archive, name: &str) -> u64 {
    let value = archive.property(&format!("NCCL::GPU::{name}"));
    value
        .and_then(|value| value.trim().parse().ok())
        .unwrap_or(0)
}

/// Why launches are not timed.
const NOT_TIMED: [&str; 5] = [
    "NO_EVENT_LEFT",
    "REFUSED",
    "ON_CALLBACK_THREAD",
    "UNFINISHED",
    "UNMATCHED",
];

/// Repeats what the archive admits of GPU work.
pub(crate) fn statements(archive: &Archive, findings: &mut Findings) {
    let number = |name: &str| said(archive, name);
    // What was launched into a graph did not run.
    let launches = number("LAUNCHES").saturating_sub(number("CAPTURED"));
    let untimed = launches.saturating_sub(number("LAUNCHES_TIMED"));
    // Of a flight recording the launches are counted from its beginning on, and the times are those that were kept.
    let missing = match archive.property("NCCL::FLIGHT::PROCESSES") {
        Some(_) => untimed.min(NOT_TIMED.iter().map(|name| number(name)).sum()),
        None => untimed,
    };
    if missing > 0 {
        let what = [
            "no prepared event was left for",
            "were refused by the driver or CUPTI:",
            "were on a thread that may not call CUDA:",
            "were not known when recording ended:",
            "had no kernel in time:",
        ];
        let reasons = NOT_TIMED.into_iter().zip(what);
        let reasons = reasons.filter(|(name, _)| number(name) > 0);
        let reasons: Vec<String> = reasons
            .map(|(name, what)| format!("{what} {}", number(name)))
            .collect();
        let because = match reasons.is_empty() {
            true => String::new(),
            false => format!(": {}", reasons.join(", ")),
        };
        let of = plural(launches, "launch", "launches");
        let message = format!("of {missing} of {of} it is not known when their work ran{because}");
        findings.general(Rule::GpuWorkMissing, message);
    }
    for (name, what) in [
        ("DROPPED_BY_CUPTI", "records were dropped by CUPTI"),
        ("BAD_RECORDS", "records of CUPTI could not be read"),
        ("FOREIGN_BUFFERS", "buffers were another user's of CUPTI"),
        ("LATE_BUFFERS", "buffers came when recording was over"),
        ("NO_BUFFER_LEFT", "buffers were missing"),
        ("NO_ROOM", "records of GPU work had no room in the journal"),
    ] {
        if number(name) > 0 {
            findings.general(Rule::GpuWorkMissing, format!("{} {what}", number(name)));
        }
    }
    let not_placed = number("NOT_PLACED") + number("EVENTS_NOT_USED");
    if not_placed > 0 {
        let times = plural(not_placed, "time", "times");
        let message = format!("{times} of GPU work could not be placed");
        findings.general(Rule::GpuWorkClock, message);
    }
    let clocks = archive.property("NCCL::GPU::CLOCKS::LIST");
    for line in clocks.unwrap_or_default().lines() {
        if line.contains(", set ") {
            findings.general(Rule::GpuWorkClock, line);
        }
    }
}
