//! The anchor file of the merged archive: Score-P's texts and properties, then NCCL's.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use anyhow::{Context as _, Result};
use otf2::ArchiveWriter;
use schema::{Lines, Statements, within_anchor};
use small_sort::Gather;

use crate::inputs::Inputs;
use crate::nccl::Nccl;
use crate::scorep::ScoreP;

/// By this property Score-P guarantees that no MPI communication is missing.
const COMPLETE: &str = "OTF2::MPI_COMMUNICATION_COMPLETE";

/// Starts the merged archive, with the statements of these NCCL archives.
pub(crate) fn begin(inputs: &Inputs, nccls: &[Nccl], directory: &Path) -> Result<ArchiveWriter> {
    let first = &inputs.first().archive;
    let mut writer = ArchiveWriter::create_with_chunks(directory, "traces", definitions_chunk_bytes(inputs.first())?)?;
    let creators: BTreeSet<&str> = inputs.scoreps.iter().map(|it| it.archive.creator()).gather();
    let creators: Vec<&str> = creators.into_iter().collect();
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

/// Local definitions in a single chunk can be read with a larger chunk size; others need their own size.
fn definitions_chunk_bytes(scorep: &ScoreP) -> Result<u64> {
    let own = scorep.archive.definitions_chunk_bytes();
    for location in scorep.definitions.locations.keys() {
        let file = scorep.archive.definition_file(*location);
        match std::fs::metadata(&file) {
            Ok(metadata) if metadata.len() > own => return Ok(own),
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                return Err(error).with_context(|| format!("cannot read {}", file.display()));
            }
            _ => {}
        }
    }
    Ok(own.max(otf2::DEFINITIONS_CHUNK_BYTES))
}
