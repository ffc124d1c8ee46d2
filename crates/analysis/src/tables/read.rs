//! Reads the events location by location, several locations at a time.

use std::collections::BTreeMap;
use std::ops::{ControlFlow, Range as Between};

use nccl_events::Progress;
use nccl_events::archive::{LocationKind, RegionClass};
use nccl_events::gpu::is_of_nccl;
use nccl_events::ids::{index as large, index_u32 as small};
use otf2::{LocationRef, RegionRef};
use topology::{Algorithm, Protocol};

use super::members::Members;
use super::paths::Paths;
use super::rows::{
    Call, Calls, Kernel, Kernels, Launch, Launches, NO_SEQUENCE, NONE, Operation, Operations, Range, Ranges,
};
use crate::archive::{Role, Trace};
use crate::clock::Clock;
use crate::fields::Fields;
use crate::instances::{Instances, Step as Read};
use crate::parallel::try_in_parallel;

#[derive(Clone, Debug, Default)]
pub struct Tables {
    pub operations: Operations,
    pub calls: Calls,
    pub launches: Launches,
    pub kernels: Kernels,
    pub ranges: Ranges,
    pub members: Members,
    pub clock: Clock,
    /// The rows of each location's operations, in the order of their ends.
    rows: BTreeMap<LocationRef, Between<u32>>,
    /// The names of ranges around calls and operations, outermost first.
    pub(crate) paths: Paths,
    /// When operations were enqueued and by whom, by their event: filled with the ranges.
    pub(crate) enqueued: BTreeMap<u64, Enqueued>,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Enqueued {
    pub(crate) at_ns: u64,
    /// The thread.
    pub(crate) by: LocationRef,
}

impl Tables {
    pub fn read(trace: &Trace, progress: &dyn Progress) -> otf2::Result<Self> {
        let mut tables = Self { members: Members::of(trace), clock: Clock::of(trace), ..Self::default() };
        let reading = Reading::of(trace, &tables, progress);
        let ranks = trace.locations_of(&[LocationKind::Communicator]);
        let streams = trace.locations_of(&[LocationKind::Stream]);
        progress.begin("operations", (ranks.len() + streams.len()) as u64);
        let (mut operations, mut kernels) = (Operations::default(), Kernels::default());
        let mut rows = BTreeMap::new();
        reading.each(
            &ranks,
            |it, at| Ok((at, it.operations(at)?)),
            |(location, of_location)| {
                let from = small(operations.len());
                operations.append(of_location);
                rows.insert(location, from..small(operations.len()));
            },
        )?;
        reading.each(&streams, Reading::kernels, |of_stream| kernels.append(of_stream))?;
        progress.end();
        (tables.operations, tables.kernels, tables.rows) = (operations, kernels, rows);
        Ok(tables)
    }

    pub fn job_rank(&self, row: u32) -> u32 {
        self.members.row(self.operations.member[large(row)]).job_rank
    }

    /// The rows of a location's operations, in the order in which they end.
    pub fn rows_of(&self, location: LocationRef) -> Between<u32> {
        self.rows.get(&location).cloned().unwrap_or_default()
    }

    /// Adds ranges of the program, and of the calls those whose region is wanted.
    pub(crate) fn add_threads(
        &mut self,
        trace: &Trace,
        wants: impl Fn(RegionRef) -> bool + Sync,
        progress: &dyn Progress,
    ) -> otf2::Result<()> {
        let reading = Reading::of(trace, self, progress);
        let threads = trace.locations_of(&[LocationKind::ApiThread, LocationKind::CallbackThread]);
        progress.begin("calls", threads.len() as u64);
        let (mut calls, mut launches, mut ranges) = (Calls::default(), Launches::default(), Ranges::default());
        let mut enqueued = BTreeMap::new();
        reading.each(
            &threads,
            |it, at| it.thread(at, &wants),
            |of_thread| {
                calls.append(of_thread.calls);
                launches.append(of_thread.launches);
                ranges.append(of_thread.ranges);
                enqueued.extend(of_thread.enqueued);
            },
        )?;
        progress.end();
        (self.calls, self.launches, self.ranges, self.enqueued) = (calls, launches, ranges, enqueued);
        Ok(())
    }
}

/// What a thread did.
#[derive(Default)]
struct OfThread {
    calls: Calls,
    launches: Launches,
    ranges: Ranges,
    /// By the operations' events.
    enqueued: Vec<(u64, Enqueued)>,
}

pub(super) struct Reading<'a> {
    pub(super) trace: &'a Trace,
    paths: &'a Paths,
    has_ranges: bool,
    pub(super) clock: Clock,
    members: &'a Members,
    pub(super) progress: &'a dyn Progress,
}

/// Locations per core that are read before their rows are merged: until then, these rows are in memory twice.
const AT_ONCE: usize = 2;

impl<'a> Reading<'a> {
    pub(super) fn of(trace: &'a Trace, tables: &'a Tables, progress: &'a dyn Progress) -> Self {
        let has_ranges = trace.statements.counts.others.ranges_user > 0;
        Self { trace, paths: &tables.paths, has_ranges, clock: tables.clock, members: &tables.members, progress }
    }

    /// Reads locations and returns one result for each, in their order.
    fn each<T: Send>(
        &self,
        locations: &[LocationRef],
        read: impl Fn(&Self, LocationRef) -> otf2::Result<T> + Sync,
        mut take: impl FnMut(T),
    ) -> otf2::Result<()> {
        for locations in locations.chunks(AT_ONCE * rayon::current_num_threads().max(1)) {
            let read = try_in_parallel(locations, |location| {
                let made = read(self, *location);
                self.progress.step();
                made
            });
            read?.into_iter().for_each(&mut take);
        }
        Ok(())
    }

    pub(super) fn member(&self, location: LocationRef) -> u32 {
        let rank = self.trace.rank_of(location);
        let member = rank.and_then(|(comm, rank)| {
            self.members.find(small(self.members.communicators.binary_search(&comm).ok()?), rank)
        });
        member.unwrap_or(NONE)
    }

    fn operations(&self, location: LocationRef) -> otf2::Result<Operations> {
        let mut rows = Operations::default();
        let member = self.member(location);
        if member == NONE {
            return Ok(rows);
        }
        // Two events at least for each.
        rows.reserve(usize::try_from(self.trace.events_of(location) / 2).unwrap_or(0));
        let mut paths = self.paths.reader();
        self.trace.instances(location, |it| {
            if !matches!(it.role, Some(Role::Operation(_))) {
                return;
            }
            let fields = &it.fields;
            rows.push(Operation {
                member,
                function: it.region,
                timing: fields.timing,
                is_unfinished: fields.is_unfinished == Some(true),
                has_bandwidth: fields.algorithm_bandwidth.is_some(),
                by: fields.algorithm.and_then(Algorithm::named).zip(fields.protocol.and_then(Protocol::named)),
                partner: fields.peer.or(fields.root).unwrap_or(NONE),
                bytes: fields.bytes.unwrap_or(0),
                start_ns: self.clock.ns(it.start),
                stop_ns: self.clock.ns(it.end),
                event: fields.event.unwrap_or(0),
                parent: fields.parent.unwrap_or(0),
                sequence: fields.sequence.unwrap_or(NO_SEQUENCE),
                replay: fields.replay.and_then(|it| u32::try_from(it).ok()).unwrap_or(0),
                path: fields.ranges.map_or(NONE, |text| paths.number(text)),
            });
        })?;
        Ok(rows)
    }

    fn thread(&self, location: LocationRef, wants: &impl Fn(RegionRef) -> bool) -> otf2::Result<OfThread> {
        let mut rows = OfThread::default();
        let mut paths = self.paths.reader();
        let mut instances: Instances<'_> = Instances::of(self.trace);
        self.trace.archive.for_each_event(&[location], |_, event| {
            let Read::Left(it) = instances.step(event) else {
                return ControlFlow::Continue(());
            };
            let (start_ns, stop_ns) = (self.clock.ns(it.start), self.clock.ns(it.end));
            let (event, parent) = (it.fields.event.unwrap_or(0), it.fields.parent.unwrap_or(0));
            match self.class(it.region) {
                Some(RegionClass::Launch) if wants(it.region) => {
                    rows.launches.push(Launch { location, start_ns, stop_ns, event, parent });
                }
                Some(RegionClass::Api) if wants(it.region) => rows.calls.push(Call {
                    location,
                    function: it.region,
                    start_ns,
                    stop_ns,
                    bytes: it.fields.bytes.unwrap_or(0),
                    event,
                    parent,
                    comm: self.communicator(&it.fields).map_or(NONE, |name| paths.number(&name)),
                    rank: it.fields.rank.unwrap_or(NONE),
                    is_unfinished: it.fields.is_unfinished == Some(true),
                    path: it.fields.ranges.map_or(NONE, |text| paths.number(text)),
                }),
                Some(RegionClass::Enqueue) if self.has_ranges && event != 0 => {
                    rows.enqueued.push((event, Enqueued { at_ns: start_ns, by: location }));
                }
                Some(RegionClass::User) => {
                    let around = instances.open().iter().map(|around| around.region);
                    rows.ranges.push(Range {
                        location,
                        region: it.region,
                        start_ns,
                        stop_ns,
                        number: it.fields.range_number.unwrap_or(NO_SEQUENCE),
                        path: paths.number(&self.trace.path(around, it.region)),
                        is_unfinished: it.fields.is_unfinished == Some(true),
                    });
                }
                _ => {}
            }
            ControlFlow::Continue(())
        })?;
        Ok(rows)
    }

    /// The name of the communicator that a call is about, if the call says it.
    fn communicator(&self, fields: &Fields<'_>) -> Option<String> {
        let id = || Some(format!("{:#018x}", fields.comm_id?));
        fields.comm_name.map(str::to_owned).or_else(id)
    }

    fn class(&self, region: RegionRef) -> Option<RegionClass> {
        self.trace.region(region).map(|region| region.class)
    }

    fn kernels(&self, location: LocationRef) -> otf2::Result<Kernels> {
        let mut rows = Kernels::default();
        let mut last: Option<(RegionRef, bool)> = None;
        self.trace.instances(location, |it| {
            if self.trace.is_copy(it.region) {
                return;
            }
            let by_name = match last {
                Some((region, is_nccl)) if region == it.region => is_nccl,
                _ => self.trace.canonical_name(it.region).is_some_and(is_of_nccl),
            };
            last = Some((it.region, by_name));
            rows.push(Kernel {
                location,
                region: it.region,
                is_nccl: by_name || it.fields.parent.is_some() || it.fields.external_correlation.is_some(),
                start_ns: self.clock.ns(it.start),
                stop_ns: self.clock.ns(it.end),
                parent: it.fields.parent.unwrap_or(0),
            });
        })?;
        Ok(rows)
    }
}
