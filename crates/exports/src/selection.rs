//! The selected locations of an archive, and the selected events on them.

use std::collections::BTreeSet;
use std::ops::ControlFlow;

use analysis::{Clock, RegionInfo, Role, Slice, Slices};
use nccl_events::archive::{LocationKind, RegionClass};
use nccl_events::collective::Function;
use otf2::{Event, EventKind, LocationRef, RegionRef};

use crate::error::Result;
use crate::outcome::Outcome;
use crate::source::Source;

pub struct Selection<'a> {
    source: Source<'a>,
    clock: Clock,
    locations: Vec<LocationRef>,
    /// Event ids that belong to the wanted functions, ascending; `None` if all are wanted.
    ids: Option<Vec<u64>>,
}

/// Records that a format of NCCL's region instances has no place for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Beside {
    /// Regions and other records, such as messages, on locations that NCCL's writer did not make.
    foreign_regions: u64,
    foreign_others: u64,
    /// On all locations.
    metrics: u64,
}

struct Open {
    is_wanted: bool,
    /// Its ENTER, held while it is unknown whether the region reaches into the selected time.
    held: Option<Event>,
}

impl Beside {
    /// Says what a format without metrics left out; `has_regions` if it takes regions of any writer.
    pub(crate) fn left_out(self, has_regions: bool, outcome: &mut Outcome) {
        if !has_regions {
            let reason = "regions on locations that are not NCCL's: the format takes what NCCL did";
            outcome.leave_out(self.foreign_regions, reason);
        }
        outcome.leave_out(self.metrics, "records of metrics: the format has no place for them");
        outcome.leave_out(self.foreign_others, FOREIGN_OTHERS);
    }
}

pub(crate) const FOREIGN_OTHERS: &str = "other records on locations that are not NCCL's (messages, collectives, threads, files): the format has no place for \
     them";

impl<'a> Selection<'a> {
    /// Determines the selection. A filter on functions makes this read the operations and the network transfers.
    pub fn of(source: Source<'a>) -> Result<Self> {
        let locations = source.locations();
        let mut found = Self { source, clock: Clock::of(source.trace), locations, ids: None };
        if !source.filter.functions.is_empty() {
            found.ids = Some(found.ids_of_functions()?);
        }
        Ok(found)
    }

    pub fn locations(&self) -> &[LocationRef] {
        &self.locations
    }

    pub fn of_kinds(&self, kinds: &[LocationKind]) -> Vec<LocationRef> {
        let is_one = |it: &LocationRef| self.source.trace.location_kind(*it).is_some_and(|kind| kinds.contains(&kind));
        self.locations.iter().copied().filter(is_one).collect()
    }

    /// Passes the wanted events of a location in order, with the time in ns from the start of the trace. Every ENTER
    /// has its LEAVE; regions that reach into the selected time are complete.
    pub fn events(&self, location: LocationRef, mut each: impl FnMut(u64, &Event)) -> Result<()> {
        let filter = self.source.filter;
        let mut open: Vec<Open> = Vec::new();
        let mut has_begun = false;
        self.source.trace.archive.for_each_event(&[location], |_, event| {
            let time_ns = self.clock.ns(event.time);
            let is_before = filter.from_ns.is_some_and(|from_ns| time_ns < from_ns);
            let is_after = filter.to_ns.is_some_and(|to_ns| time_ns > to_ns);
            if !is_before && !has_begun {
                has_begun = true;
                for event in open.iter_mut().filter_map(|it| it.held.take()) {
                    each(self.clock.ns(event.time), &event);
                }
            }
            match event.kind {
                EventKind::Enter(region) => {
                    let around = open.last().is_none_or(|around| around.is_wanted);
                    let is_wanted = !is_after && self.wants(region, event, around);
                    let is_held = is_wanted && is_before;
                    if is_wanted && !is_held {
                        each(time_ns, event);
                    }
                    open.push(Open { is_wanted, held: is_held.then(|| event.clone()) });
                }
                EventKind::Leave(_) => {
                    if open.pop().is_some_and(|it| it.is_wanted && it.held.is_none()) {
                        each(time_ns, event);
                    }
                }
                _ if is_before || is_after || self.ids.is_some() => {}
                _ => each(time_ns, event),
            }
            let is_over = is_after && !open.iter().any(|it| it.is_wanted);
            if is_over { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        })?;
        Ok(())
    }

    /// Counts what is beside NCCL's region instances. Reads locations of other writers and, if there are metrics, all.
    pub(crate) fn beside(&self) -> Result<Beside> {
        let trace = self.source.trace;
        let is_foreign = |location: &LocationRef| trace.location_kind(*location).is_none();
        let has_metrics = !trace.definitions.metric_classes.is_empty();
        let locations: Vec<LocationRef> =
            self.locations.iter().copied().filter(|it| has_metrics || is_foreign(it)).collect();
        let counted = self.source.each_location(&locations, |location| {
            let mut found = Beside::default();
            let foreign = u64::from(is_foreign(&location));
            self.events(location, |_, event| match event.kind {
                EventKind::Metric { .. } => found.metrics += 1,
                EventKind::Enter(_) => found.foreign_regions += foreign,
                EventKind::Leave(_) => {}
                _ => found.foreign_others += foreign,
            })?;
            Ok(found)
        })?;
        let sum = |count: fn(&Beside) -> u64| counted.iter().map(count).sum();
        Ok(Beside {
            foreign_regions: sum(|it| it.foreign_regions),
            foreign_others: sum(|it| it.foreign_others),
            metrics: sum(|it| it.metrics),
        })
    }

    /// Passes the wanted region instances of a location in the order of their ends.
    pub fn slices(&self, location: LocationRef, mut each: impl FnMut(&Slice)) -> Result<()> {
        self.nested_slices(location, |slice, _around| each(slice))
    }

    /// The same, each with the wanted ones around it, innermost last.
    pub fn nested_slices(&self, location: LocationRef, mut each: impl FnMut(&Slice, &[Slice])) -> Result<()> {
        let mut slices = Slices::of(self.source.trace, location);
        self.events(location, |time_ns, event| {
            if let Some(slice) = slices.step(time_ns, event) {
                each(&slice, slices.open());
            }
        })
    }

    /// Whether a region is selected by its own function, or by the function of its operation.
    fn wants(&self, region: RegionRef, enter: &Event, around_is_wanted: bool) -> bool {
        let Some(ids) = &self.ids else {
            return true;
        };
        let fields = self.source.trace.fields_of(&enter.attributes);
        let has = |id: Option<u64>| id.is_some_and(|id| ids.binary_search(&id).is_ok());
        match (fields.event, fields.parent) {
            // A call that only NVTX shows has no id.
            (None, None) if self.is_call(region) => self.source.filter.wants_function(self.source.trace, region),
            // A part of the enclosing region, such as the time in a queue.
            (None, None) => around_is_wanted,
            (event, parent) => has(event) || has(parent) || self.is_of_function(region),
        }
    }

    /// Whether a region is a call of a collective, a send or a receive.
    fn is_call(&self, region: RegionRef) -> bool {
        let is_one = |it: RegionInfo<'_>| it.class == RegionClass::Api && Function::of_region(it.name).is_some();
        self.source.trace.region(region).is_some_and(is_one)
    }

    fn is_of_function(&self, region: RegionRef) -> bool {
        matches!(self.source.trace.role(region), Some(Role::Call(_) | Role::Operation(_)))
            && self.source.filter.wants_function(self.source.trace, region)
    }

    fn ids_of_functions(&self) -> Result<Vec<u64>> {
        let trace = self.source.trace;
        let (source, all) = (self.source, self);
        let of_operations = source.each_location(&self.of_kinds(&[LocationKind::Communicator]), |location| {
            let mut ids = Vec::new();
            all.slices(location, |slice| {
                if all.is_of_function(slice.region) {
                    let fields = trace.fields_of(&slice.attributes);
                    ids.extend(fields.event.into_iter().chain(fields.parent));
                }
            })?;
            Ok(ids)
        })?;
        let ids: BTreeSet<u64> = of_operations.into_iter().flatten().collect();
        let of_transfers = source.each_location(&self.of_kinds(&[LocationKind::Connection]), |location| {
            let mut found = Vec::new();
            all.slices(location, |slice| {
                let fields = trace.fields_of(&slice.attributes);
                if fields.parent.is_some_and(|parent| ids.contains(&parent)) {
                    found.extend(fields.event);
                }
            })?;
            Ok(found)
        })?;
        let mut ids: Vec<u64> = ids.into_iter().chain(of_transfers.into_iter().flatten()).collect();
        ids.sort_unstable();
        ids.dedup();
        Ok(ids)
    }
}
