//! The ranks of communicators, their clocks, and which of them are the same rank of the job.

use std::collections::{BTreeMap, BTreeSet};

use nccl_events::archive::LocationKind;
use nccl_events::archive::{RankIdentity, number};
use nccl_events::ids::{index as large, index_u32 as small};
use nccl_events::schema::definition::{ClockReference, ClockUncertainty, GpuClockResidual, LauncherRank};
use nccl_events::sort::Gather;
use otf2::{CommRef, LocationGroupRef, LocationRef};

use crate::archive::Trace;
use crate::system_tree::Boot;

/// A clock whose error may exceed this, about a year, counts as unknown. Sums of errors do not overflow.
const LARGEST_ERROR_NS: u64 = 1 << 55;

#[derive(Clone, Debug)]
pub struct Member {
    pub communicator: u32,
    pub rank: u32,
    pub location: LocationRef,
    /// Index of the job's rank: what runs on one GPU of one process.
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

    pub fn of(trace: &Trace) -> Self {
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
                // Score-P's communicators have other kinds of members.
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
        let of_group = self.by_group.get(&group).into_iter().flatten();
        let job_rank = of_group.copied().find(|at| is_free(&self.job_ranks[*at])).unwrap_or_else(|| {
            let process = trace.process(group);
            let next = small(boots.len());
            let boot = *boots.entry(trace.boot(process)).or_insert(next);
            let clock = ProcessClock {
                boot,
                reference: trace.of_group(process, ClockReference).map(str::to_owned),
                uncertainty_ns: trace.of_group(process, ClockUncertainty).and_then(bounded),
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
            gpu_timer_ns: trace.of_location(location, GpuClockResidual).and_then(bounded),
        });
    }

    fn number(&mut self, trace: &Trace) {
        let identities = self.job_ranks.iter().map(|rank| {
            let members = rank.members.iter().map(|row| self.row(*row));
            RankIdentity {
                process: large(rank.process.get()),
                launcher_rank: trace.of_group(rank.process, LauncherRank).and_then(|rank| u32::try_from(rank).ok()),
                members: members.map(|it| (it.communicator, it.rank)).gather(),
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
        let key = |it: &Member| (it.communicator, it.rank);
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
