//! Selects the part of an archive to analyse.

use otf2::{CommRef, RegionRef};

use crate::archive::Trace;
use crate::tables::{Members, Operation};

/// The part of an archive that is analysed. An empty list selects everything.
#[derive(Clone, Debug, Default)]
pub struct Filter {
    pub communicators: Vec<CommRef>,
    /// Functions, as `ncclAllReduce` or `AllReduce`, case-insensitive.
    pub functions: Vec<String>,
    /// Ranks within their communicators: tables of operations count only these ranks' operations.
    pub ranks: Vec<u32>,
    /// Keeps what ends at or after this time, in ns from the start of the trace.
    pub from_ns: Option<u64>,
    /// Keeps what begins at or before this time.
    pub to_ns: Option<u64>,
    /// The name of the range that is a step of the program; found if not given.
    pub step: Option<String>,
}

impl Filter {
    /// Whether the filter keeps an interval from `start_ns` to `stop_ns`.
    pub fn wants_time(&self, start_ns: u64, stop_ns: u64) -> bool {
        self.from_ns.is_none_or(|from_ns| stop_ns >= from_ns) && self.to_ns.is_none_or(|to_ns| start_ns <= to_ns)
    }

    pub fn wants_communicator(&self, members: &Members, member: u32) -> bool {
        self.communicators.is_empty() || {
            let communicator = usize::try_from(members.row(member).communicator).unwrap_or(usize::MAX);
            members.communicators.get(communicator).is_some_and(|it| self.communicators.contains(it))
        }
    }

    pub fn wants_function(&self, trace: &Trace, function: RegionRef) -> bool {
        self.functions.is_empty()
            || trace.region(function).is_some_and(|region| {
                let short = region.name.strip_prefix("nccl").unwrap_or(region.name);
                let mut wanted = self.functions.iter();
                wanted.any(|name| name.eq_ignore_ascii_case(region.name) || name.eq_ignore_ascii_case(short))
            })
    }

    pub(super) fn wants_rank(&self, members: &Members, member: u32) -> bool {
        self.ranks.is_empty() || self.ranks.contains(&members.row(member).rank)
    }

    /// Whether a rank of the job has a wanted rank in any of its communicators.
    pub fn wants_job_rank(&self, members: &Members, rank: usize) -> bool {
        let rank = members.job_ranks.get(rank);
        self.ranks.is_empty() || rank.is_some_and(|rank| rank.members.iter().any(|row| self.wants_rank(members, *row)))
    }

    pub(super) fn wants(&self, trace: &Trace, members: &Members, operation: &Operation) -> bool {
        self.wants_communicator(members, operation.member)
            && self.wants_time(operation.start_ns, operation.stop_ns)
            && self.wants_function(trace, operation.function)
    }
}
