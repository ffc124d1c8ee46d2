//! What is derived from ranges that the program names, and from NCCL's calls that only NVTX shows.

mod communicators;
mod during;
mod phases;
mod steps;

pub(super) use communicators::communicator_calls;
pub(super) use phases::phases;
pub(super) use steps::Steps;

use std::collections::BTreeSet;

use nccl_events::Progress;
use nccl_events::archive::PATH_SEPARATOR;
use nccl_events::sort::Gather;
use otf2::{LocationGroupRef, LocationRef};

use crate::archive::Trace;
use crate::tables::Tables;
use nccl_events::ids::index as large;

/// The names of ranges in a text of `nvtx.ranges`, outermost first.
pub(super) fn names_of(path: &str) -> Vec<String> {
    path.split(PATH_SEPARATOR).map(str::to_owned).collect()
}

/// The threads whose ranges say what a rank does.
enum Threads {
    /// All of a process that has one rank, and one thread with ranges.
    Process(LocationGroupRef),
    /// Those that call for the rank. Other threads of its process may serve another rank, or wait for work.
    Callers(BTreeSet<LocationRef>),
}

impl Threads {
    fn of(trace: &Trace, tables: &Tables, rank: u32) -> Option<Self> {
        let ranks = &tables.members.job_ranks;
        let process = ranks.get(large(rank))?.process;
        let own = (0..).zip(tables.operations.event.iter()).filter(|(row, _)| tables.job_rank(*row) == rank);
        let callers: BTreeSet<_> = own.filter_map(|(_, event)| Some(tables.enqueued.get(&event)?.by)).gather();
        let with_ranges: BTreeSet<_> = tables.ranges.location.iter().copied().gather();
        let of_process = with_ranges.iter().filter(|thread| trace.process(trace.group(**thread)) == process);
        let has_one_rank = ranks.iter().filter(|other| other.process == process).count() == 1;
        let is_alone = has_one_rank && callers.is_disjoint(&with_ranges) && of_process.count() == 1;
        Some(if is_alone { Self::Process(process) } else { Self::Callers(callers) })
    }

    fn has(&self, trace: &Trace, location: LocationRef) -> bool {
        match self {
            Self::Process(process) => trace.process(trace.group(location)) == *process,
            Self::Callers(callers) => callers.contains(&location),
        }
    }
}

/// Reads ranges and the calls that make and end communicators, of an archive that has ranges.
pub(super) fn add(tables: &mut Tables, trace: &Trace, progress: &dyn Progress) -> otf2::Result<()> {
    let others = &trace.statements.counts.others;
    if others.ranges_user + others.ranges_nccl + others.ranges_reported == 0 {
        return Ok(());
    }
    tables.add_threads(trace, |region| communicators::is_one(trace, region), progress)
}
