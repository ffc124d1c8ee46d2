//! The contents of the timeline.
//!
//! ```text
//!  plan         ranks and the locations in them; times of which all events are kept, and operations of all other times
//!  location     the events of a location that the plan keeps
//!   └► Events   of all locations
//!    └► chunks  events in chunks of time, the most important in the page
//!  Overview     the share of the time that each rank spends in transfer and in waiting
//! ```

use std::collections::BTreeMap;
use std::mem;
use std::sync::atomic::AtomicU64;

use crate::timeline::chunks::{AttributeSets, Event, NONE, Set};
use crate::timeline::location::{LocationEvents, TimelineReader, UNDEFINED};
use crate::timeline::plan::{Location, LocationPart, Places, Plan, Row};
use analysis::read::NONE as NO_ROW;
use analysis::{Analysis, Filter, Trace, try_in_parallel};
use anyhow::{Context as _, Result};
use nccl_events::Progress;
use nccl_events::ids::{index as large, index_u32 as small};
use otf2::RegionRef;
use schemars::JsonSchema;
use serde::Serialize;

pub(crate) mod chunks;
mod location;
mod plan;

pub(crate) use crate::timeline::chunks::{At, Chunks};

/// The timeline's data, except the cells of the overview and the events of chunks, which have their own data elements.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Timeline {
    begin_ns: u64,
    /// Length of the timeline, in ns.
    duration_ns: u64,
    hosts: Vec<String>,
    rows: Vec<Row>,
    locations: Vec<Location>,
    names: Vec<String>,
    /// Indices of `names` that name ranges of the program.
    ranges: Vec<u32>,
    /// Indices of `names` that name functions. The overview refers to them.
    functions: Vec<u32>,
    /// Sets of attributes. Events refer to a set by its index.
    attributes: Vec<Set>,
    overview: Bins,
    #[schemars(with = "Vec<chunks::Chunk>")]
    chunks: serde_json::Value,
    /// Times of which chunks have all events, sorted and disjoint. Of other times, chunks have the longest events.
    complete: Vec<(u64, u64)>,
    /// How many events there are in equal parts of the time, by their begin.
    all: Vec<u64>,
    /// The folder of the chunks beside the page, if there is one.
    folder: Option<String>,
}

/// A timeline whose chunks have not been placed yet.
#[derive(Debug)]
pub(crate) struct UncutTimeline {
    timeline: Timeline,
    pub(crate) cells: Vec<u8>,
    kept: Vec<Event>,
    /// Empty until [`UncutTimeline::cut`].
    pub(crate) chunks: Chunks,
    /// How many events there are, those that were not kept included.
    pub(crate) events: u64,
}

impl UncutTimeline {
    /// Reads the events that `filter` wants, and keeps about `most` of them.
    pub(crate) fn read(
        trace: &Trace,
        analysis: &Analysis,
        filter: &Filter,
        most: u64,
        progress: &dyn Progress,
    ) -> Result<Self> {
        let Analysis { tables, report, .. } = analysis;
        let names: Vec<String> = report.ranks.iter().map(|rank| rank.name.clone()).collect();
        let mut places =
            Places::new(trace, tables, &names).context("the archive is damaged, `nccl-otf2 check` says more")?;
        let wants = |row: usize| filter.wants_job_rank(&tables.members, row);
        places.keep(wants);
        let last_ns = tables.operations.stop_ns.iter().copied().max().unwrap_or(0).max(report.run.duration_ns);
        let begin_ns = filter.from_ns.unwrap_or(0);
        let span = (begin_ns, filter.to_ns.unwrap_or(last_ns).min(last_ns.max(1)).max(begin_ns));
        let location_events: Vec<u64> = places.locations.iter().map(|location| location.events).collect();
        let plan = Plan::new(analysis, span, filter.to_ns, most, &location_events);
        let mut events = Events::read(trace, analysis, &plan, &places.locations, progress)?;
        let is_kept = places.move_threads(&events.ranks, wants);
        events.remove_locations(is_kept, &mut places.locations);
        let rows = places.keep_rows(wants);
        let last_ns = events.kept.iter().map(|event| event.end_ns).max().unwrap_or(0);
        let duration_ns = filter.to_ns.map_or(span.1.max(last_ns), |_| span.1);
        let overview = Overview::new(analysis, filter, &rows, |region| events.number_of(region), (span.0, duration_ns));
        let complete = if plan.is_whole() { vec![(begin_ns, duration_ns)] } else { events.complete };
        let sum = events.all.iter().sum();
        let timeline = Timeline {
            begin_ns,
            duration_ns,
            hosts: places.hosts,
            rows: places.rows,
            locations: places.locations,
            names: events.names,
            ranges: events.ranges,
            functions: overview.functions,
            attributes: events.sets,
            overview: overview.bins,
            chunks: serde_json::Value::Null,
            complete,
            all: events.all,
            folder: None,
        };
        Ok(Self { timeline, cells: overview.cells, kept: events.kept, chunks: Chunks::default(), events: sum })
    }

    /// Cuts the events into chunks. This step does not need the analysis, which the caller drops first to free memory.
    pub(crate) fn cut(&mut self) {
        self.chunks = Chunks::new(mem::take(&mut self.kept), &self.timeline.complete);
    }

    /// Returns the timeline after its chunks have been put into the page or into files.
    pub(crate) fn finish(self, folder: Option<String>) -> Result<Timeline> {
        Ok(Timeline { chunks: serde_json::to_value(&self.chunks.all)?, folder, ..self.timeline })
    }
}

impl Places {
    /// Moves threads to the rows of the ranks that used them. Returns for each location whether its row is wanted.
    fn move_threads(&mut self, ranks: &[Option<u32>], wants: impl Fn(usize) -> bool) -> Vec<bool> {
        let mut moved = None;
        let locations = self.locations.iter_mut().zip(ranks);
        let is_wanted = locations.map(|(location, rank)| {
            moved = if location.part == LocationPart::Whole { *rank } else { moved };
            if let Some(rank) = moved.filter(|_| location.is_shared) {
                location.row = large(rank);
            }
            wants(location.row)
        });
        is_wanted.collect()
    }

    /// Removes unwanted rows. Returns the new index of each row; `None` for removed rows.
    fn keep_rows(&mut self, wants: impl Fn(usize) -> bool) -> Vec<Option<usize>> {
        let mut kept = 0;
        let numbers = (0..self.rows.len()).map(|row| {
            let number = wants(row).then_some(kept);
            kept += usize::from(number.is_some());
            number
        });
        let numbers: Vec<Option<usize>> = numbers.collect();
        let mut each = numbers.iter();
        self.rows.retain(|_| each.next().is_some_and(Option::is_some));
        for location in &mut self.locations {
            location.row = numbers.get(location.row).copied().flatten().unwrap_or(0);
        }
        numbers
    }
}

impl Events {
    /// Removes unwanted locations and their events, and the levels of threads that contain no range.
    fn remove_locations(&mut self, is_wanted: Vec<bool>, locations: &mut Vec<Location>) {
        let mut is_used: Vec<bool> = locations.iter().map(|location| location.part == LocationPart::Whole).collect();
        self.kept.iter().for_each(|event| is_used[large(event.location)] = true);
        let is_kept: Vec<bool> = is_used.into_iter().zip(is_wanted).map(|(used, wanted)| used && wanted).collect();
        let mut kept = 0;
        let numbers = is_kept.iter().map(|is_kept| {
            let number = is_kept.then_some(kept);
            kept += usize::from(*is_kept);
            number
        });
        let numbers: Vec<Option<usize>> = numbers.collect();
        let mut each = numbers.iter();
        locations.retain(|_| each.next().is_some_and(Option::is_some));
        self.kept.retain_mut(|event: &mut Event| {
            let number = numbers.get(large(event.location)).copied().flatten();
            event.location = number.map_or(event.location, small);
            number.is_some()
        });
    }
}

/// Maximum bins per rank, and cells of all ranks: about a megabyte when deflated.
const MOST_BINS: u64 = 16_384;
const MOST_CELLS: u64 = 2_000_000;

#[derive(Clone, Copy, Debug, Serialize, JsonSchema)]
pub(crate) struct Bins {
    bin_ns: f64,
    bins: usize,
}

/// The share of time that each rank spends in transfer and in waiting. The page draws it where a view has too many
/// events, or where some were left out.
#[derive(Debug)]
pub(crate) struct Overview {
    pub(crate) bins: Bins,
    /// Names of regions that the third plane of `cells` refers to.
    pub(crate) functions: Vec<u32>,
    /// Three planes of rows of bins: share of time in transfer and in waiting (0 to 255), and the function.
    pub(crate) cells: Vec<u8>,
}

impl Overview {
    /// `rows`: the row of each rank of the job. `name`: the number of a region's name.
    pub(crate) fn new(
        analysis: &Analysis,
        filter: &Filter,
        rows: &[Option<usize>],
        name: impl Fn(RegionRef) -> u32,
        span: (u64, u64),
    ) -> Self {
        let Analysis { tables, instances, .. } = analysis;
        let mut shares = Shares::new(rows.iter().flatten().count(), span);
        let mut functions: Vec<u32> = Vec::new();
        let mut last: Option<(RegionRef, usize)> = None;
        for (number, operation) in
            (0..).zip(tables.operations.rows()).filter(|(_, operation)| operation.member != NO_ROW)
        {
            let row = rows.get(large(tables.job_rank(number))).copied().flatten();
            let Some(row) = row.filter(|_| filter.wants_time(operation.start_ns, operation.stop_ns)) else {
                continue;
            };
            let function = match last {
                Some((region, function)) if region == operation.function => function,
                _ => {
                    let name = name(operation.function);
                    functions.iter().position(|known| *known == name).unwrap_or_else(|| {
                        functions.push(name);
                        functions.len() - 1
                    })
                }
            };
            last = Some((operation.function, function));
            let instance = instances.instance_of_operation(number).and_then(|at| instances.all.get(large(at)));
            // It is unknown whether unfinished operations waited or transferred; they do not count as transfer.
            let waiting_ns = if operation.is_unfinished {
                operation.duration_ns()
            } else {
                instance.and_then(|instance| instance.waiting_ns(tables, number)).unwrap_or(0)
            };
            let arrived = (operation.start_ns + waiting_ns).min(operation.stop_ns);
            shares.add(row, true, (operation.start_ns, arrived), 0);
            // Below 255: a timeline has a few dozen functions.
            shares.add(row, false, (arrived, operation.stop_ns), u8::try_from(function).unwrap_or(u8::MAX));
        }
        Self { bins: Bins { bin_ns: shares.bin_ns, bins: shares.bins }, functions, cells: shares.bytes() }
    }
}

struct Shares {
    begin_ns: u64,
    bin_ns: f64,
    bins: usize,
    plane: usize,
    cells: Vec<f32>,
    most: Vec<(f32, u8)>,
}

impl Shares {
    fn new(rows: usize, (begin_ns, end_ns): (u64, u64)) -> Self {
        let duration_ns = end_ns.saturating_sub(begin_ns).max(1);
        let most = MOST_CELLS / (rows.max(1) as u64);
        let bins = usize::try_from(most.clamp(256, MOST_BINS).min(duration_ns)).unwrap_or(256);
        #[expect(clippy::cast_precision_loss, reason = "2^53 ns are a hundred days")]
        let bin_ns = duration_ns as f64 / bins as f64;
        let plane = rows * bins;
        Self { begin_ns, bin_ns, bins, plane, cells: vec![0.0; 2 * plane], most: vec![(0.0, 0); plane] }
    }

    #[expect(clippy::cast_precision_loss, reason = "2^53 ns are a hundred days")]
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "bins are few, and none is negative")]
    fn add(&mut self, row: usize, is_waiting: bool, (begin_ns, end_ns): (u64, u64), function: u8) {
        let [begin, end] = [begin_ns, end_ns].map(|ns| ns.saturating_sub(self.begin_ns) as f64 / self.bin_ns);
        let last = (end as usize).min(self.bins - 1);
        for bin in (begin as usize).min(last)..=last {
            let part = (end.min(bin as f64 + 1.0) - begin.max(bin as f64)).max(0.0) as f32;
            let cell = row * self.bins + bin;
            self.cells[cell + if is_waiting { self.plane } else { 0 }] += part;
            if !is_waiting && self.most[cell].0 < part {
                self.most[cell] = (part, function);
            }
        }
    }

    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "shares are cut to 0 … 255")]
    fn bytes(&self) -> Vec<u8> {
        let shares = self.cells.iter().map(|share| (share.min(1.0) * 255.0).round() as u8);
        shares.chain(self.most.iter().map(|(_, function)| *function)).collect()
    }
}

/// The region instances of an archive that the plan keeps. Only these are in memory.
#[derive(Debug, Default)]
pub(crate) struct Events {
    pub(crate) kept: Vec<Event>,
    pub(crate) names: Vec<String>,
    regions: BTreeMap<RegionRef, u32>,
    /// Indices of `names` that name ranges of the program.
    pub(crate) ranges: Vec<u32>,
    pub(crate) sets: Vec<Set>,
    /// How many events there are in equal parts of the time, by their begin.
    pub(crate) all: Vec<u64>,
    /// Times of which all events are kept.
    pub(crate) complete: Vec<(u64, u64)>,
    /// For each location, the rank of the job that used it most, if several may have used it.
    pub(crate) ranks: Vec<Option<u32>>,
}

impl Events {
    pub(crate) fn read(
        trace: &Trace,
        analysis: &Analysis,
        plan: &Plan,
        locations: &[Location],
        progress: &dyn Progress,
    ) -> Result<Self> {
        let reading = TimelineReader::new(trace, analysis, plan, locations);
        progress.begin("timeline", locations.len() as u64);
        let read = try_in_parallel(0..locations.len(), |at| {
            let made = reading.location(at);
            progress.step();
            made
        });
        let parts: Vec<LocationEvents> = read?;
        progress.end();
        let fitting = reading.room.add(&mut vec![0; plan.windows.len()]);
        let complete = if plan.is_whole() {
            vec![plan.span]
        } else {
            let windows = plan.windows.iter().filter(|window| window.place < fitting);
            windows.map(|window| (window.begin_ns, window.end_ns)).collect()
        };
        let mut found = Self { complete, ..Self::default() };
        let mut sets = AttributeSets::default();
        for part in parts {
            let mut numbers = vec![NONE; part.sets.len()];
            for (key, own) in &part.sets {
                if let Some(number) = usize::try_from(*own).ok().and_then(|own| numbers.get_mut(own)) {
                    *number = sets.number(reading.set(key));
                }
            }
            let set = |event: &Event| numbers.get(usize::try_from(event.attributes).ok()?).copied();
            let kept = part.kept.iter().filter(|kept| kept.stays(fitting));
            found.kept.extend(kept.map(|kept| Event { attributes: set(&kept.event).unwrap_or(NONE), ..kept.event }));
            found.ranks.push(part.rank);
        }
        found.sets = sets.all;
        found.all = reading.all.into_iter().map(AtomicU64::into_inner).collect();
        found.ranges = reading.ranges.into_iter().collect();
        (found.names, found.regions) = (reading.names, reading.regions);
        if found.kept.iter().any(|event| event.name == UNDEFINED) {
            let name = u32::try_from(found.names.len())?;
            found.names.push("undefined region".to_owned());
            found.kept.iter_mut().filter(|event| event.name == UNDEFINED).for_each(|event| event.name = name);
        }
        Ok(found)
    }

    /// The number of a region's name.
    pub(crate) fn number_of(&self, region: RegionRef) -> u32 {
        self.regions.get(&region).copied().unwrap_or(UNDEFINED)
    }
}
