//! What is derived from ranges that the program names, and from NCCL's calls that only NVTX shows.

mod communicators;
mod phases;
mod steps;

pub(super) use communicators::communicator_calls;
pub(super) use phases::phases;
pub(super) use steps::Steps;

use nccl_events::Progress;

use crate::archive::Trace;
use crate::tables::Tables;

/// Reads ranges and the calls that make and end communicators, of an archive that has ranges.
pub(super) fn add(tables: &mut Tables, trace: &Trace, progress: &dyn Progress) -> otf2::Result<()> {
    let others = &trace.statements.counts.others;
    if others.ranges_user + others.ranges_nccl + others.ranges_reported == 0 {
        return Ok(());
    }
    tables.add_threads(trace, |region| communicators::is_one(trace, region), progress)
}
