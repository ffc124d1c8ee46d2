//! Writes the merged archive: files of both are linked, definitions and the anchor are new.

pub(super) mod anchor;
pub(super) mod local;
mod thread;
pub(super) mod verify;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use anyhow::{Context as _, Result, bail};
use otf2::verbatim::{Definition, ReferenceKind};
use otf2::{Archive, ArchiveWriter, Definitions, LocalDefWriter, LocationRef, MappingType};
use trace::Progress as _;

use super::calls::Thread;
use super::clocks::Local;
use super::definitions::Ends;
use super::definitions::numbers::Numbers;
use super::scorep::ScoreP;
use crate::progress::Bar;
use crate::staging::link;
use anchor::AnchorText;
use local::MAPPED;

/// Name of the archive, as Score-P has it, too.
const TRACES: &str = "traces";

/// An archive that is put behind the first.
#[derive(Debug)]
pub(super) struct Appended<'a> {
    pub(super) archive: &'a Archive,
    pub(super) definitions: &'a Definitions,
    pub(super) numbers: Numbers,
    /// Its locations, with their clocks.
    pub(super) locals: &'a [Local],
    /// Those whose events are on locations of Score-P's.
    pub(super) threads: &'a [Thread],
}

/// The new numbers of all that events refer to, in the order of [`MAPPED`].
type Tables = Vec<Vec<u64>>;

/// Writes everything into `directory`.
pub(super) fn write(
    directory: &Path,
    scorep: &ScoreP,
    appended: &[Appended<'_>],
    definitions: &[Definition],
    ends: &Ends,
    anchor: &AnchorText,
    bar: &Bar,
) -> Result<()> {
    let mut writer = begin(directory, scorep, anchor)?;
    let theirs = scorep.definitions.locations.len();
    let ours = appended.iter().map(|it| it.definitions.locations.len());
    bar.begin("locations", (theirs + ours.sum::<usize>()) as u64);
    let threads = appended.iter().flat_map(|it| it.threads);
    link_theirs(&writer, scorep, &threads.map(|thread| thread.theirs).collect(), bar)?;
    for archive in appended {
        link_ours(&mut writer, archive, bar)?;
        for thread in archive.threads {
            thread::write(&mut writer, directory, scorep, (archive.archive, &archive.numbers), thread, ends)?;
        }
    }
    bar.end();
    let mut to = writer.definitions()?;
    for definition in definitions {
        to.verbatim(definition)?;
    }
    writer.close().context("cannot write the merged archive")
}

/// Begins with the anchor file.
pub(super) fn begin(directory: &Path, scorep: &ScoreP, anchor: &AnchorText) -> Result<ArchiveWriter> {
    let mut writer = ArchiveWriter::create_with_chunks(directory, TRACES, definitions_chunk_bytes(scorep)?)?;
    writer.set_creator(&anchor.creator)?;
    writer.set_machine_name(&anchor.machine_name)?;
    writer.set_description(&anchor.description)?;
    for (name, value) in &anchor.properties {
        writer.set_property(name, value)?;
    }
    Ok(writer)
}

/// Local definitions that have one chunk can be read with a larger one; others need their own.
fn definitions_chunk_bytes(scorep: &ScoreP) -> Result<u64> {
    let own = scorep.archive.definitions_chunk_bytes();
    for location in scorep.definitions.locations.keys() {
        let file = scorep.archive.definition_file(*location);
        match std::fs::metadata(&file) {
            Ok(metadata) if metadata.len() > own => return Ok(own),
            Ok(_) => {}
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            Err(error) => {
                return Err(error).with_context(|| format!("cannot read {}", file.display()));
            }
        }
    }
    Ok(own.max(otf2::DEFINITIONS_CHUNK_BYTES))
}

/// Score-P's files as they are, under the names they have; but for some locations.
pub(super) fn link_theirs(
    writer: &ArchiveWriter,
    scorep: &ScoreP,
    without: &BTreeSet<LocationRef>,
    bar: &Bar,
) -> Result<()> {
    let archive = &scorep.archive;
    let all = scorep.definitions.locations.iter();
    for (location, definition) in all.filter(|(location, _)| !without.contains(location)) {
        let definitions = archive.definition_file(*location);
        if definitions.exists() {
            link(&definitions, &writer.definition_file(*location))?;
        }
        let events = archive.event_file(*location);
        link_events(&events, definition.number_of_events, writer, *location)?;
        bar.step();
    }
    let markers = |archive: &Archive| archive.anchor_file().with_extension("marker");
    let from = markers(archive);
    if from.exists() {
        link(&from, &writer.anchor_file().with_extension("marker"))?;
    }
    Ok(())
}

fn link_events(from: &Path, events: u64, writer: &ArchiveWriter, to: LocationRef) -> Result<()> {
    let to = writer.event_file(to);
    if from.exists() {
        return link(from, &to);
    }
    if events > 0 {
        bail!("{}: not there, but it is said to have {events} events", from.display());
    }
    // Readers fail on a location without a file.
    Ok(otf2::write_stub_events(&to)?)
}

/// The events of NCCL's archive as they are, under new names, and what makes them mean the same there.
fn link_ours(writer: &mut ArchiveWriter, archive: &Appended<'_>, bar: &Bar) -> Result<()> {
    let all = |(_, kind): &(_, ReferenceKind)| archive.numbers.all(*kind);
    let tables: Tables = MAPPED.iter().map(all).collect();
    for local in archive.locals {
        let mut first: Option<LocationRef> = None;
        for old in &local.locations {
            bar.step();
            if archive.threads.iter().any(|thread| thread.ours == *old) {
                continue;
            }
            let number = archive.numbers.get(ReferenceKind::Location, old.get());
            let new = LocationRef::new(number.unwrap_or(u64::MAX));
            let events = archive.definitions.locations.get(old);
            let events = events.map_or(0, |location| location.number_of_events);
            link_events(&archive.archive.event_file(*old), events, writer, new)?;
            match first {
                Some(first) => link(&writer.definition_file(first), &writer.definition_file(new))?,
                None => {
                    write_local(writer, new, archive, &tables, local)?;
                    first = Some(new);
                }
            }
        }
    }
    Ok(())
}

fn write_local(
    writer: &mut ArchiveWriter,
    location: LocationRef,
    archive: &Appended<'_>,
    tables: &Tables,
    local: &Local,
) -> Result<()> {
    let before = match local.locations.first() {
        Some(old) => archive.archive.local_definitions(*old)?,
        None => otf2::LocalDefinitions::default(),
    };
    let mut to = writer.local_definitions(location)?;
    for ((mapping, _), new) in MAPPED.iter().zip(tables) {
        let table = before.mapping_tables.get(mapping);
        map(&mut to, *mapping, new, table)?;
    }
    if local.is_scorep {
        map_locations(&mut to, archive, &before)?;
    }
    for offset in &local.after {
        to.clock_offset(offset.time, offset.offset, offset.standard_deviation)?;
    }
    Ok(to.close()?)
}

/// Locations and their groups: a trace of a single process has few.
fn map_locations(to: &mut LocalDefWriter<'_>, archive: &Appended<'_>, before: &otf2::LocalDefinitions) -> Result<()> {
    let numbers = &archive.numbers;
    let new = |old: u64| numbers.get(ReferenceKind::Location, old).unwrap_or(old);
    let all = archive.definitions.locations.keys();
    let mut pairs: BTreeMap<u64, u64> = all.map(|it| (it.get(), new(it.get()))).collect();
    if let Some(table) = before.mapping_tables.get(&MappingType::Location) {
        pairs.extend(table.pairs.iter().map(|(local, old)| (*local, new(*old))));
    }
    let pairs: Vec<(u64, u64)> = pairs.into_iter().collect();
    to.mapping_table_sparse(MappingType::Location, &pairs)?;
    let table = before.mapping_tables.get(&MappingType::LocationGroup);
    let groups = numbers.all(ReferenceKind::LocationGroup);
    map(to, MappingType::LocationGroup, &groups, table)
}

/// A local number stood for one of the archive's, which has become another.
fn map(
    to: &mut LocalDefWriter<'_>,
    mapping: MappingType,
    new: &[u64],
    table: Option<&otf2::MappingTable>,
) -> Result<()> {
    let renumbered = |old: u64| {
        let place = usize::try_from(old).ok();
        place.and_then(|place| new.get(place)).copied().unwrap_or(old)
    };
    let last = table.and_then(|table| table.pairs.last_key_value());
    let end = last.map_or(0, |(local, _)| local + 1);
    let length = match table {
        Some(table) if table.is_complete => end,
        _ => end.max(new.len() as u64),
    };
    let stands_for = |local: u64| {
        let pair = table.and_then(|table| table.pairs.get(&local));
        renumbered(pair.copied().unwrap_or(local))
    };
    let globals: Result<Vec<u32>, _> = (0..length).map(|it| u32::try_from(stands_for(it))).collect();
    let globals = globals.context("there are more definitions than OTF2 can number")?;
    Ok(to.mapping_table_dense(mapping, &globals)?)
}
