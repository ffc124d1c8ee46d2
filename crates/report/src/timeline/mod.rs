//! The contents of the timeline.
//!
//! ```text
//!  places       ranks and the locations in them
//!  plan         times of which all events are kept, and operations of all other times
//!  location     the events of a location that the plan keeps (sets, votes)
//!   └► kept     of all locations
//!    └► chunks  events in chunks of time, the most important in the page
//!  overview     shares of the time of each rank, of the analysis
//! ```

mod chunks;
mod events;
mod kept;
mod location;
mod overview;
mod places;
mod plan;
mod room;
mod sets;
mod votes;

use std::mem;

use analysis::{Analysis, Filter, Trace};
use anyhow::Result;
use nccl_events::Progress;
use nccl_events::ids::{index as large, index_u32 as small};
use schemars::JsonSchema;
use serde::Serialize;

pub(super) use chunks::{At, Chunks};

use events::Event;
use kept::Events;
use overview::{Bins, Overview};
use places::{Location, Part, Places, Row};
use plan::Plan;
use sets::Set;

/// What the timeline shows. The cells of the overview and the events of chunks are in data elements of their own.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct Timeline {
    begin_ns: u64,
    /// The end.
    duration_ns: u64,
    hosts: Vec<String>,
    rows: Vec<Row>,
    locations: Vec<Location>,
    names: Vec<String>,
    /// Which of `names` are of ranges of the program.
    ranges: Vec<u32>,
    /// Which of `names` are of functions; the overview refers to them.
    functions: Vec<u32>,
    /// Attributes that many events have alike.
    attributes: Vec<Set>,
    overview: Bins,
    #[schemars(with = "Vec<chunks::Chunk>")]
    chunks: serde_json::Value,
    /// Times of which all events are in chunks, sorted and disjoint; of other times the longest are.
    complete: Vec<(u64, u64)>,
    /// How many events there are in equal parts of the time, by their begin.
    all: Vec<u64>,
    /// The folder of the chunks beside the page, if there is one.
    folder: Option<String>,
}

/// A timeline whose chunks have not been placed yet.
#[derive(Debug)]
pub(super) struct Made {
    timeline: Timeline,
    pub(super) cells: Vec<u8>,
    kept: Vec<Event>,
    /// Empty until [`Made::cut`].
    pub(super) chunks: Chunks,
    /// How many events there are, those that were not kept included.
    pub(super) events: u64,
}

impl Made {
    /// Reads the events that `filter` wants, and keeps about `most` of them.
    pub(super) fn of(
        trace: &Trace,
        analysis: &Analysis,
        filter: &Filter,
        most: u64,
        progress: &dyn Progress,
    ) -> Result<Self> {
        let Analysis { tables, report, .. } = analysis;
        let names: Vec<String> = report.ranks.iter().map(|rank| rank.name.clone()).collect();
        let mut places = Places::of(trace, tables, &names);
        let wants = |row: usize| filter.wants_job_rank(&tables.members, row);
        places.locations.retain(|location| location.is_shared || wants(location.row));
        let last_ns = tables.operations.stop_ns.iter().copied().max().unwrap_or(0).max(report.run.duration_ns);
        let begin_ns = filter.from_ns.unwrap_or(0);
        let span = (begin_ns, filter.to_ns.unwrap_or(last_ns).min(last_ns.max(1)).max(begin_ns));
        let of_locations: Vec<u64> = places.locations.iter().map(|location| location.events).collect();
        let plan = Plan::of(analysis, span, filter.to_ns, most, &of_locations);
        let mut events = Events::read(trace, analysis, &plan, &places.locations, progress)?;
        let is_kept = places.move_threads(&events.ranks, wants);
        events.remove_locations(is_kept, &mut places.locations);
        let rows = places.keep_rows(wants);
        let last_ns = events.kept.iter().map(|event| event.end_ns).max().unwrap_or(0);
        let duration_ns = filter.to_ns.map_or(span.1.max(last_ns), |_| span.1);
        let overview = Overview::of(analysis, filter, &rows, |region| events.number_of(region), (span.0, duration_ns));
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

    /// Cuts the events into chunks, for which the analysis is no longer needed.
    pub(super) fn cut(&mut self) {
        self.chunks = Chunks::of(mem::take(&mut self.kept), &self.timeline.complete);
    }

    /// Returns the timeline, once its chunks are placed.
    pub(super) fn finish(self, folder: Option<String>) -> Result<Timeline> {
        Ok(Timeline { chunks: serde_json::to_value(&self.chunks.all)?, folder, ..self.timeline })
    }
}

impl Places {
    /// Moves threads to the ranks that used them. Returns which locations belong to a row that is wanted.
    fn move_threads(&mut self, ranks: &[Option<u32>], wants: impl Fn(usize) -> bool) -> Vec<bool> {
        let mut moved = None;
        let locations = self.locations.iter_mut().zip(ranks);
        let is_wanted = locations.map(|(location, rank)| {
            moved = if location.part == Part::Whole { *rank } else { moved };
            if let Some(rank) = moved.filter(|_| location.is_shared) {
                location.row = large(rank);
            }
            wants(location.row)
        });
        is_wanted.collect()
    }

    /// Removes the rows that are not wanted. Returns the new number of each rank of the job.
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
    /// Removes the locations that are not wanted, and the rows of levels at which no range was.
    fn remove_locations(&mut self, is_wanted: Vec<bool>, locations: &mut Vec<Location>) {
        let mut is_used: Vec<bool> = locations.iter().map(|location| location.part == Part::Whole).collect();
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
