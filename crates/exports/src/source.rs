//! The archive and the filter of an export.

use std::collections::BTreeSet;
use std::ops::ControlFlow;

use analysis::{Clock, Fields, Filter, Trace, try_in_parallel};
use nccl_events::Progress;
use nccl_events::archive::LocationKind;
use nccl_events::sort::Gather;
use otf2::{LocationGroupRef, LocationRef};

use crate::error::{Error, Result};

#[derive(Clone, Copy)]
pub struct Source<'a> {
    pub trace: &'a Trace,
    pub filter: &'a Filter,
    pub progress: &'a dyn Progress,
}

impl<'a> Source<'a> {
    /// The locations that match the filter and have events, ascending: those of its ranks and communicators, the
    /// threads and ranges of their processes, and the streams of their GPUs.
    pub fn locations(&self) -> Vec<LocationRef> {
        let trace = self.trace;
        let all = trace.definitions.locations.keys().copied().filter(|location| trace.has_events(*location));
        if self.filter.communicators.is_empty() && self.filter.ranks.is_empty() {
            return all.collect();
        }
        let members = trace.definitions.locations.keys().copied();
        let members = members.filter(|it| trace.location_kind(*it) == Some(LocationKind::Communicator));
        let groups = members.filter(|it| self.wants_rank(*it)).map(|it| trace.group(it));
        let groups: BTreeSet<LocationGroupRef> = groups.flat_map(|group| [group, trace.process(group)]).gather();
        let is_wanted = |location: &LocationRef| match trace.location_kind(*location) {
            _ if trace.rank_of(*location).is_some() => self.wants_rank(*location),
            Some(
                LocationKind::ApiThread
                | LocationKind::CallbackThread
                | LocationKind::ProxyThread
                | LocationKind::Ranges
                | LocationKind::Stream,
            ) => groups.contains(&trace.group(*location)),
            _ => false,
        };
        all.filter(is_wanted).collect()
    }

    fn wants_rank(&self, location: LocationRef) -> bool {
        let filter = self.filter;
        self.trace.rank_of(location).is_some_and(|(comm, rank)| {
            (filter.communicators.is_empty() || filter.communicators.contains(&comm))
                && (filter.ranks.is_empty() || filter.ranks.contains(&rank))
        })
    }

    /// Handles every location on all cores, the largest first; returns results in the order of `locations`.
    pub fn each_location<T: Send>(
        &self,
        locations: &[LocationRef],
        each: impl Fn(LocationRef) -> Result<T> + Sync,
    ) -> Result<Vec<T>> {
        self.progress.begin("locations", locations.len() as u64);
        let mut order: Vec<(usize, LocationRef)> = locations.iter().copied().enumerate().collect();
        nccl_events::sort::sort_by_key(&mut order, |(_, location)| std::cmp::Reverse(self.trace.events_of(*location)));
        let made = try_in_parallel(order, |(at, location)| {
            let made = each(location)?;
            self.progress.step();
            Ok::<_, Error>((at, made))
        });
        let mut made: Vec<(usize, T)> = made?;
        nccl_events::sort::sort_by_key(&mut made, |(at, _)| *at);
        self.progress.end();
        Ok(made.into_iter().map(|(_, made)| made).collect())
    }

    /// The results of `of` for the attributes of each region instance, on the locations of one kind.
    pub(crate) fn fields<T: Send>(
        &self,
        kind: LocationKind,
        of: impl Fn(Fields<'a>) -> Option<T> + Sync,
    ) -> Result<Vec<T>> {
        let trace = self.trace;
        let mut locations = self.locations();
        locations.retain(|location| trace.location_kind(*location) == Some(kind));
        let of_locations = self.each_location(&locations, |location| {
            let mut found = Vec::new();
            trace.slices(location, |slice| {
                found.extend(of(trace.fields_of(&slice.attributes)));
                ControlFlow::Continue(())
            })?;
            Ok(found)
        })?;
        Ok(of_locations.into_iter().flatten().collect())
    }

    pub fn length_ns(&self) -> u64 {
        Clock::of(self.trace).length_ns(self.trace)
    }

    /// The archive's start in ns since 1970 or, if the archive does not state when that was, in its own ns.
    pub fn begin_ns(&self) -> u64 {
        let Some(clock) = &self.trace.definitions.clock else {
            return 0;
        };
        match clock.realtime_timestamp {
            u64::MAX => clock.global_offset,
            realtime_ns => realtime_ns,
        }
    }
}
