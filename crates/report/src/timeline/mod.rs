//! The timeline of the page: shares of time of all ranks, and those events that fit into it.
//!
//! ```text
//!  archive ─► places   rows and locations
//!          ├► events   region instances, with the analysis's waiting times
//!          │    ├► overview   shares of time of each rank
//!          │    └► chunks     events in chunks of time, the most important in the page
//! ```

mod chunks;
mod events;
mod overview;
mod places;

use analysis::{Analysis, Trace};
use anyhow::Result;
use nccl_events::Progress;
use nccl_events::index::index as large;
use serde::Serialize;

pub(super) use chunks::{At, Chunks};

use events::{Event, Events};
use overview::{Bins, Overview};
use places::{Location, Part, Places, Row};

/// The contents of the timeline except events; `page/model.d.ts` describes them for the page.
#[derive(Debug, Serialize)]
pub(super) struct Timeline {
    duration_ns: u64,
    hosts: Vec<String>,
    rows: Vec<Row>,
    locations: Vec<Location>,
    names: Vec<String>,
    /// Which of `names` are of ranges of the program.
    ranges: Vec<u32>,
    functions: Vec<u32>,
    attributes: serde_json::Value,
    overview: Bins,
    chunks: serde_json::Value,
    folder: Option<String>,
}

/// A timeline whose chunks have not been placed yet.
#[derive(Debug)]
pub(super) struct Made {
    timeline: Timeline,
    pub(super) cells: Vec<u8>,
    pub(super) chunks: Chunks,
}

impl Made {
    pub(super) fn of(trace: &Trace, analysis: &Analysis, progress: &dyn Progress) -> Result<Self> {
        let names: Vec<String> = analysis.report.ranks.iter().map(|rank| rank.name.clone()).collect();
        let mut places = Places::of(trace, &analysis.tables, &names);
        let mut events = Events::read(trace, analysis, &places.locations, progress)?;
        remove_unused(&mut places.locations, &mut events.all);
        let last = events.all.iter().map(|event| event.end_ns).max().unwrap_or(0);
        let duration_ns = analysis.report.run.duration_ns.max(last);
        let overview = Overview::of(&events.all, &places.locations, places.rows.len(), duration_ns);
        let timeline = Timeline {
            duration_ns,
            hosts: places.hosts,
            rows: places.rows,
            locations: places.locations,
            names: events.names,
            ranges: events.ranges,
            functions: overview.functions,
            attributes: serde_json::to_value(&events.sets)?,
            overview: overview.bins,
            chunks: serde_json::Value::Null,
            folder: None,
        };
        Ok(Self { timeline, cells: overview.cells, chunks: Chunks::of(events.all) })
    }

    /// Returns the timeline, once its chunks are placed.
    pub(super) fn finish(self, folder: Option<String>) -> Result<Timeline> {
        Ok(Timeline { chunks: serde_json::to_value(&self.chunks.all)?, folder, ..self.timeline })
    }
}

/// Removes the rows of levels at which no range was.
fn remove_unused(locations: &mut Vec<Location>, events: &mut [Event]) {
    let mut is_kept: Vec<bool> = locations.iter().map(|location| location.part == Part::Whole).collect();
    events.iter().for_each(|event| is_kept[large(event.location)] = true);
    let mut kept = 0;
    let numbers = is_kept.iter().map(|is_kept| {
        let number = kept;
        kept += u32::from(*is_kept);
        number
    });
    let numbers: Vec<u32> = numbers.collect();
    let mut is_kept = is_kept.into_iter();
    locations.retain(|_| is_kept.next() == Some(true));
    events.iter_mut().for_each(|event| event.location = numbers[large(event.location)]);
}
