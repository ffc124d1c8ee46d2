//! The first thread of a process of Score-P's, and where in its time operations of NCCL's have room.

use std::collections::BTreeSet;

use anyhow::{Context as _, Result};
use otf2::{MappingType, Paradigm, RegionRef};

use crate::merge::records::{ENTER, LEAVE, MPI_COLLECTIVE_END, Records};
use crate::merge::scorep::{Process, ScoreP};

/// The first thread of a process: the only one whose calls of MPI the analyser reads.
pub(super) struct Host<'a> {
    pub(super) process: &'a Process,
    pub(super) records: Records,
    /// After each record.
    states: Vec<State>,
}

#[derive(Clone, Copy, Debug)]
struct State {
    /// Whether it is in a region, and in none of MPI's.
    has_room: bool,
    /// How many collectives of MPI's it has ended.
    collectives: usize,
}

/// Where an operation has room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) begin: u64,
    pub(super) end: u64,
    /// How many collectives of MPI's the thread has ended before.
    pub(super) collectives: usize,
}

impl<'a> Host<'a> {
    /// Reads its events.
    pub(super) fn read(scorep: &ScoreP, process: &'a Process) -> Result<Self> {
        let records = Records::read(&scorep.archive.event_file(process.master))?;
        let local = scorep.archive.local_definitions(process.master).context("cannot read local definitions")?;
        let regions = local.mapping_tables.get(&MappingType::Region);
        let of_mpi = scorep.definitions.regions.iter().filter(|(_, region)| region.paradigm == Paradigm::Mpi);
        let of_mpi: BTreeSet<RegionRef> = of_mpi.map(|(reference, _)| *reference).collect();
        let is_mpi = |region: u32| {
            let global = regions.and_then(|table| table.pairs.get(&region.into())).copied();
            let global = global.map_or(region, |global| u32::try_from(global).unwrap_or(u32::MAX));
            of_mpi.contains(&RegionRef::new(global))
        };
        let mut open: Vec<bool> = Vec::new();
        let mut collectives = 0;
        let mut states = Vec::with_capacity(records.all.len());
        for record in &records.all {
            match (record.kind, record.region) {
                (ENTER, Some(region)) => open.push(is_mpi(region)),
                (LEAVE, _) => {
                    let _left = open.pop();
                }
                (MPI_COLLECTIVE_END, _) => collectives += 1,
                _ => {}
            }
            states.push(State { has_room: !open.is_empty() && !open.contains(&true), collectives });
        }
        Ok(Self { process, records, states })
    }

    /// Where an operation has room: the longest stretch, while it ran, in which the thread recorded nothing and was in
    /// no call of MPI's. There it waits for the operation. (NCCL may report the end when the thread has gone on.)
    pub(super) fn place(&self, begin: u64, end: u64) -> Option<Place> {
        let all = &self.records.all;
        let first = all.partition_point(|record| record.time <= begin).saturating_sub(1);
        let rest = all.get(first..)?.iter().zip(self.states.get(first..)?);
        let ends = all.iter().map(|record| record.time).skip(first + 1).chain([u64::MAX]);
        let mut longest: Option<Place> = None;
        for ((record, state), next) in rest.zip(ends).take_while(|((record, _), _)| record.time < end) {
            let place = Place {
                begin: begin.max(record.time + 1).min(next),
                end: end.min(next),
                collectives: state.collectives,
            };
            let length = |place: &Place| place.end.saturating_sub(place.begin);
            if state.has_room && longest.as_ref().is_none_or(|longest| length(&place) > length(longest)) {
                longest = Some(place);
            }
        }
        longest
    }
}
