//! Writes an archive from the parts of its processes.

use std::path::Path;

use otf2::verbatim::rewrite_events;
use otf2::{
    ArchiveWriter, AttributeRef, ChunkBytes, CommRef, EVENT_CHUNK_BYTES, GlobalDefinitions, GroupRef,
    LEAST_CHUNK_BYTES, LargestDefinition, LocationGroupRef, LocationRef, MappingType, MetricMemberRef, MetricRef,
    PartWriter, RegionRef, RmaWinRef, StringRef, SystemTreeNodeRef,
};

use crate::archive::communicators::Communicators;
use crate::archive::definitions::topology::Topology;
use crate::archive::definitions::{Definitions, Sources, clock};
use crate::archive::matching::Matching;
use crate::archive::merged::{Strings, attributes, regions};
use crate::archive::origins::Origins;
use crate::archive::processes::{Parts, Process};
use crate::archive::properties::statements;
use crate::error::{Error, io_error, otf2_error};
use crate::part::files::{TRACES, event_file};
use crate::part::manifest::Manifest;
use crate::workers::Workers;
use clocks::fit::approximate;

use journal::host;
use nccl_events::Progress;
use nccl_events::schema::{Statements, within_anchor};

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ArchiveSize {
    pub locations: u64,
    pub events: u64,
    pub comms: u64,
    pub ranks_missing: u64,
    /// Collectives that not all recorded ranks have.
    pub collectives_unmatched: u64,
    /// Positions at which ranks of a communicator called different collectives.
    pub mismatches: u64,
}

/// For each kind of definition, the archive's numbers of each part's definitions.
type Maps<'a> = [(MappingType, &'a [Vec<u32>]); 5];

/// Writes the archive into `directory`: links event files and makes all others. All get private modes at
/// once: looking at each file of a large archive again takes long.
pub(super) fn write(directory: &Path, parts: &Parts<'_>, progress: &dyn Progress) -> Result<ArchiveSize, Error> {
    let processes = parts.processes;
    let manifests: Vec<&Manifest> = processes.iter().map(|process| &process.manifest).collect();
    let communicators = Communicators::of(processes);
    let origins = Origins::of(processes, &communicators);
    let topology = Topology::of(parts.dumps, processes, &communicators);
    let mut strings = Strings::default();
    let string_maps = number_strings(processes, &origins, &mut strings);
    let matching = Matching::of(processes, &communicators);
    let attributes = attributes(&manifests);
    let regions = regions(&manifests);
    let sources = Sources {
        processes,
        communicators: &communicators,
        origins: &origins,
        topology: &topology,
        attributes: &attributes.all,
        regions: &regions.all,
        options: parts.options,
    };
    let merged = Definitions::of(&sources, strings);
    let maps: Maps<'_> = [
        (MappingType::String, &string_maps),
        (MappingType::Attribute, &attributes.maps),
        (MappingType::Region, &regions.maps),
        (MappingType::Comm, &communicators.maps),
        // A window has the number of its communicator.
        (MappingType::RmaWin, &communicators.maps),
    ];
    let failed = || otf2_error(directory);
    let chunks = ChunkBytes { events: EVENT_CHUNK_BYTES, definitions: largest(&merged, &maps).chunk_bytes() };
    let mut writer = ArchiveWriter::create_with_chunks(directory, TRACES, chunks).map_err(failed())?;
    host::seal_alone(&directory.join(TRACES));
    let mut statements = statements(parts, &communicators);
    matching.add_to(&mut statements);
    origins.add_to(&mut statements);
    topology.add_to(&mut statements);
    describe(&mut writer, &statements).map_err(failed())?;
    stubs(&mut writer, &communicators)?;
    files_of_locations((directory, chunks), processes, &maps, progress)?;
    let mut definitions = writer.definitions().map_err(failed())?;
    definitions.clock_properties(&clock(processes)).map_err(failed())?;
    define(&mut definitions, &merged).map_err(failed())?;
    writer.close().map_err(failed())?;
    Ok(ArchiveSize {
        locations: merged.locations.len() as u64,
        events: manifests.iter().map(|manifest| manifest.events()).sum(),
        comms: communicators.all.len() as u64,
        ranks_missing: communicators.all.iter().map(|comm| comm.missing.len() as u64 + comm.unlocated).sum(),
        collectives_unmatched: communicators.all.iter().map(|comm| comm.unmatched).sum(),
        mismatches: matching.mismatches.len() as u64,
    })
}

/// The largest definition of the archive, global or local.
fn largest(merged: &Definitions, maps: &Maps<'_>) -> LargestDefinition {
    let mut largest = LargestDefinition::default();
    merged.strings.all().iter().for_each(|text| largest.text(text));
    merged.groups.iter().for_each(|group| largest.group(&group.members));
    let tables = maps.iter().flat_map(|(_, tables)| *tables);
    tables.for_each(|table| largest.mapping_table(table.len() as u64));
    largest
}

/// Numbers the strings of all parts; placeholders for ranks of other processes are resolved.
fn number_strings(processes: &[Process], origins: &Origins<'_>, strings: &mut Strings) -> Vec<Vec<u32>> {
    let maps = processes.iter().map(|process| {
        let numbers = process.manifest.strings.iter().map(|text| match origins.resolve(process, text) {
            Some(origin) => strings.number(&origin),
            None => strings.number(text),
        });
        numbers.collect()
    });
    maps.collect()
}

fn describe(writer: &mut ArchiveWriter, statements: &Statements) -> otf2::Result<()> {
    writer.set_creator(concat!("nccl-profiler-otf2 ", env!("CARGO_PKG_VERSION")))?;
    writer.set_description("What NCCL did, recorded through its profiler interface")?;
    for (name, value) in within_anchor(statements.write()) {
        writer.set_property(&name, &value)?;
    }
    Ok(())
}

/// Writes the files of ranks without a part.
fn stubs(writer: &mut ArchiveWriter, communicators: &Communicators) -> Result<(), Error> {
    let mut stubs = communicators.stubs.iter().map(|stub| LocationRef::new(stub.location));
    for stub in stubs.clone() {
        write_stub(&writer.event_file(stub))?;
    }
    if let Some(first) = stubs.next() {
        let file = writer.definition_file(first);
        writer.local_definitions(first).and_then(otf2::LocalDefWriter::close).map_err(otf2_error(&file))?;
        host::seal_alone(&file);
        stubs.try_for_each(|stub| link(&file, &writer.definition_file(stub)))?;
    }
    Ok(())
}

fn write_stub(file: &Path) -> Result<(), Error> {
    otf2::write_stub_events(file).map_err(otf2_error(file))?;
    host::seal_alone(file);
    Ok(())
}

/// Links the event files (those of an older plugin, with other chunks, are written anew), and writes the local
/// definitions of all locations: maps from the part's numbers to the
/// archive's, and the clock. Parts keep their files, so that unify can be repeated when more parts come.
fn files_of_locations(
    (directory, chunks): (&Path, ChunkBytes),
    processes: &[Process],
    maps: &Maps<'_>,
    progress: &dyn Progress,
) -> Result<(), Error> {
    /// libotf2 searches all locations of a writer for each file.
    const OF_A_WRITER: usize = 256;
    let locations: usize = processes.iter().map(|it| it.ids.len()).sum();
    progress.begin("locations", locations as u64);
    let batches = vec![0; processes.len().div_ceil(OF_A_WRITER)];
    let written = Workers::new(None).map(&batches, |at| {
        let batch = || processes.iter().enumerate().skip(at * OF_A_WRITER).take(OF_A_WRITER);
        let most_bytes = batch().map(|process| local_bytes(process, maps)).max().unwrap_or(0);
        let is_short = most_bytes < LEAST_CHUNK_BYTES;
        let chunks = if is_short { ChunkBytes::default() } else { chunks };
        let writer = PartWriter::create_with_chunks(directory, TRACES, chunks);
        let mut writer = writer.map_err(otf2_error(directory))?;
        for (number, process) in batch() {
            link_events(&writer, process, progress)?;
            local_definitions(&mut writer, (number, process), maps)?;
        }
        writer.close().map_err(otf2_error(directory))
    });
    progress.end();
    written.into_iter().collect()
}

fn link_events(writer: &PartWriter, process: &Process, progress: &dyn Progress) -> Result<(), Error> {
    for (number, (id, location)) in process.locations().enumerate() {
        let to = writer.event_file(LocationRef::new(id));
        // The event file may be lost.
        match location.events {
            0 => write_stub(&to)?,
            _ => {
                let from = event_file(&process.directory, number);
                let chunk_bytes = process.manifest.event_chunk_bytes;
                if !rewrite_events(&from, chunk_bytes, &to, EVENT_CHUNK_BYTES).map_err(otf2_error(&from))? {
                    link(&from, &to)?;
                }
                // Whoever shared the part may not want to share the archive.
                host::seal_alone(&to);
            }
        }
        progress.step();
    }
    Ok(())
}

/// The most bytes of a process's local definitions: a number of 32 bits takes up to five, an offset less than 64.
fn local_bytes((number, process): (usize, &Process), maps: &Maps<'_>) -> u64 {
    let entries: usize = maps.iter().filter_map(|(_, tables)| tables.get(number)).map(Vec::len).sum();
    5 * entries as u64 + 64 * (process.clock_offsets().count() as u64 + 16)
}

/// All locations of a process have the same definitions, so one file is written and linked under the other names.
fn local_definitions(writer: &mut PartWriter, process: (usize, &Process), maps: &Maps<'_>) -> Result<(), Error> {
    let mut locations = process.1.ids.iter().map(|&id| LocationRef::new(id));
    let Some(first) = locations.next() else {
        return Ok(());
    };
    let file = writer.definition_file(first);
    write_definitions(writer, first, process, maps).map_err(otf2_error(&file))?;
    host::seal_alone(&file);
    locations.try_for_each(|location| link(&file, &writer.definition_file(location)))
}

fn write_definitions(
    writer: &mut PartWriter,
    location: LocationRef,
    (number, process): (usize, &Process),
    maps: &Maps<'_>,
) -> otf2::Result<()> {
    let mut local = writer.local_definitions(location)?;
    for (mapping, tables) in *maps {
        let table = tables.get(number).map_or(&[][..], Vec::as_slice);
        local.mapping_table_dense(mapping, table)?;
    }
    // A single offset has no effect, and readers differ in how they treat times before the first. So two equal offsets
    // enclose all events. A corrected clock has its own offsets, the same for all processes of its host.
    let uncertainty = process.correction.map.uncertainty.unwrap_or(0);
    if process.correction.knots().next().is_none() {
        let locations = process.manifest.locations.iter();
        let used = || locations.clone().filter(|location| location.events > 0);
        let first_ns = used().map(|location| location.first_ns).min().unwrap_or(0);
        let last_ns = used().map(|location| location.last_ns).max().unwrap_or(0);
        local.clock_offset(first_ns, process.offset_ns, 0.0)?;
        local.clock_offset(last_ns.saturating_add(1), process.offset_ns, 0.0)?;
    }
    for (ns, offset) in process.clock_offsets() {
        // OTF2 stores a standard deviation: here, of a uniform distribution within the bounds.
        local.clock_offset(ns, offset, approximate(uncertainty.into()) / 3.0_f64.sqrt())?;
    }
    local.close()
}

/// Copies on file systems without links or with a limit on them.
fn link(from: &Path, to: &Path) -> Result<(), Error> {
    if std::fs::hard_link(from, to).is_err() {
        std::fs::copy(from, to).map_err(io_error("copy", from))?;
    }
    Ok(())
}

fn define(definitions: &mut GlobalDefinitions<'_>, merged: &Definitions) -> otf2::Result<()> {
    for (number, text) in (0..).zip(merged.strings.all()) {
        definitions.string(StringRef::new(number), text)?;
    }
    for (number, node) in (0..).zip(&merged.nodes) {
        definitions.system_tree_node(SystemTreeNodeRef::new(number), node)?;
    }
    for (number, group) in (0..).zip(&merged.location_groups) {
        definitions.location_group(LocationGroupRef::new(number), group)?;
    }
    for (&id, location) in &merged.locations {
        definitions.location(LocationRef::new(id), location)?;
    }
    for (number, attribute) in (0..).zip(&merged.attributes) {
        definitions.attribute(AttributeRef::new(number), attribute)?;
    }
    for (number, region) in (0..).zip(&merged.regions) {
        definitions.region(RegionRef::new(number), region)?;
    }
    for (paradigm, record) in &merged.paradigms {
        definitions.paradigm(*paradigm, record)?;
    }
    for (number, group) in (0..).zip(&merged.groups) {
        definitions.group(GroupRef::new(number), group)?;
    }
    for (number, comm) in (0..).zip(&merged.comms) {
        definitions.comm(CommRef::new(number), comm)?;
    }
    for (number, win) in (0..).zip(&merged.windows) {
        definitions.rma_win(RmaWinRef::new(number), win)?;
    }
    // A class has one member, with the same number: an event has one metric.
    for (number, (member, class)) in (0..).zip(&merged.metrics) {
        definitions.metric_member(MetricMemberRef::new(number), member)?;
        definitions.metric_class(MetricRef::new(number), class)?;
    }
    Ok(())
}
