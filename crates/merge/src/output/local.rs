//! Local definitions: map the numbers in a location's event file to those of the merged archive.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use anyhow::{Context as _, Result};
use otf2::verbatim::ReferenceKind;
use otf2::{
    Archive, ArchiveWriter, ClockOffset, Definitions, LocalDefWriter, LocalDefinitions, LocationRef, MappingTable,
    MappingType,
};
use small_sort::Gather;

use crate::calls::Thread;
use crate::definitions::numbers::Numbers;
use crate::definitions::{Merged, TOO_MANY};
use crate::inputs::Local;
use crate::scorep::ScoreP;

pub(crate) struct Appended<'a> {
    pub(super) archive: &'a Archive,
    pub(super) definitions: &'a Definitions,
    pub(super) is_scorep: bool,
    pub(super) numbers: Numbers,
    pub(super) locals: Vec<&'a Local>,
    /// Threads whose events are on Score-P's locations.
    pub(super) threads: &'a [Thread],
}

/// What events refer to by process-local numbers, except locations: events of NCCL's archive refer to none.
const MAPPED: &[(MappingType, ReferenceKind)] = &[
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

/// The global number of a local one.
fn global(table: Option<&MappingTable>, local: u64) -> u64 {
    table.and_then(|table| table.pairs.get(&local)).copied().unwrap_or(local)
}

/// One more than the highest local number.
fn end(table: &MappingTable) -> u64 {
    table.pairs.last_key_value().map_or(0, |(local, _)| local + 1)
}

fn write_dense(to: &mut LocalDefWriter<'_>, mapping: MappingType, globals: impl Iterator<Item = u64>) -> Result<()> {
    let globals = globals.map(u32::try_from).collect::<Result<Vec<u32>, _>>().context(TOO_MANY)?;
    Ok(to.mapping_table_dense(mapping, &globals)?)
}

fn write_sparse(to: &mut LocalDefWriter<'_>, mapping: MappingType, pairs: &BTreeMap<u64, u64>) -> Result<()> {
    let pairs: Vec<(u64, u64)> = pairs.iter().map(|(local, global)| (*local, *global)).collect();
    Ok(to.mapping_table_sparse(mapping, &pairs)?)
}

fn write_offsets(mut to: LocalDefWriter<'_>, offsets: &[ClockOffset]) -> Result<()> {
    for offset in offsets {
        to.clock_offset(offset.time, offset.offset, offset.standard_deviation)?;
    }
    Ok(to.close()?)
}

/// For each kind that events refer to, the new numbers of an appended archive.
pub(super) type Tables = Vec<(MappingType, Vec<u64>)>;

pub(super) fn tables(archive: &Appended<'_>) -> Tables {
    MAPPED.iter().map(|(mapping, kind)| (*mapping, archive.numbers.all(*kind))).collect()
}

pub(super) fn write_appended(
    writer: &mut ArchiveWriter,
    location: LocationRef,
    archive: &Appended<'_>,
    tables: &Tables,
    local: &Local,
) -> Result<()> {
    let before = archive.archive.local_definitions(local.locations[0])?;
    let mut to = writer.local_definitions(location)?;
    for (mapping, new) in tables {
        map(&mut to, *mapping, new, before.mapping_tables.get(mapping))?;
    }
    if archive.is_scorep {
        // A trace of a single process has few locations and groups.
        let new = |old: u64| archive.numbers.get(ReferenceKind::Location, old).unwrap_or(old);
        let mut pairs: BTreeMap<u64, u64> =
            archive.definitions.locations.keys().map(|it| (it.get(), new(it.get()))).gather();
        if let Some(table) = before.mapping_tables.get(&MappingType::Location) {
            pairs.extend(table.pairs.iter().map(|(local, old)| (*local, new(*old))));
        }
        write_sparse(&mut to, MappingType::Location, &pairs)?;
        let groups = archive.numbers.all(ReferenceKind::LocationGroup);
        map(&mut to, MappingType::LocationGroup, &groups, before.mapping_tables.get(&MappingType::LocationGroup))?;
    }
    write_offsets(to, &local.after)
}

/// Maps local numbers to the new numbers of the archive's definitions that they stood for.
fn map(to: &mut LocalDefWriter<'_>, mapping: MappingType, new: &[u64], table: Option<&MappingTable>) -> Result<()> {
    let renumbered = |old: u64| usize::try_from(old).ok().and_then(|at| new.get(at)).copied().unwrap_or(old);
    let length = match table {
        Some(table) if table.is_complete => end(table),
        table => table.map_or(0, end).max(new.len() as u64),
    };
    write_dense(to, mapping, (0..length).map(|local| renumbered(global(table, local))))
}

/// The local numbers for a Score-P location that gets more events: its own, then all definitions that were added.
pub(crate) struct LocalNumbers {
    before: LocalDefinitions,
    tables: Vec<(MappingType, Vec<u64>)>,
    /// For each kind with a table, the local number of each definition.
    locals: HashMap<ReferenceKind, HashMap<u64, u64>>,
}

impl LocalNumbers {
    pub(crate) fn read(scorep: &ScoreP, location: LocationRef, merged: &Merged) -> Result<Self> {
        let before = scorep.archive.local_definitions(location).context("cannot read local definitions")?;
        let mut tables = Vec::new();
        let mut locals = HashMap::new();
        for (mapping, kind) in MAPPED {
            let Some(table) = before.mapping_tables.get(mapping) else {
                continue;
            };
            let had = end(table);
            let mut globals: Vec<u64> =
                (0..had.max(merged.end(*kind))).map(|local| global(Some(table), local)).collect();
            let known: BTreeSet<u64> = globals.iter().copied().collect();
            globals.extend((0..had).filter(|global| !known.contains(global)));
            locals.insert(*kind, (0..).zip(&globals).map(|(local, global)| (*global, local)).collect());
            tables.push((*mapping, globals));
        }
        Ok(Self { before, tables, locals })
    }

    pub(crate) fn of(&self, kind: ReferenceKind, global: u64) -> u64 {
        self.locals.get(&kind).and_then(|locals| locals.get(&global)).copied().unwrap_or(global)
    }

    pub(crate) fn write(&self, writer: &mut ArchiveWriter, location: LocationRef) -> Result<()> {
        let mut to = writer.local_definitions(location)?;
        for (mapping, globals) in &self.tables {
            write_dense(&mut to, *mapping, globals.iter().copied())?;
        }
        for (mapping, table) in &self.before.mapping_tables {
            if MAPPED.iter().all(|(known, _)| known != mapping) {
                write_sparse(&mut to, *mapping, &table.pairs)?;
            }
        }
        write_offsets(to, &self.before.clock_offsets)
    }
}
