//! The region instances of an archive that the plan keeps. Memory is that of what is kept.

use std::collections::BTreeMap;
use std::sync::atomic::AtomicU64;

use analysis::{Analysis, Trace, try_in_parallel};
use anyhow::Result;
use nccl_events::Progress;
use otf2::RegionRef;

use super::events::{Event, NONE};
use super::location::{OfLocation, Reading, UNDEFINED};
use super::places::Location;
use super::plan::Plan;
use super::sets::{Set, Sets};

#[derive(Debug, Default)]
pub(super) struct Events {
    pub(super) kept: Vec<Event>,
    pub(super) names: Vec<String>,
    regions: BTreeMap<RegionRef, u32>,
    /// Names that are of ranges of the program.
    pub(super) ranges: Vec<u32>,
    pub(super) sets: Vec<Set>,
    /// How many events there are in equal parts of the time, by their begin.
    pub(super) all: Vec<u64>,
    /// Times of which all events are kept.
    pub(super) complete: Vec<(u64, u64)>,
    /// Of each location that several ranks may have used, the rank of the job that did it most.
    pub(super) ranks: Vec<Option<u32>>,
}

impl Events {
    pub(super) fn read(
        trace: &Trace,
        analysis: &Analysis,
        plan: &Plan,
        locations: &[Location],
        progress: &dyn Progress,
    ) -> Result<Self> {
        let reading = Reading::of(trace, analysis, plan, locations);
        progress.begin("timeline", locations.len() as u64);
        let read = try_in_parallel(0..locations.len(), |at| {
            let made = reading.location(at);
            progress.step();
            made
        });
        let parts: Vec<OfLocation> = read?;
        progress.end();
        let fitting = reading.room.add(&mut vec![0; plan.windows.len()]);
        let complete = match plan.is_whole() {
            true => vec![plan.span],
            false => {
                let windows = plan.windows.iter().filter(|it| it.place < fitting);
                windows.map(|it| (it.begin_ns, it.end_ns)).collect()
            }
        };
        let mut found = Self { complete, ..Self::default() };
        let mut sets = Sets::default();
        for part in parts {
            let mut numbers = vec![NONE; part.sets.len()];
            for (key, own) in &part.sets {
                if let Some(number) = usize::try_from(*own).ok().and_then(|own| numbers.get_mut(own)) {
                    *number = sets.number(reading.set(key));
                }
            }
            let set = |event: &Event| numbers.get(usize::try_from(event.attributes).ok()?).copied();
            let kept = part.kept.iter().filter(|it| it.stays(fitting));
            found.kept.extend(kept.map(|it| Event { attributes: set(&it.event).unwrap_or(NONE), ..it.event }));
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
    pub(super) fn number_of(&self, region: RegionRef) -> u32 {
        self.regions.get(&region).copied().unwrap_or(UNDEFINED)
    }
}
