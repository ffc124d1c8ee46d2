//! Makes one archive from all finished parts of a job. If the processes of the job are known, the last one to finish
//! makes it; else the tool does.
//!
//! ```text
//! parts/*/{done, manifest, traces/*.evt} ─► .unify-…/traces.{otf2,def}, traces/ ─ rename ─► out/
//! ```
//!
//! Cost grows with definitions, not events: event files are linked. Unifying can be repeated when more parts exist; the
//! same parts always give the same archive. The old archive is moved away first and the anchor comes last: an archive
//! with an anchor is complete.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::error::{Error, io_error, otf2_error};
use crate::job::clocks::align_clocks;
use crate::job::communicators::{Communicators, Origins};
use crate::job::definitions::{Definitions, Sources, clock};
use crate::job::matching::Matching;
use crate::job::names::{Strings, attributes, parameters, regions};
use crate::job::processes::{ArchiveInputs, Process, processes};
use crate::job::properties::{PresentParts, fingerprint, statements, total};
use crate::job::topology::Topology;
use crate::part::files::{
    LockFile, Staging, TRACES, event_file, foreign_file, move_aside, put_in_place, put_sealed_in_place, still_ours,
};
use crate::part::manifest::{Manifest, launched};
use crate::workers::{Dumps, Workers};
use ::clocks::fit::approximate;
use journal::host;
use journal::part::environment::Level;
use journal::part::{PARTS, ProcessInfo, is_done, part_name};
use model::communicators::CommIdentity;
use model::job::{Communicators as KnownCommunicators, DuplicateClaim};
use nccl_events::Progress;
use nccl_events::schema::definition::within_anchor;
use nccl_events::schema::{COMMUNICATION_COMPLETE, Counts, Statements};
use nccl_events::sort::Gather;
use otf2::{
    ArchiveWriter, AttributeRef, ChunkBytes, CommRef, EVENT_CHUNK_BYTES, GlobalDefinitions, GroupRef,
    LEAST_CHUNK_BYTES, LargestDefinition, LocationGroupRef, LocationRef, MappingType, ParameterRef, PartWriter,
    RegionRef, RmaWinRef, StringRef, SystemTreeNodeRef,
};

mod clocks;
mod communicators;
mod definitions;
mod matching;
mod names;
mod processes;
mod properties;
mod topology;
pub(crate) mod unreported_events;

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
type MappingTables<'a> = [(MappingType, &'a [Vec<u32>]); 6];

/// Writes the archive into `directory`: links event files and makes all others. All get private modes at
/// once: looking at each file of a large archive again takes long.
pub(crate) fn write(
    directory: &Path,
    parts: &ArchiveInputs<'_>,
    progress: &dyn Progress,
) -> Result<ArchiveSize, Error> {
    let processes = parts.processes;
    let manifests: Vec<&Manifest> = processes.iter().map(|process| &process.manifest).collect();
    let communicators = Communicators::merge(processes);
    let origins = Origins::new(processes, &communicators);
    let topology = Topology::new(parts.dumps, processes, &communicators);
    let mut strings = Strings::default();
    let string_maps = number_strings(processes, &origins, &mut strings);
    let matching = Matching::new(processes, &communicators)?;
    let attributes = attributes(&manifests);
    let regions = regions(&manifests);
    let parameters = parameters(&manifests, &regions);
    let sources = Sources {
        processes,
        communicators: &communicators,
        origins: &origins,
        topology: &topology,
        attributes: &attributes.all,
        regions: &regions.all,
        parameters: &parameters.all,
    };
    let merged = Definitions::new(&sources, strings);
    let maps: MappingTables<'_> = [
        (MappingType::String, &string_maps),
        (MappingType::Attribute, &attributes.maps),
        (MappingType::Region, &regions.maps),
        (MappingType::Parameter, &parameters.maps),
        (MappingType::Comm, &communicators.maps),
        // A window has the number of its communicator.
        (MappingType::RmaWin, &communicators.maps),
    ];
    let failed = || otf2_error(directory);
    let chunks = ChunkBytes { events: EVENT_CHUNK_BYTES, definitions: largest(&merged, &maps).chunk_bytes() };
    let mut writer = ArchiveWriter::create_with_chunks(directory, TRACES, chunks).map_err(failed())?;
    host::seal_alone(&directory.join(TRACES));
    let mut statements = statements(parts, &communicators);
    matching.add_to_statements(&mut statements);
    origins.add_to_statements(&mut statements);
    topology.add_to_statements(&mut statements);
    let is_whole = statements.may_have_all_communication() && have_all_communication(processes);
    describe(&mut writer, &statements, is_whole).map_err(failed())?;
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
        ranks_missing: communicators.all.iter().map(|comm| comm.missing + comm.unlocated).sum(),
        collectives_unmatched: communicators.all.iter().map(|comm| comm.unmatched).sum(),
        mismatches: matching.mismatches.len() as u64,
    })
}

/// The largest definition of the archive, global or local.
fn largest(merged: &Definitions, maps: &MappingTables<'_>) -> LargestDefinition {
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

/// Whether all processes that were launched are there, each with an operation for every call.
fn have_all_communication(processes: &[Process]) -> bool {
    let manifests = || processes.iter().map(|process| &process.manifest);
    let launched = launched(manifests());
    processes.len() as u64 >= launched.unwrap_or(0).into() && manifests().all(|manifest| manifest.has_all_communication)
}

fn describe(writer: &mut ArchiveWriter, statements: &Statements, is_whole: bool) -> otf2::Result<()> {
    writer.set_creator(concat!("nccl-profiler-otf2 ", env!("CARGO_PKG_VERSION")))?;
    writer.set_description("What NCCL did, recorded through its profiler interface")?;
    for (name, value) in within_anchor(statements.write()) {
        writer.set_property(&name, &value)?;
    }
    writer.set_property(COMMUNICATION_COMPLETE, &is_whole.to_string())
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

/// Links the event files, and writes the local definitions of all locations: maps from the part's numbers to the
/// archive's, and the clock. Parts keep their files, so that unify can be repeated when more parts come.
fn files_of_locations(
    (directory, chunks): (&Path, ChunkBytes),
    processes: &[Process],
    maps: &MappingTables<'_>,
    progress: &dyn Progress,
) -> Result<(), Error> {
    /// libotf2 searches all locations of a writer for each file.
    const OF_A_WRITER: usize = 256;
    let locations: usize = processes.iter().map(|process| process.ids.len()).sum();
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
                link(&from, &to)?;
                // Whoever shared the part may not want to share the archive.
                host::seal_alone(&to);
            }
        }
        progress.step();
    }
    Ok(())
}

/// The most bytes of a process's local definitions: a number of 32 bits takes up to five, an offset less than 64.
fn local_bytes((number, process): (usize, &Process), maps: &MappingTables<'_>) -> u64 {
    let entries: usize = maps.iter().filter_map(|(_, tables)| tables.get(number)).map(Vec::len).sum();
    5 * entries as u64 + 64 * (process.clock_offsets().count() as u64 + 16)
}

/// All locations of a process have the same definitions, so one file is written and linked under the other names.
fn local_definitions(
    writer: &mut PartWriter,
    process: (usize, &Process),
    maps: &MappingTables<'_>,
) -> Result<(), Error> {
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
    maps: &MappingTables<'_>,
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
    if fs::hard_link(from, to).is_err() {
        fs::copy(from, to).map_err(io_error("copy", from))?;
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
    for (number, parameter) in (0..).zip(&merged.parameters) {
        definitions.parameter(ParameterRef::new(number), parameter)?;
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
    Ok(())
}

/// Name of the anchor: the file to open in a viewer.
pub const ANCHOR: &str = "traces.otf2";
const GLOBAL_DEFINITIONS: &str = "traces.def";

#[derive(Clone, Debug, Default, PartialEq)]
pub struct ArchiveSummary {
    pub anchor: PathBuf,
    pub parts: Vec<String>,
    /// Parts that are not in the archive, and why.
    pub left_out: Vec<String>,
    pub size: ArchiveSize,
    pub counts: Counts,
}

/// The parts in a job's directory, in the order of their names.
pub fn part_directories(out: &Path) -> Result<Vec<PathBuf>, Error> {
    journal::part::part_directories(out).map_err(io_error("read", &out.join(PARTS)))
}

/// A part that is not written and cannot be.
pub(crate) struct MissingPart {
    pub(crate) part: String,
    pub(crate) reason: String,
}

/// Whether the archive in place is complete, has these parts and this level, lists the missing parts and no part that is
/// gone, and states no more than these problems: an event file may be back.
pub(crate) fn is_in_place(
    out: &Path,
    (parts, problems): (&BTreeSet<String>, usize),
    missing: &[MissingPart],
    level: Level,
) -> bool {
    let Ok(archive) = otf2::Archive::open(&out.join(ANCHOR)) else {
        return false;
    };
    let statements = Statements::read(archive.properties());
    let has_level = properties::level(level) == statements.level;
    let left_out = &statements.parts_left_out.all;
    let is_listed = |part: &MissingPart| left_out.iter().any(|line| line.starts_with(&format!("{}: ", part.part)));
    let lists_missing = missing.iter().all(is_listed);
    // A part may have been moved away since.
    let is_there = |line: &String| line.split_once(": ").is_none_or(|(name, _)| out.join(PARTS).join(name).exists());
    let lists_present = left_out.iter().all(is_there);
    let parts = &parts.iter().filter(|part| !is_known_copy(out, part, left_out)).cloned().gather();
    let stated = statements.problems.number.get();
    let existing = PresentParts::from_statements(statements).unwrap_or_default();
    let is_outdated = !existing.has_more_than(parts) && stated > problems as u64;
    has_level
        && !is_outdated
        && lists_present
        && existing.has_all(parts)
        && (existing.has_more_than(parts) || lists_missing)
        && is_whole(&archive)
}

/// Refuses to write with another level than that of an archive with a part that is gone: it would lose the part.
pub(crate) fn check_parts_remain(out: &Path, level: Level) -> Result<(), Error> {
    let Ok(archive) = otf2::Archive::open(&out.join(ANCHOR)) else {
        return Ok(());
    };
    let statements = Statements::read(archive.properties());
    let is_alike = properties::level(level) == statements.level;
    let existing = PresentParts::from_statements(statements);
    match existing.as_ref().and_then(|existing| existing.gone(&BTreeSet::new(), &out.join(PARTS))) {
        Some(part) if !is_alike => Err(Error::PartsGone { path: out.join(ANCHOR), part: part.clone() }),
        _ => Ok(()),
    }
}

/// Whether the files that the anchor refers to are complete: some may have been deleted, or copied in part.
fn is_whole(archive: &otf2::Archive) -> bool {
    let Ok(definitions) = archive.definitions() else {
        return false;
    };
    if archive.check_definitions(&definitions).is_err() {
        return false;
    }
    let locations: Vec<(LocationRef, u64)> =
        definitions.locations.iter().map(|(location, definition)| (*location, definition.number_of_events)).collect();
    let is_whole = |at: usize| {
        let &(location, promised) = locations.get(at)?;
        let events = otf2::check_event_file(&archive.event_file(location), archive.event_chunk_bytes()).ok()?;
        let has_definitions = archive.has_local_definitions(location).ok()?;
        (events == promised && has_definitions).then_some(())
    };
    let whole = Workers::new(None).map(&vec![0; locations.len()], is_whole);
    locations.len() as u64 == archive.number_of_locations() && whole.iter().all(Option::is_some)
}

pub fn unify(out: &Path, progress: &dyn Progress) -> Result<ArchiveSummary, Error> {
    unify_alike(out, None, &[], progress)
}

/// [`unify`] for parts with this level, or with that of most (`None`). The archive lists the others as missing.
pub(crate) fn unify_alike(
    out: &Path,
    level: Option<Level>,
    missing: &[MissingPart],
    progress: &dyn Progress,
) -> Result<ArchiveSummary, Error> {
    Staging::sweep(out, STAGING);
    let mut parts = Vec::new();
    let mut left_out: Vec<String> = missing.iter().map(|part| format!("{}: {}", part.part, part.reason)).collect();
    let mut directories = part_directories(out)?;
    directories.retain(|directory| is_done(directory));
    let read = Workers::new(None).read_manifests(&directories);
    for (directory, read) in directories.into_iter().zip(read) {
        match read {
            Ok(manifest) => parts.push((directory, manifest)),
            Err(error) => left_out.push(error.to_string()),
        }
    }
    let all = parts.iter().map(|(_, manifest)| manifest.level);
    let level = level.or_else(|| most_common(all)).unwrap_or_default();
    parts.retain(|(_, manifest)| {
        let is_alike = manifest.level == level;
        if !is_alike {
            left_out.push(other_level_reason(&manifest.part, manifest.level));
        }
        is_alike
    });
    let names: Vec<String> = parts.iter().map(|(directory, _)| part_name(directory)).collect();
    for (at, original) in copies(&parts).into_iter().rev() {
        let name = |at: usize| names.get(at).map_or("", String::as_str);
        let (start, original) = (copy_line(name(at)), name(original));
        left_out.push(format!("{start}{original}, of the same process (move it out of {PARTS}/)"));
        parts.remove(at);
    }
    if parts.is_empty() {
        return Err(Error::NoParts { path: out.join(PARTS) });
    }
    let mut processes = processes(parts);
    let alignment = align_clocks(&mut processes);
    let dumps = Dumps::read(out, processes.iter().map(|process| &process.manifest.process));
    let staging = Staging::create(out, STAGING)?;
    let parts =
        ArchiveInputs { processes: &processes, alignment: &alignment, dumps: &dumps, level, left_out: &left_out };
    let size = write(staging.path(), &parts, progress)?;
    let parts: BTreeSet<String> = processes.iter().map(|process| &process.manifest.part).cloned().gather();
    commit(out, &staging, &parts, progress)?;
    Ok(ArchiveSummary {
        anchor: out.join(ANCHOR),
        parts: parts.into_iter().collect(),
        left_out,
        size,
        counts: total(&processes),
    })
}

/// How the line about a part that is left out as a copy begins; the name of its original follows.
fn copy_line(part: &str) -> String {
    format!("{part}: is a copy of ")
}

/// Whether these lines about parts left out name a part as a copy, and it still is one.
fn is_known_copy(out: &Path, part: &str, left_out: &[String]) -> bool {
    let start = copy_line(part);
    let original = left_out.iter().find_map(|line| line.strip_prefix(&start)?.split_once(", ")).map(|(name, _)| name);
    original.is_some_and(|original| {
        let directories = [part, original].map(|name| out.join(PARTS).join(name));
        let read = directories.map(|directory| Manifest::read_with_events(&directory).map(|read| (directory, read)));
        let both: Result<Vec<_>, Error> = read.into_iter().collect();
        both.is_ok_and(|both| copies(&both) == [(0, 1)])
    })
}

/// Whether two descriptions of a session, with the same process id and beginning, can be of one process. A torn
/// `process.json` says nothing of the host.
fn is_same_process(one: &ProcessInfo, other: &ProcessInfo) -> bool {
    let is_alike = |one: &str, other: &str| one == other || one.is_empty() || other.is_empty();
    is_alike(&one.host, &other.host)
        && is_alike(&one.boot_id, &other.boot_id)
        && is_alike(&one.pid_namespace, &other.pid_namespace)
        && (one.tag == other.tag || one.tag == 0 || other.tag == 0)
}

/// Pairs of a copy and its original, as indices. Parts of one session of a process are copies of each other. The one
/// with the most records is the original: a copy may be older than the end of the process, or damaged.
fn copies(parts: &[(PathBuf, Manifest)]) -> Vec<(usize, usize)> {
    let worth = |at: usize| {
        parts.get(at).map(|(directory, manifest)| {
            let process = &manifest.process;
            let own_name = format!("-{}-{}", process.pid, process.session_start_realtime_ns);
            let problems = Reverse(manifest.all_problems().len());
            (!manifest.has_lost_events, manifest.records, problems, part_name(directory).ends_with(&own_name))
        })
    };
    let mut sessions: BTreeMap<(u32, u64), Vec<(usize, &ProcessInfo)>> = BTreeMap::new();
    for (at, (_, Manifest { process, .. })) in parts.iter().enumerate() {
        if process.session_start_realtime_ns > 0 {
            sessions.entry((process.pid, process.session_start_realtime_ns)).or_default().push((at, process));
        }
    }
    let mut found = Vec::new();
    for mut session in sessions.into_values() {
        // The most complete description first: it tells which of the others are of another host.
        nccl_events::sort::sort_by_key(&mut session, |(at, process)| {
            (process.host.is_empty(), Reverse(worth(*at)), *at)
        });
        while let Some(&(_, process)) = session.first() {
            let alike: Vec<usize> =
                session.extract_if(.., |(_, it)| is_same_process(process, it)).map(|it| it.0).collect();
            let original = alike.iter().copied().max_by_key(|at| (worth(*at), Reverse(*at)));
            found.extend(alike.iter().filter_map(|&at| Some((at, original?)).filter(|_| Some(at) != original)));
        }
    }
    nccl_events::sort::sort(&mut found);
    found
}

const STAGING: &str = ".unify";

/// The most frequent level; of equally frequent ones the first.
pub(crate) fn most_common(all: impl Iterator<Item = Level>) -> Option<Level> {
    let mut counts: Vec<(Level, usize)> = Vec::new();
    for level in all {
        match counts.iter_mut().find(|(known, _)| *known == level) {
            Some((_, count)) => *count += 1,
            None => counts.push((level, 1)),
        }
    }
    counts.iter().rev().max_by_key(|(_, count)| *count).map(|(level, _)| *level)
}

/// Why a part with another level than most is not in the archive.
pub(crate) fn other_level_reason(part: &str, level: Level) -> String {
    format!(
        "{part} is written with level {}, unlike most parts: `nccl-otf2 finalize` writes it like the others as long \
        as its journal exists",
        level.name()
    )
}

/// The lock file for putting an archive in place, and the time to wait for it: a few renames are quick.
const LOCK: &str = ".unify.lock";
const PATIENCE: Duration = Duration::from_secs(30);

/// Whether the new archive equals the one in place: the same definitions, and the same event files of the parts.
fn is_same_archive(made: &Path, existing: &Path) -> bool {
    let open = |directory: &Path| otf2::Archive::open(&directory.join(ANCHOR)).ok();
    let (Some(one), Some(other)) = (open(made), open(existing)) else {
        return false;
    };
    let is_same_file = |name: &Path| {
        let (one, other) = (made.join(name), existing.join(name));
        match (fs::metadata(&one), fs::metadata(&other)) {
            (Ok(a), Ok(b)) if (a.dev(), a.ino()) == (b.dev(), b.ino()) => true,
            // Event files that could not be linked are too long to compare, unless they are stubs.
            (Ok(a), Ok(b)) if a.len() == b.len() && (name.extension() != Some("evt".as_ref()) || a.len() < 4096) => {
                let (one, other) = (regular_files::read(&one, a.len()).ok(), regular_files::read(&other, b.len()).ok());
                one.is_some() && one == other
            }
            _ => false,
        }
    };
    let Ok(mut files) = fs::read_dir(made.join(TRACES)) else {
        return false;
    };
    one.properties() == other.properties()
        && is_same_file(Path::new(GLOBAL_DEFINITIONS))
        && files.all(|file| file.is_ok_and(|file| is_same_file(&Path::new(TRACES).join(file.file_name()))))
}

fn commit(out: &Path, staging: &Staging, parts: &BTreeSet<String>, progress: &dyn Progress) -> Result<(), Error> {
    let _lock = LockFile::take(out.join(LOCK), staging, Instant::now() + PATIENCE, progress)?;
    // Another process saw more parts and was faster: its archive stays.
    let existing = otf2::Archive::open(&out.join(ANCHOR)).ok();
    let existing = existing.and_then(|archive| PresentParts::from_statements(Statements::read(archive.properties())));
    if existing.as_ref().is_some_and(|existing| existing.has_more_than(parts)) {
        return Ok(());
    }
    // Another process made the same archive: its readers are not disturbed.
    if is_same_archive(staging.path(), out) {
        return Ok(());
    }
    if let Some(path) = foreign_file(out) {
        return Err(Error::Foreign { path });
    }
    if let Some(part) = existing.as_ref().and_then(|existing| existing.gone(parts, &out.join(PARTS))) {
        return Err(Error::PartsGone { path: out.join(ANCHOR), part: part.clone() });
    }
    still_ours(&out.join(LOCK))?;
    move_aside(staging, ANCHOR, out)?;
    put_sealed_in_place(staging, TRACES, out)?;
    put_in_place(staging, GLOBAL_DEFINITIONS, out)?;
    put_in_place(staging, ANCHOR, out)
}

/// Whether the caller, whose part is done, is the job's last process and unifies: only one for a set of finished parts.
pub fn is_last_process(out: &Path) -> Result<bool, Error> {
    let parts = part_directories(out)?;
    // All processes of a job ask at about the same time. Each begins elsewhere, so that most soon find an unfinished
    // part, instead of all looking at the same finished ones.
    let (before, from_here) = parts.split_at(std::process::id() as usize % parts.len().max(1));
    if !from_here.iter().chain(before).all(|part| is_done(part)) {
        return Ok(false);
    }
    let done: Vec<Manifest> = parts.iter().filter_map(|part| Manifest::read(part).ok()).collect();
    Ok(is_everything(&done) && try_claim(out, &done)?)
}

fn is_everything(done: &[Manifest]) -> bool {
    if let Some(size) = launched(done) {
        let ranks: BTreeSet<u32> = done.iter().filter_map(|manifest| manifest.process.environment.rank).gather();
        return ranks.len() as u64 == u64::from(size);
    }
    !done.is_empty() && has_all_ranks(done)
}

fn has_all_ranks(done: &[Manifest]) -> bool {
    let mut comms = KnownCommunicators::new(DuplicateClaim::Newer);
    for (number, manifest) in done.iter().enumerate() {
        comms.add((number, &manifest.part), manifest.claims(|_, _, _| ()));
    }
    // Without a size from `init`, the number of ranks is unknown.
    let mut comms = comms.all.iter().map(|known| (&known.comm, known.members.len() as u64));
    comms.all(|(comm, members)| comm.identity == CommIdentity::Id && members == u64::from(comm.ranks))
}

/// Creates a file named after the set of parts: with more parts the name differs.
fn try_claim(out: &Path, done: &[Manifest]) -> Result<bool, Error> {
    let names = done.iter().map(|manifest| manifest.part.clone()).gather();
    let path = out.join(format!(".finished-{}", fingerprint(&names)));
    match host::new_file(&path) {
        Ok(_) => Ok(true),
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => Ok(false),
        Err(error) => Err(io_error("make", &path)(error)),
    }
}
