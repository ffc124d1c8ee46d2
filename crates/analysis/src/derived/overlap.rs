//! Overlap of communication with computation, if kernels of both were recorded.

use std::collections::BTreeMap;

use otf2::LocationGroupRef;

use super::filter::Filter;
use super::maths::union::{length, overlap, union};
use crate::archive::Trace;
use crate::parallel::in_parallel;
use crate::report::Overlap;
use crate::tables::Tables;
use nccl_events::ids::index_u32 as small;

/// Kernels of NCCL, and all others.
type OfBoth = [Vec<(u64, u64)>; 2];

/// How the kernels of each rank overlap; `None` if only NCCL's were recorded.
pub(super) fn overlaps(trace: &Trace, tables: &Tables, filter: &Filter) -> Option<Vec<Overlap>> {
    if tables.kernels.is_nccl.iter().all(|is_nccl| *is_nccl) {
        return None;
    }
    let mut groups: BTreeMap<LocationGroupRef, OfBoth> = BTreeMap::new();
    for kernel in tables.kernels.rows().filter(|it| filter.wants_time(it.start_ns, it.stop_ns)) {
        let of_group = groups.entry(trace.group(kernel.location)).or_default();
        of_group[usize::from(!kernel.is_nccl)].push((kernel.start_ns, kernel.stop_ns));
    }
    let made = in_parallel(tables.members.job_ranks.iter().enumerate(), |(number, rank)| {
        let [communication, computation] = groups.get(&rank.group)?.clone().map(union);
        let overlap_ns = overlap(&communication, &computation);
        let communication_ns = length(&communication);
        Some(Overlap {
            rank: small(number),
            communication_ns,
            computation_ns: length(&computation),
            overlap_ns,
            exposed_ns: communication_ns - overlap_ns,
        })
    });
    Some(made.into_iter().flatten().collect())
}
