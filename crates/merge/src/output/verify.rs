//! Reads the whole merged archive before it is moved into place.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::path::Path;

use anyhow::{Context as _, Result, bail};
use nccl_events::Progress;
use otf2::verbatim::Definition;
use otf2::{Archive, Definitions, Event, EventKind, LocationRef, RegionRef};

use crate::definitions::ids::is_ours;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Written {
    pub locations: u64,
    pub events: u64,
    /// For Scalasca, what is not in the archive and why.
    pub left_out: Vec<String>,
}

/// Number of locations read at once; each takes two chunks of memory.
const AT_ONCE: usize = 64;

/// Compares the definitions with those that were written, checks each location's number and order of events, and the
/// nesting on locations with NCCL events: NCCL's own and the rewritten ones.
pub(super) fn verify(
    anchor: &Path,
    written: &[Definition],
    rewritten: &BTreeMap<LocationRef, u64>,
    progress: &dyn Progress,
) -> Result<Written> {
    let archive = Archive::open(anchor).context("the merged archive cannot be read")?;
    let verbatim = archive.verbatim_definitions()?;
    if let Some((read, written)) = verbatim.iter().zip(written).find(|(read, written)| read != written) {
        bail!("a definition was read differently than it was written: {read:?}, not {written:?}");
    }
    if verbatim.len() != written.len() {
        bail!("{} definitions were written, {} were read", written.len(), verbatim.len());
    }
    drop(verbatim);
    let definitions = archive.definitions()?;
    archive.check_definitions(&definitions)?;
    let locations: Vec<LocationRef> = definitions.locations.keys().copied().collect();
    progress.begin("read back", locations.len() as u64);
    let mut read = Written { locations: locations.len() as u64, ..Written::default() };
    for some in locations.chunks(AT_ONCE) {
        let has_ours = |location: LocationRef| is_ours(location) || rewritten.contains_key(&location);
        read.events += some_locations(&archive, &definitions, some, &has_ours)?;
        some.iter().for_each(|_| progress.step());
    }
    progress.end();
    Ok(read)
}

fn some_locations(
    archive: &Archive,
    definitions: &Definitions,
    locations: &[LocationRef],
    has_ours: &impl Fn(LocationRef) -> bool,
) -> Result<u64> {
    let mut states: BTreeMap<LocationRef, LocationState> = BTreeMap::new();
    let span = definitions
        .clock
        .map_or((0, u64::MAX), |clock| (clock.global_offset, clock.global_offset.saturating_add(clock.trace_length)));
    let (mut wrong, mut before) = (None, 0);
    let events = archive
        .for_each_event(locations, |location, event| {
            let state = states.entry(location).or_default();
            let found = state
                .event(event, has_ours(location), definitions)
                .or_else(|| outside(event, before, is_ours(location), span));
            before = event.time;
            match found {
                None => ControlFlow::Continue(()),
                Some(reason) => {
                    wrong = Some(format!("location {} at {}: {reason}", location.get(), event.time));
                    ControlFlow::Break(())
                }
            }
        })
        .context("the merged archive cannot be read")?;
    if let Some(wrong) = wrong {
        bail!("{wrong}");
    }
    for location in locations {
        let state = states.remove(location).unwrap_or_default();
        let promised = definitions.locations[location].number_of_events;
        if state.events != promised {
            bail!("location {} has {} events, not {promised}", location.get(), state.events);
        }
        if has_ours(*location) && !state.open.is_empty() {
            bail!("location {}: a region is not left", location.get());
        }
    }
    Ok(events)
}

fn outside(event: &Event, before: u64, is_ours: bool, span: (u64, u64)) -> Option<String> {
    if event.time < before {
        return Some(format!("comes after an event at {before}"));
    }
    // Score-P's events are unchanged, so they are not checked.
    (is_ours && !(span.0..=span.1).contains(&event.time))
        .then(|| format!("is not within the trace, {} to {}", span.0, span.1))
}

#[derive(Debug, Default)]
struct LocationState {
    events: u64,
    open: Vec<RegionRef>,
}

impl LocationState {
    fn event(&mut self, event: &Event, has_ours: bool, definitions: &Definitions) -> Option<String> {
        self.events += 1;
        if !has_ours {
            return None;
        }
        for (attribute, _) in &event.attributes {
            if !definitions.attributes.contains_key(attribute) {
                return Some(format!("{attribute:?} is not defined"));
            }
        }
        match &event.kind {
            EventKind::Enter(region) => {
                self.open.push(*region);
                (!definitions.regions.contains_key(region)).then(|| format!("{region:?} is not defined"))
            }
            EventKind::Leave(region) => {
                let left = self.open.pop();
                (left != Some(*region)).then(|| format!("{region:?} is left, {left:?} was entered"))
            }
            _ => None,
        }
    }
}
