//! Reads the events location by location, several locations at a time. [`Members`] are the ranks of communicators,
//! their clocks, and which of them are the same rank of the job.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::{ControlFlow, Range as Between};

use crate::instances::{Instances, Step as Read};
use crate::read::archive::{Boot, Clock, Fields, Role, Trace, try_in_parallel};
use crate::read::rows::{
    Call, Calls, Kernel, Kernels, Launch, Launches, NO_SEQUENCE, NONE, Operation, Operations, Paths, Range, Ranges,
};
use nccl_events::Progress;
use nccl_events::archive::{LocationKind, RankIdentity, RegionClass, number};
use nccl_events::gpu::is_of_nccl;
use nccl_events::ids::{index as large, index_u32 as small};
use nccl_events::schema::definition::{ClockReference, ClockUncertainty, GpuClockResidual, LauncherRank};
use nccl_events::sort::Gather;
use otf2::{CommRef, LocationGroupRef, LocationRef, RegionRef};
use topology::{Algorithm, Protocol};

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
    /// When each operation was enqueued, and by which thread, keyed by event id. Filled by [`Self::add_threads`].
    pub(crate) enqueued: BTreeMap<u64, Enqueued>,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Enqueued {
    pub(crate) at_ns: u64,
    /// The thread that enqueued the operation.
    pub(crate) by: LocationRef,
}

impl Tables {
    pub fn read(trace: &Trace, progress: &dyn Progress) -> otf2::Result<Self> {
        let mut tables =
            Self { members: Members::from_trace(trace), clock: Clock::from_trace(trace), ..Self::default() };
        let reading = Reading::new(trace, &tables, progress);
        let ranks = trace.locations_of(&[LocationKind::Communicator]);
        let streams = trace.locations_of(&[LocationKind::Stream]);
        progress.begin("operations", (ranks.len() + streams.len()) as u64);
        let (mut operations, mut kernels) = (Operations::default(), Kernels::default());
        let mut rows = BTreeMap::new();
        reading.each(
            &ranks,
            |reading, at| Ok((at, reading.operations(at)?)),
            |(location, location_operations)| {
                let from = small(operations.len());
                operations.append(location_operations);
                rows.insert(location, from..small(operations.len()));
            },
        )?;
        reading.each(&streams, Reading::kernels, |stream_kernels| kernels.append(stream_kernels))?;
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

    /// Reads the program's ranges, the launches, and the calls of the regions that `wants` selects.
    pub(crate) fn add_threads(
        &mut self,
        trace: &Trace,
        wants: impl Fn(RegionRef) -> bool + Sync,
        progress: &dyn Progress,
    ) -> otf2::Result<()> {
        let reading = Reading::new(trace, self, progress);
        let threads = trace.locations_of(&[LocationKind::ApiThread, LocationKind::CallbackThread]);
        progress.begin("calls", threads.len() as u64);
        let (mut calls, mut launches, mut ranges) = (Calls::default(), Launches::default(), Ranges::default());
        let mut enqueued = BTreeMap::new();
        reading.each(
            &threads,
            |reading, at| reading.thread(at, &wants),
            |thread_rows| {
                calls.append(thread_rows.calls);
                launches.append(thread_rows.launches);
                ranges.append(thread_rows.ranges);
                enqueued.extend(thread_rows.enqueued);
            },
        )?;
        progress.end();
        (self.calls, self.launches, self.ranges, self.enqueued) = (calls, launches, ranges, enqueued);
        Ok(())
    }

    /// Frees what [`Self::add_threads`] read.
    pub(crate) fn remove_threads(&mut self) {
        (self.calls, self.launches, self.ranges, self.enqueued) = Default::default();
    }
}

/// The rows of one thread.
#[derive(Default)]
struct ThreadRows {
    calls: Calls,
    launches: Launches,
    ranges: Ranges,
    /// Keyed by the event id of the operation.
    enqueued: Vec<(u64, Enqueued)>,
}

pub(super) struct Reading<'a> {
    pub(super) trace: &'a Trace,
    paths: &'a Paths,
    has_ranges: bool,
    pub(super) clock: Clock,
    members: &'a Members,
    /// The names of communicators by NCCL's id.
    communicators: BTreeMap<u64, String>,
    pub(super) progress: &'a dyn Progress,
}

/// Locations per core that are read before their rows are merged: until then, these rows are in memory twice.
const AT_ONCE: usize = 2;

impl<'a> Reading<'a> {
    pub(super) fn new(trace: &'a Trace, tables: &'a Tables, progress: &'a dyn Progress) -> Self {
        let has_ranges = trace.statements.counts.others.ranges_user > 0;
        let comms = trace.definitions.comms.keys();
        let communicators = comms.filter_map(|comm| Some((trace.comm_id(*comm)?, trace.comm_name(*comm)))).gather();
        let (paths, members) = (&tables.paths, &tables.members);
        Self { trace, paths, has_ranges, clock: tables.clock, members, communicators, progress }
    }

    /// Reads locations on all cores, and passes the results to `take` in the order of `locations`.
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
        self.trace.rank_of(location).map_or(NONE, |(comm, rank)| self.member_of(comm, rank))
    }

    pub(super) fn member_of(&self, comm: CommRef, rank: u32) -> u32 {
        let communicator = self.members.communicators.binary_search(&comm).ok();
        communicator.and_then(|communicator| self.members.find(small(communicator), rank)).unwrap_or(NONE)
    }

    fn operations(&self, location: LocationRef) -> otf2::Result<Operations> {
        let mut rows = Operations::default();
        let member = self.member(location);
        if member == NONE {
            return Ok(rows);
        }
        // Each operation has at least two events.
        rows.reserve(usize::try_from(self.trace.events_of(location) / 2).unwrap_or(0));
        let mut paths = self.paths.reader();
        self.trace.instances(location, |instance| {
            if !matches!(instance.role, Some(Role::Operation(_))) {
                return;
            }
            let fields = &instance.fields;
            rows.push(Operation {
                member,
                function: instance.region,
                timing: fields.timing,
                is_unfinished: fields.is_unfinished == Some(true),
                has_bandwidth: fields.algorithm_bandwidth.is_some(),
                by: fields.algorithm.and_then(Algorithm::named).zip(fields.protocol.and_then(Protocol::named)),
                partner: fields.peer.or(fields.root).unwrap_or(NONE),
                bytes: fields.bytes.unwrap_or(0),
                start_ns: self.clock.ns(instance.start),
                stop_ns: self.clock.ns(instance.end),
                event: fields.event.unwrap_or(0),
                parent: fields.parent.unwrap_or(0),
                sequence: fields.sequence.unwrap_or(NO_SEQUENCE),
                replay: fields.replay.and_then(|replay| u32::try_from(replay).ok()).unwrap_or(0),
                launch: fields.launch.unwrap_or(0),
                path: fields.ranges.map_or(NONE, |text| paths.number(text)),
            });
        })?;
        Ok(rows)
    }

    fn thread(&self, location: LocationRef, wants: &impl Fn(RegionRef) -> bool) -> otf2::Result<ThreadRows> {
        let mut rows = ThreadRows::default();
        let mut paths = self.paths.reader();
        let mut instances: Instances<'_> = Instances::new(self.trace);
        self.trace.archive.for_each_event(&[location], |_, event| {
            let Read::Left(instance) = instances.step(event) else {
                return ControlFlow::Continue(());
            };
            let (start_ns, stop_ns) = (self.clock.ns(instance.start), self.clock.ns(instance.end));
            let (event, parent) = (instance.fields.event.unwrap_or(0), instance.fields.parent.unwrap_or(0));
            match self.class(instance.region) {
                Some(RegionClass::Launch) if wants(instance.region) => {
                    rows.launches.push(Launch { location, start_ns, stop_ns, event, parent });
                }
                Some(RegionClass::Api) if wants(instance.region) => rows.calls.push(Call {
                    location,
                    function: instance.region,
                    start_ns,
                    stop_ns,
                    bytes: instance.fields.bytes.unwrap_or(0),
                    event,
                    comm: self.communicator(&instance.fields).map_or(NONE, |name| paths.number(&name)),
                    rank: instance.fields.rank.unwrap_or(NONE),
                    is_unfinished: instance.fields.is_unfinished == Some(true),
                    path: instance.fields.ranges.map_or(NONE, |text| paths.number(text)),
                }),
                Some(RegionClass::Enqueue) if self.has_ranges && event != 0 => {
                    rows.enqueued.push((event, Enqueued { at_ns: start_ns, by: location }));
                }
                Some(RegionClass::User) => {
                    let around = instances.open().iter().map(|around| around.region);
                    rows.ranges.push(Range {
                        location,
                        region: instance.region,
                        start_ns,
                        stop_ns,
                        number: instance.fields.range_number.unwrap_or(NO_SEQUENCE),
                        path: paths.number(&self.trace.path(around, instance.region)),
                        is_unfinished: instance.fields.is_unfinished == Some(true),
                    });
                }
                _ => {}
            }
            ControlFlow::Continue(())
        })?;
        Ok(rows)
    }

    /// The name of a call's communicator in the archive, else that of the call, or its id; `None` if there is none.
    fn communicator(&self, fields: &Fields<'_>) -> Option<String> {
        let id = || Some(format!("{:#x}", fields.comm_id?));
        let known = fields.comm_id.and_then(|id| self.communicators.get(&id)).cloned();
        known.or_else(|| fields.comm_name.map(str::to_owned)).or_else(id)
    }

    fn class(&self, region: RegionRef) -> Option<RegionClass> {
        self.trace.region(region).map(|region| region.class)
    }

    fn kernels(&self, location: LocationRef) -> otf2::Result<Kernels> {
        let mut rows = Kernels::default();
        let mut last: Option<(RegionRef, bool)> = None;
        self.trace.instances(location, |instance| {
            if self.trace.is_copy(instance.region) {
                return;
            }
            let by_name = match last {
                Some((region, is_nccl)) if region == instance.region => is_nccl,
                _ => self.trace.canonical_name(instance.region).is_some_and(is_of_nccl),
            };
            last = Some((instance.region, by_name));
            rows.push(Kernel {
                location,
                region: instance.region,
                is_nccl: by_name || instance.fields.parent.is_some() || instance.fields.external_correlation.is_some(),
                start_ns: self.clock.ns(instance.start),
                stop_ns: self.clock.ns(instance.end),
                parent: instance.fields.parent.unwrap_or(0),
            });
        })?;
        Ok(rows)
    }
}

/// The error of a clock counts as unknown above this limit, about a year, so that sums of errors do not overflow.
const LARGEST_ERROR_NS: u64 = 1 << 55;

#[derive(Clone, Debug)]
pub struct Member {
    pub communicator: u32,
    pub rank: u32,
    pub location: LocationRef,
    /// Index in [`Members::job_ranks`]. A rank of the job is what runs on one GPU of one process.
    pub job_rank: u32,
    /// The error of times from the GPU's timer, in addition to that of the process's clock.
    gpu_timer_ns: Option<u64>,
}

#[derive(Clone, Debug)]
pub struct JobRank {
    /// The rank's group of locations: a GPU of a process, or a process.
    pub group: LocationGroupRef,
    pub process: LocationGroupRef,
    /// The rank number shown to users.
    pub number: Option<u32>,
    pub members: Vec<u32>,
    clock: ProcessClock,
}

impl JobRank {
    /// The error of its host's clock relative to the archive's; `None` if unknown, or on a single host.
    pub const fn clock_uncertainty_ns(&self) -> Option<u64> {
        self.clock.uncertainty_ns
    }
}

/// The archive's statements on a process's clock.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct ProcessClock {
    /// Processes of one boot share a clock.
    boot: u32,
    /// Times of different boots are comparable if their references are equal; `None` on a single host.
    reference: Option<String>,
    /// The clock's error relative to the reference; `None` if unknown.
    uncertainty_ns: Option<u64>,
}

/// The ranks of communicators, and which of them are the same rank of the job.
#[derive(Clone, Debug, Default)]
pub struct Members {
    pub all: Vec<Member>,
    pub job_ranks: Vec<JobRank>,
    pub communicators: Vec<CommRef>,
    by_location: BTreeMap<LocationRef, u32>,
    by_group: BTreeMap<LocationGroupRef, Vec<usize>>,
    /// For each communicator: the number of its ranks, and of its recorded ranks.
    sizes: Vec<(usize, usize)>,
    /// The error of a process's ticks, and of times from CUPTI and CUDA events; `None` if unknown.
    ticks_ns: Option<u64>,
    gpu_clocks_ns: Option<u64>,
}

impl Members {
    pub fn has_process_of_several_ranks(&self) -> bool {
        let processes: BTreeSet<_> = self.job_ranks.iter().map(|rank| rank.process).gather();
        processes.len() < self.job_ranks.len()
    }

    pub fn from_trace(trace: &Trace) -> Self {
        let statements = &trace.statements;
        let error = |errors: [u64; 2]| -> Option<u64> { errors.map(bounded).into_iter().sum() };
        // In an archive merged from several, one calibration may be unknown.
        let known = statements.clock_uncertainty_ns.0.zip(statements.clock_residual_ns.0);
        let ticks = known.filter(|_| !statements.has_assumed_ticks());
        let mut found = Self {
            ticks_ns: ticks.and_then(|(uncertainty, residual)| error([uncertainty, residual])),
            gpu_clocks_ns: error([statements.gpu_clocks_uncertainty_ns.get(), statements.gpu_clocks_residual_ns.get()]),
            communicators: trace.definitions.comms.keys().copied().collect(),
            ..Self::default()
        };
        let mut boots = BTreeMap::new();
        for (communicator, comm) in (0..).zip(found.communicators.clone()) {
            let before = found.all.len();
            let members = trace.members(comm);
            for (rank, location) in (0..).zip(members) {
                // Members of Score-P's communicators are locations of other kinds.
                if trace.location_kind(*location) == Some(LocationKind::Communicator) {
                    found.add(trace, (communicator, rank), *location, &mut boots);
                }
            }
            found.sizes.push((members.len(), found.all.len() - before));
        }
        found.number(trace);
        found
    }

    fn add<'a>(
        &mut self,
        trace: &'a Trace,
        (communicator, rank): (u32, u32),
        location: LocationRef,
        boots: &mut BTreeMap<Option<Boot<'a>>, u32>,
    ) {
        let row = small(self.all.len());
        let group = trace.group(location);
        // If a process has several GPUs but no group for each, its ranks of one communicator are kept apart.
        let is_free = |rank: &JobRank| {
            let mut members = rank.members.iter().filter_map(|row| self.all.get(large(*row)));
            members.all(|member| member.communicator != communicator)
        };
        let group_members = self.by_group.get(&group).into_iter().flatten();
        let job_rank = group_members.copied().find(|at| is_free(&self.job_ranks[*at])).unwrap_or_else(|| {
            let process = trace.process(group);
            let next = small(boots.len());
            let boot = *boots.entry(trace.boot(process)).or_insert(next);
            let clock = ProcessClock {
                boot,
                reference: trace.group_property(process, ClockReference).map(str::to_owned),
                uncertainty_ns: trace.group_property(process, ClockUncertainty).and_then(bounded),
            };
            self.job_ranks.push(JobRank { group, process, number: None, members: Vec::new(), clock });
            let at = self.job_ranks.len() - 1;
            self.by_group.entry(group).or_default().push(at);
            at
        });
        self.job_ranks[job_rank].members.push(row);
        self.by_location.insert(location, row);
        self.all.push(Member {
            communicator,
            rank,
            location,
            job_rank: small(job_rank),
            gpu_timer_ns: trace.location_property(location, GpuClockResidual).and_then(bounded),
        });
    }

    fn number(&mut self, trace: &Trace) {
        let identities = self.job_ranks.iter().map(|rank| {
            let members = rank.members.iter().map(|row| self.row(*row));
            RankIdentity {
                process: large(rank.process.get()),
                launcher_rank: trace
                    .group_property(rank.process, LauncherRank)
                    .and_then(|rank| u32::try_from(rank).ok()),
                members: members.map(|member| (member.communicator, member.rank)).gather(),
            }
        });
        let (_, numbers) = number(&identities.collect::<Vec<RankIdentity>>());
        for (rank, number) in self.job_ranks.iter_mut().zip(numbers) {
            rank.number = number;
        }
    }

    pub fn at(&self, location: LocationRef) -> Option<u32> {
        self.by_location.get(&location).copied()
    }

    pub fn size(&self, communicator: u32) -> usize {
        self.sizes.get(large(communicator)).map_or(0, |(size, _)| *size)
    }

    pub fn recorded(&self, communicator: u32) -> usize {
        self.sizes.get(large(communicator)).map_or(0, |(_, recorded)| *recorded)
    }

    pub fn find(&self, communicator: u32, rank: u32) -> Option<u32> {
        let key = |member: &Member| (member.communicator, member.rank);
        Some(small(self.all.binary_search_by_key(&(communicator, rank), key).ok()?))
    }

    /// The job's rank for a rank of a communicator; `None` if it was not recorded.
    pub fn job_rank(&self, communicator: u32, rank: u32) -> Option<u32> {
        self.find(communicator, rank).map(|row| self.row(row).job_rank)
    }

    pub fn row(&self, row: u32) -> &Member {
        &self.all[large(row)]
    }

    /// The error of a rank's time relative to others on its host; `None` if unknown.
    pub fn own_error_ns(&self, row: u32, by_gpu_timer: bool, by_gpu_clock: bool) -> Option<u64> {
        let gpu_ns = match (by_gpu_timer, by_gpu_clock) {
            (true, _) => self.row(row).gpu_timer_ns?,
            (_, true) => self.gpu_clocks_ns?,
            _ => 0,
        };
        Some(self.ticks_ns? + gpu_ns)
    }

    /// The error between the clocks of two ranks' hosts; `None` if unknown.
    pub fn hosts_error_ns(&self, a: u32, b: u32) -> Option<u64> {
        let clock = |row| &self.job_ranks[large(self.row(row).job_rank)].clock;
        let (a, b) = (clock(a), clock(b));
        if a.boot == b.boot {
            return Some(0);
        }
        (a.reference.is_some() && a.reference == b.reference).then_some(())?;
        Some(a.uncertainty_ns? + b.uncertainty_ns?)
    }
}

fn bounded(error_ns: u64) -> Option<u64> {
    (error_ns <= LARGEST_ERROR_NS).then_some(error_ns)
}
