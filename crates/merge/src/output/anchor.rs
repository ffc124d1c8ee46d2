//! The anchor file of the merged archive: Score-P's texts and properties, then NCCL's.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use anyhow::{Context as _, Result};
use otf2::{Archive, ArchiveWriter, ChunkBytes, LargestDefinition, LocationRef};
use schema::{Lines, Statements, within_anchor};
use small_sort::Gather;

use super::local::{self, Appended};
use crate::definitions::Merged;
use crate::inputs::Inputs;
use crate::nccl::Nccl;

/// By this property Score-P guarantees that no MPI communication is missing.
const COMPLETE: &str = "OTF2::MPI_COMMUNICATION_COMPLETE";
/// Stands for the creator of an archive that names none: by `NCCL::MERGED` readers know merged archives.
const UNNAMED: &str = "a writer that gives no name";

/// Starts the merged archive, with the statements of these NCCL archives.
pub(crate) fn begin(inputs: &Inputs, nccls: &[Nccl], directory: &Path, chunks: ChunkBytes) -> Result<ArchiveWriter> {
    let first = &inputs.first().archive;
    let mut writer = ArchiveWriter::create_with_chunks(directory, "traces", chunks)?;
    let creator = |archive: &'_ Archive| match archive.creator().trim() {
        "" => UNNAMED.to_owned(),
        creator => creator.to_owned(),
    };
    let creators: BTreeSet<String> = inputs.scoreps.iter().map(|it| creator(&it.archive)).gather();
    let creators: Vec<String> = creators.into_iter().collect();
    let own = concat!("nccl-profiler-otf2 ", env!("CARGO_PKG_VERSION"));
    writer.set_creator(&format!("{}, {own}", creators.join(", ")))?;
    writer.set_machine_name(first.machine_name())?;
    writer.set_description(match first.description() {
        "" => "MPI and NCCL: a trace of Score-P's with what NCCL did",
        description => description,
    })?;
    let statements = nccls.iter().map(|nccl| Statements::read(nccl.trace.archive.properties()));
    let mut statements = statements.reduce(|all, other| all.merged(&other)).unwrap_or_default();
    let pairs = inputs.pairs.iter();
    let pairs = pairs.map(|pair| format!("{} is {} by {}", inputs.ours(pair).name, inputs.theirs(pair).id, pair.by));
    statements.merged = Lines::of(creators);
    statements.merged_map = Lines::of(pairs);
    statements.merged_clock = Lines::of([inputs.clock()]);
    let is_complete = statements.lacks().next().is_none();
    let mut properties: BTreeMap<String, String> = BTreeMap::new();
    for (name, value) in inputs.scoreps.iter().flat_map(|it| it.archive.properties()) {
        let value = if name == COMPLETE && !is_complete { "false" } else { value };
        properties.entry(name.clone()).or_insert_with(|| value.to_owned());
    }
    properties.extend(statements.write());
    for (name, value) in within_anchor(properties.into_iter().collect()) {
        writer.set_property(&name, &value)?;
    }
    Ok(writer)
}

/// Event chunks are those of the first trace of Score-P's, whose files are not rewritten. Its local definitions in
/// several chunks need their own size; those in a single chunk can be read with any that holds them.
pub(crate) fn chunks(inputs: &Inputs, merged: &Merged, appended: &[Appended<'_>]) -> Result<ChunkBytes> {
    let scorep = inputs.first();
    let (events, own) = (scorep.archive.event_chunk_bytes(), scorep.archive.definitions_chunk_bytes());
    let mut longest = 0;
    for location in scorep.definitions.locations.keys() {
        longest = longest.max(length_of_definitions(&scorep.archive, *location)?);
    }
    if longest > own {
        return Ok(ChunkBytes { events, definitions: own });
    }
    let mut largest = LargestDefinition::default();
    largest.bytes(longest);
    merged.all().iter().for_each(|definition| largest.definition(definition));
    // What a location's table maps already, in two bytes or more each, is added to what it will map.
    largest.mapping_table(merged.most_of_a_kind() + longest / 2);
    for archive in appended {
        let mut longest = 0;
        for local in &archive.locals {
            longest = longest.max(length_of_definitions(archive.archive, local.locations[0])?);
        }
        let tables = local::tables(archive);
        let most = tables.iter().map(|(_, numbers)| numbers.len() as u64).max();
        largest.mapping_table(most.unwrap_or(0).max(longest / 2));
    }
    Ok(ChunkBytes { events, definitions: largest.chunk_bytes() })
}

fn length_of_definitions(archive: &Archive, location: LocationRef) -> Result<u64> {
    let file = archive.definition_file(location);
    match std::fs::metadata(&file) {
        Ok(metadata) => Ok(metadata.len()),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(0),
        Err(error) => Err(error).with_context(|| format!("cannot read {}", file.display())),
    }
}
