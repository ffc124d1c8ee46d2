//! The ranks of a written part, for readers that have no journal of it.

use std::path::Path;

use super::{CommDefinition, LocationKind, Manifest};
use crate::error::Error;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WrittenPart {
    /// The events that were recorded, as NCCL's activation mask.
    pub event_mask: u32,
    /// Events of which a flight recording did not keep the start.
    pub removed: u64,
    pub ranks: Vec<WrittenRank>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WrittenRank {
    pub comm: CommDefinition,
    pub rank: u32,
    /// Its GPU, by the process's own numbers.
    pub gpu: u32,
    pub collectives: u64,
}

impl WrittenPart {
    pub fn read(part: &Path) -> Result<Self, Error> {
        let manifest = Manifest::read(part)?;
        let ranks = manifest.locations.iter().filter(|location| location.sibling == 0).filter_map(|location| {
            let LocationKind::Communicator { comm, rank, gpu } = location.kind else {
                return None;
            };
            let comm = manifest.comms.get(usize::try_from(comm).ok()?)?.clone();
            Some(WrittenRank { comm, rank, gpu, collectives: location.collectives })
        });
        Ok(Self { event_mask: manifest.process.event_mask, removed: manifest.counts.removed, ranks: ranks.collect() })
    }
}
