//! The first thread of a Score-P process, and the gaps in it that can hold NCCL operations.

use std::collections::BTreeSet;

use anyhow::{Context as _, Result};
use otf2::verbatim::{EventRecords, RecordKind};
use otf2::{MappingType, Paradigm, RegionRef};
use small_sort::Gather;

use crate::scorep::{Process, ScoreP};

/// The first thread of a process: the only thread whose MPI calls the analyser reads.
pub(super) struct Host<'a> {
    pub(super) process: &'a Process,
    pub(super) records: EventRecords,
    states: Vec<State>,
}

#[derive(Clone, Copy, Debug)]
struct State {
    /// Whether the thread is in a region, but not in an MPI region.
    has_room: bool,
    /// The number of MPI collectives that the thread has ended.
    collectives: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Gap {
    pub(super) begin: u64,
    pub(super) end: u64,
    pub(super) collectives: usize,
}

impl<'a> Host<'a> {
    pub(super) fn read(scorep: &ScoreP, process: &'a Process) -> Result<Self> {
        let records = scorep.records(process.master)?;
        let local = scorep.archive.local_definitions(process.master).context("cannot read local definitions")?;
        let regions = local.mapping_tables.get(&MappingType::Region);
        let of_mpi: BTreeSet<RegionRef> = scorep
            .definitions
            .regions
            .iter()
            .filter(|(_, region)| region.paradigm == Paradigm::Mpi)
            .map(|(reference, _)| *reference)
            .gather();
        let is_mpi = |region: RegionRef| {
            let global = regions.and_then(|table| table.pairs.get(&region.get().into())).copied();
            // A number that does not fit is not a region.
            let global = global.map_or(region.get(), |global| u32::try_from(global).unwrap_or(u32::MAX));
            of_mpi.contains(&RegionRef::new(global))
        };
        let mut open: Vec<bool> = Vec::new();
        let mut collectives = 0;
        let mut states = Vec::with_capacity(records.as_slice().len());
        for record in records.as_slice() {
            match record.kind {
                RecordKind::Enter(region) => open.push(is_mpi(region)),
                RecordKind::Leave(_) => {
                    let _left = open.pop();
                }
                RecordKind::MpiCollectiveEnd => collectives += 1,
                _ => {}
            }
            states.push(State { has_room: !open.is_empty() && !open.contains(&true), collectives });
        }
        Ok(Self { process, records, states })
    }

    /// The place for an operation: the longest period of its run in which the thread recorded nothing and was outside
    /// MPI calls. There it waits for the operation. (NCCL may report the end after the thread continued.)
    pub(super) fn longest_gap(&self, begin: u64, end: u64) -> Option<Gap> {
        let all = self.records.as_slice();
        let first = all.partition_point(|record| record.time <= begin).saturating_sub(1);
        let rest = all.get(first..)?.iter().zip(self.states.get(first..)?);
        let ends = all.iter().map(|record| record.time).skip(first + 1).chain([u64::MAX]);
        let mut longest: Option<Gap> = None;
        for ((record, state), next) in rest.zip(ends).take_while(|((record, _), _)| record.time < end) {
            let gap =
                Gap { begin: begin.max(record.time + 1).min(next), end: end.min(next), collectives: state.collectives };
            let length = |gap: &Gap| gap.end.saturating_sub(gap.begin);
            if state.has_room && longest.as_ref().is_none_or(|longest| length(&gap) > length(longest)) {
                longest = Some(gap);
            }
        }
        longest
    }
}
