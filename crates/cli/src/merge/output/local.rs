//! Local definitions of a location of Score-P's that got more events.

use std::collections::{BTreeSet, HashMap};

use anyhow::{Context as _, Result};
use otf2::verbatim::ReferenceKind;
use otf2::{ArchiveWriter, LocalDefinitions, LocationRef, MappingType};

use crate::merge::definitions::Ends;
use crate::merge::scorep::ScoreP;

/// What events refer to by numbers of the process, but for locations: those of NCCL's archive refer to none.
pub(super) const MAPPED: &[(MappingType, ReferenceKind)] = &[
    (MappingType::String, ReferenceKind::String),
    (MappingType::Attribute, ReferenceKind::Attribute),
    (MappingType::Region, ReferenceKind::Region),
    (MappingType::Group, ReferenceKind::Group),
    (MappingType::Metric, ReferenceKind::Metric),
    (MappingType::Comm, ReferenceKind::Comm),
    (MappingType::Parameter, ReferenceKind::Parameter),
    (MappingType::RmaWin, ReferenceKind::RmaWin),
    (MappingType::SourceCodeLocation, ReferenceKind::SourceCodeLocation),
    (MappingType::CallingContext, ReferenceKind::CallingContext),
    (MappingType::InterruptGenerator, ReferenceKind::InterruptGenerator),
    (MappingType::IoFile, ReferenceKind::IoFile),
    (MappingType::IoHandle, ReferenceKind::IoHandle),
];

/// What the numbers in a location's events stand for: those that it had, and behind them all definitions that were
/// added. Most stand for themselves.
pub(in crate::merge) struct LocalNumbers {
    before: LocalDefinitions,
    tables: Vec<(ReferenceKind, MappingType, Vec<u64>)>,
    /// For each kind with a table, the local number of each definition.
    locals: HashMap<ReferenceKind, HashMap<u64, u64>>,
}

impl LocalNumbers {
    /// Reads what a location had.
    pub(in crate::merge) fn read(scorep: &ScoreP, location: LocationRef, ends: &Ends) -> Result<Self> {
        let before = scorep.archive.local_definitions(location).context("cannot read local definitions")?;
        let mut tables = Vec::new();
        let mut locals = HashMap::new();
        for (mapping, kind) in MAPPED {
            let Some(table) = before.mapping_tables.get(mapping) else {
                continue;
            };
            let had = table.pairs.last_key_value().map_or(0, |(local, _)| local + 1);
            let mut globals: Vec<u64> =
                (0..had.max(ends.of(*kind))).map(|local| table.pairs.get(&local).copied().unwrap_or(local)).collect();
            let known: BTreeSet<u64> = globals.iter().copied().collect();
            globals.extend((0..had).filter(|global| !known.contains(global)));
            let local = (0..).zip(&globals).map(|(local, global)| (*global, local));
            locals.insert(*kind, local.collect());
            tables.push((*kind, *mapping, globals));
        }
        Ok(Self { before, tables, locals })
    }

    /// The number by which an event refers to a definition.
    pub(in crate::merge) fn of(&self, kind: ReferenceKind, global: u64) -> u64 {
        let local = self.locals.get(&kind).and_then(|locals| locals.get(&global));
        local.copied().unwrap_or(global)
    }

    /// Writes them, with the clock offsets that there were.
    pub(in crate::merge) fn write(&self, writer: &mut ArchiveWriter, location: LocationRef) -> Result<()> {
        let mut to = writer.local_definitions(location)?;
        for (_, mapping, globals) in &self.tables {
            let globals: Result<Vec<u32>, _> = globals.iter().map(|global| u32::try_from(*global)).collect();
            to.mapping_table_dense(*mapping, &globals.context("there are more definitions than OTF2 can number")?)?;
        }
        for (mapping, table) in &self.before.mapping_tables {
            if MAPPED.iter().all(|(known, _)| known != mapping) {
                let pairs: Vec<(u64, u64)> = table.pairs.iter().map(|(local, global)| (*local, *global)).collect();
                to.mapping_table_sparse(*mapping, &pairs)?;
            }
        }
        for offset in &self.before.clock_offsets {
            to.clock_offset(offset.time, offset.offset, offset.standard_deviation)?;
        }
        Ok(to.close()?)
    }
}
