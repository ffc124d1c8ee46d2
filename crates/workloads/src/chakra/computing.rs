//! When a rank computed.

use analysis::union;
use exports::Result;
use nccl_events::archive::LocationKind;
use nccl_events::gpu::is_of_nccl;
use otf2::LocationRef;

use super::job::Job;
use crate::operations::Operation;

/// The program's kernels, with their pauses, apart from pauses in which an operation ended. Where no kernels were
/// recorded, the pauses between operations whose times are known.
pub(super) fn of_rank<D>(job: &Job<'_>, rank: usize, operations: &[Operation<D>]) -> Result<Vec<(u64, u64)>> {
    let kernels = kernels(job, rank)?;
    Ok(if kernels.is_empty() { pauses(operations) } else { joined(&kernels, operations) })
}

fn kernels(job: &Job<'_>, rank: usize) -> Result<Vec<(u64, u64)>> {
    let trace = job.source.trace;
    let group = job.members.job_ranks[rank].group;
    let is_of_rank = |location: &LocationRef| trace.group(*location) == group;
    let mut found = Vec::new();
    for location in job.selection.of_kinds(&[LocationKind::Stream]).into_iter().filter(is_of_rank) {
        job.selection.slices(location, |slice| {
            let fields = trace.fields_of(&slice.attributes);
            let is_nccl = fields.parent.is_some()
                || fields.external_correlation.is_some()
                || trace.canonical_name(slice.region).is_some_and(is_of_nccl);
            if !is_nccl && !trace.is_copy(slice.region) {
                found.push((slice.start_ns, slice.stop_ns));
            }
        })?;
    }
    Ok(union(found))
}

fn joined<D>(kernels: &[(u64, u64)], operations: &[Operation<D>]) -> Vec<(u64, u64)> {
    let mut ends: Vec<u64> = operations.iter().filter(|it| it.is_timed).map(|it| it.stop_ns).collect();
    ends.sort_unstable();
    let has_end = |from_ns, to_ns| ends.partition_point(|it| *it <= from_ns) < ends.partition_point(|it| *it <= to_ns);
    let mut found: Vec<(u64, u64)> = Vec::new();
    for (start_ns, stop_ns) in kernels {
        match found.last_mut().filter(|before| !has_end(before.1, *start_ns)) {
            Some(before) => before.1 = *stop_ns,
            None => found.push((*start_ns, *stop_ns)),
        }
    }
    found
}

fn pauses<D>(operations: &[Operation<D>]) -> Vec<(u64, u64)> {
    let mut all: Vec<(u64, u64, bool)> = operations.iter().map(|it| (it.start_ns, it.stop_ns, it.is_timed)).collect();
    all.sort_unstable();
    let mut found = Vec::new();
    let mut ended: Option<(u64, bool)> = None;
    for (start_ns, stop_ns, is_timed) in all {
        if let Some((ended_ns, true)) = ended.filter(|(ended_ns, _)| *ended_ns < start_ns && is_timed) {
            found.push((ended_ns, start_ns));
        }
        ended = ended.max(Some((stop_ns, is_timed)));
    }
    found
}
