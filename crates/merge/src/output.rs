//! Writes the merged archive: event files are linked, local definitions map their numbers to the merged ones,
//! definitions and the anchor are new. Score-P's locations that get NCCL calls are written anew. The whole archive is
//! read back before it is moved into place.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::ControlFlow;
use std::path::Path;

use crate::alignment::{Calls, Thread};
use crate::definitions::{Ids, MergedDefinitions, Numbers, TOO_MANY, is_ours};
use crate::inputs::{Inputs, Local};
use crate::pairing::Nccl;
use crate::scorep::ScoreP;
use crate::{alignment, definitions};
use anyhow::{Context as _, Result, bail};
use nccl_events::Progress;
use nccl_events::schema::{COMMUNICATION_COMPLETE, Lines, Statements, within_anchor};
use nccl_events::sort::Gather;
use otf2::verbatim::{Definition, EventRecords, ReferenceKind, rewrite_events};
use otf2::{
    Archive, ArchiveWriter, AttributeRef, Attributes, ChunkBytes, ClockOffset, Definitions, EVENT_CHUNK_BYTES, Event,
    EventKind, EventWriter, LargestDefinition, LocalDefWriter, LocalDefinitions, LocationRef, MappingTable,
    MappingType, PartWriter, RegionRef,
};

pub(crate) fn write(
    inputs: &Inputs,
    calls: &Calls,
    directory: &Path,
    progress: &dyn Progress,
) -> Result<WrittenArchive> {
    let scorep = inputs.first();
    let others = inputs.scoreps.iter().skip(1).map(alignment::appended_locals).collect::<Result<Vec<_>>>()?;
    let mut merged = MergedDefinitions::new(scorep.verbatim.clone());
    let appended = append(inputs, calls, &others, &mut merged)?;
    let chunks = chunks(inputs, &merged, &appended)?;
    let mut writer = begin(inputs, &inputs.nccls, directory, chunks)?;
    let locations = appended.iter().map(|appended| appended.definitions.locations.len()).sum::<usize>();
    progress.begin("locations", (scorep.definitions.locations.len() + locations) as u64);
    let events = calls.events();
    link_theirs(&writer, scorep, &events.keys().copied().gather(), progress)?;
    for archive in &appended {
        link_appended(&mut writer, archive, progress)?;
        for thread in archive.threads {
            write_thread(&mut writer, directory, scorep, archive, thread, &merged)?;
        }
    }
    progress.end();
    merged.set_number_of_events(&events);
    let span = alignment::span(inputs);
    finish(writer, &merged.finish(span, alignment::began_ns(inputs, span.0)), &events, progress)
}

fn append<'a>(
    inputs: &'a Inputs,
    calls: &'a Calls,
    others: &'a [Vec<Local>],
    merged: &mut MergedDefinitions,
) -> Result<Vec<Appended<'a>>> {
    let mut ids = Ids::new(inputs.first());
    if !others.is_empty() {
        merged.prefix_first(&definitions::prefix(inputs.first()))?;
    }
    let mut appended = Vec::new();
    for (scorep, locals) in inputs.scoreps.iter().skip(1).zip(others) {
        let numbers = merged.append(&scorep.verbatim, &ids.share_scorep(scorep)?)?;
        ids.add(scorep, &numbers)?;
        let (archive, definitions) = (&scorep.archive, &scorep.definitions);
        let locals = locals.iter().collect();
        appended.push(Appended { archive, definitions, is_scorep: true, numbers, locals, threads: &[] });
    }
    for (number, (nccl, threads)) in inputs.nccls.iter().zip(&calls.threads).enumerate() {
        let theirs = threads.iter().map(|thread| (thread.ours, thread.theirs)).gather();
        let numbers = merged.append(&nccl.verbatim, &ids.share_nccl(inputs, number, &theirs)?)?;
        let (archive, definitions) = (&nccl.trace.archive, &nccl.trace.definitions);
        let locals = inputs.locals[number].values().flat_map(BTreeMap::values).collect();
        appended.push(Appended { archive, definitions, is_scorep: false, numbers, locals, threads });
    }
    Ok(appended)
}

/// Writes definitions, closes, reads back. `rewritten` counts the events of Score-P's locations that got NCCL's.
pub(crate) fn finish(
    mut writer: ArchiveWriter,
    definitions: &[Definition],
    rewritten: &BTreeMap<LocationRef, u64>,
    progress: &dyn Progress,
) -> Result<WrittenArchive> {
    let anchor = writer.anchor_file();
    let mut to = writer.definitions()?;
    definitions.iter().try_for_each(|definition| to.verbatim(definition))?;
    writer.close().context("cannot write the merged archive")?;
    verify(&anchor, definitions, rewritten, progress)
        .context("the merged archive is not sound, and was not put in place")
}

/// Links Score-P's files under their own names, except those of some locations.
pub(crate) fn link_theirs(
    writer: &ArchiveWriter,
    scorep: &ScoreP,
    without: &BTreeSet<LocationRef>,
    progress: &dyn Progress,
) -> Result<()> {
    let archive = &scorep.archive;
    let locations = scorep.definitions.locations.iter().filter(|(location, _)| !without.contains(location));
    for (location, definition) in locations {
        let definitions = archive.definition_file(*location);
        if definitions.exists() {
            link(&definitions, &writer.definition_file(*location))?;
        }
        link_events(archive, (*location, definition.number_of_events), writer, *location)?;
        progress.step();
    }
    let markers = archive.anchor_file().with_extension("marker");
    if markers.exists() {
        link(&markers, &writer.anchor_file().with_extension("marker"))?;
    }
    Ok(())
}

/// Links a location's event file under another name, or writes it anew where its chunks are not the archive's.
fn link_events(
    from: &Archive,
    (old, events): (LocationRef, u64),
    writer: &ArchiveWriter,
    new: LocationRef,
) -> Result<()> {
    let (file, to) = (from.event_file(old), writer.event_file(new));
    if file.exists() {
        let is_written = rewrite_events(&file, from.event_chunk_bytes(), &to, writer.chunks().events)?;
        return if is_written { Ok(()) } else { link(&file, &to) };
    }
    if events > 0 {
        bail!("{}: missing, although it should have {events} events", file.display());
    }
    // Readers fail on a location without a file.
    Ok(otf2::write_stub_events(&to)?)
}

/// Links a file, or copies it on file systems without links or with a limit on them.
fn link(from: &Path, to: &Path) -> Result<()> {
    if std::fs::hard_link(from, to).is_err() {
        std::fs::copy(from, to).with_context(|| format!("cannot copy {} to {}", from.display(), to.display()))?;
    }
    Ok(())
}

/// Links an appended archive's event files under new names, with local definitions that preserve their meaning.
fn link_appended(writer: &mut ArchiveWriter, archive: &Appended<'_>, progress: &dyn Progress) -> Result<()> {
    let tables = tables(archive);
    for local in &archive.locals {
        let mut first: Option<LocationRef> = None;
        for old in &local.locations {
            progress.step();
            let new = archive.numbers.location(*old)?;
            if archive.numbers.shared.contains(&(ReferenceKind::Location, new.get())) {
                continue;
            }
            let events = archive.definitions.locations[old].number_of_events;
            link_events(archive.archive, (*old, events), writer, new)?;
            match first {
                Some(first) => link(&writer.definition_file(first), &writer.definition_file(new))?,
                None => {
                    write_appended(writer, new, archive, &tables, local)?;
                    first = Some(new);
                }
            }
        }
    }
    Ok(())
}

/// An archive whose definitions follow the first one's. Local definitions map the numbers in a location's event file to
/// those of the merged archive.
pub(crate) struct Appended<'a> {
    pub(crate) archive: &'a Archive,
    pub(crate) definitions: &'a Definitions,
    pub(crate) is_scorep: bool,
    pub(crate) numbers: Numbers,
    pub(crate) locals: Vec<&'a Local>,
    /// Threads whose events are on Score-P's locations.
    pub(crate) threads: &'a [Thread],
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
pub(crate) type Tables = Vec<(MappingType, Vec<u64>)>;

pub(crate) fn tables(archive: &Appended<'_>) -> Tables {
    MAPPED.iter().map(|(mapping, kind)| (*mapping, archive.numbers.all(*kind))).collect()
}

pub(crate) fn write_appended(
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
            archive.definitions.locations.keys().map(|location| (location.get(), new(location.get()))).gather();
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
    pub(crate) fn read(scorep: &ScoreP, location: LocationRef, merged: &MergedDefinitions) -> Result<Self> {
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

    pub(crate) fn local_id(&self, kind: ReferenceKind, global: u64) -> u64 {
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

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WrittenArchive {
    pub locations: u64,
    pub events: u64,
    /// For Scalasca, what is not in the archive and why.
    pub left_out: Vec<String>,
}

/// Number of locations read at once; each takes two chunks of memory.
const AT_ONCE: usize = 64;

/// Reads the whole merged archive before it is moved into place. Compares the definitions with those that were written,
/// checks each location's number and order of events, and the nesting on locations with NCCL events: NCCL's own and the
/// rewritten ones.
pub(crate) fn verify(
    anchor: &Path,
    written: &[Definition],
    rewritten: &BTreeMap<LocationRef, u64>,
    progress: &dyn Progress,
) -> Result<WrittenArchive> {
    let archive = Archive::open(anchor).context("the merged archive cannot be read")?;
    let verbatim = archive.verbatim_definitions()?;
    if let Some((read, written)) = verbatim.iter().zip(written).find(|(read, written)| read != written) {
        bail!("a definition was read differently than it was written: {read:?}, not {written:?}");
    }
    if verbatim.len() != written.len() {
        bail!("{} definitions were written, {} were read", written.len(), verbatim.len());
    }
    drop(verbatim);
    let definitions = archive.definitions()?;
    archive.check_definitions(&definitions)?;
    let locations: Vec<LocationRef> = definitions.locations.keys().copied().collect();
    progress.begin("read back", locations.len() as u64);
    let mut read = WrittenArchive { locations: locations.len() as u64, ..WrittenArchive::default() };
    for some in locations.chunks(AT_ONCE) {
        let has_ours = |location: LocationRef| is_ours(location) || rewritten.contains_key(&location);
        read.events += some_locations(&archive, &definitions, some, &has_ours)?;
        some.iter().for_each(|_| progress.step());
    }
    progress.end();
    Ok(read)
}

fn some_locations(
    archive: &Archive,
    definitions: &Definitions,
    locations: &[LocationRef],
    has_ours: &impl Fn(LocationRef) -> bool,
) -> Result<u64> {
    let mut states: BTreeMap<LocationRef, LocationState> = BTreeMap::new();
    let span = definitions
        .clock
        .map_or((0, u64::MAX), |clock| (clock.global_offset, clock.global_offset.saturating_add(clock.trace_length)));
    let (mut wrong, mut before) = (None, 0);
    let events = archive
        .for_each_event(locations, |location, event| {
            let state = states.entry(location).or_default();
            let found = state
                .event(event, has_ours(location), definitions)
                .or_else(|| misplacement(event, before, is_ours(location), span));
            before = event.time;
            match found {
                None => ControlFlow::Continue(()),
                Some(reason) => {
                    wrong = Some(format!("location {} at {}: {reason}", location.get(), event.time));
                    ControlFlow::Break(())
                }
            }
        })
        .context("the merged archive cannot be read")?;
    if let Some(wrong) = wrong {
        bail!("{wrong}");
    }
    for location in locations {
        let state = states.remove(location).unwrap_or_default();
        let promised = definitions.locations[location].number_of_events;
        if state.events != promised {
            bail!("location {} has {} events, not {promised}", location.get(), state.events);
        }
        if has_ours(*location) && !state.open.is_empty() {
            bail!("location {}: a region is not left", location.get());
        }
    }
    Ok(events)
}

fn misplacement(event: &Event, before: u64, is_ours: bool, span: (u64, u64)) -> Option<String> {
    if event.time < before {
        return Some(format!("comes after an event at {before}"));
    }
    // Score-P's events are unchanged, so they are not checked.
    (is_ours && !(span.0..=span.1).contains(&event.time))
        .then(|| format!("is not within the trace, {} to {}", span.0, span.1))
}

#[derive(Debug, Default)]
struct LocationState {
    events: u64,
    open: Vec<RegionRef>,
}

impl LocationState {
    fn event(&mut self, event: &Event, has_ours: bool, definitions: &Definitions) -> Option<String> {
        self.events += 1;
        if !has_ours {
            return None;
        }
        for (attribute, _) in &event.attributes {
            if !definitions.attributes.contains_key(attribute) {
                return Some(format!("{attribute:?} is not defined"));
            }
        }
        match &event.kind {
            EventKind::Enter(region) => {
                self.open.push(*region);
                (!definitions.regions.contains_key(region)).then(|| format!("{region:?} is not defined"))
            }
            EventKind::Leave(region) => {
                let left = self.open.pop();
                (left != Some(*region)).then(|| format!("{region:?} is left, {left:?} was entered"))
            }
            _ => None,
        }
    }
}

/// Writes a Score-P location with NCCL calls between its events.
pub(crate) fn write_thread(
    writer: &mut ArchiveWriter,
    directory: &Path,
    scorep: &ScoreP,
    archive: &Appended<'_>,
    thread: &Thread,
    merged: &MergedDefinitions,
) -> Result<()> {
    let locals = LocalNumbers::read(scorep, thread.theirs, merged)?;
    let number = |kind, old| locals.local_id(kind, archive.numbers.or_undefined(kind, old));
    let own = records(directory, thread.theirs, |to| {
        let mut attributes = Attributes::new();
        let mut written = Ok(());
        let read = archive.archive.for_each_event(&[thread.ours], |_, event| {
            attributes.clear();
            let time = thread.ticks.at(event.time);
            let number_32 = |kind, old: u32| u32::try_from(number(kind, old.into())).unwrap_or(u32::MAX);
            let region = |region: RegionRef| RegionRef::new(number_32(ReferenceKind::Region, region.get()));
            let added = event.attributes.iter().try_for_each(|(attribute, value)| {
                let mut value = *value;
                value.renumber(number);
                attributes.add(AttributeRef::new(number_32(ReferenceKind::Attribute, attribute.get())), value)
            });
            written = added.and_then(|()| match event.kind {
                EventKind::Enter(reference) => to.enter(time, region(reference), &attributes),
                EventKind::Leave(reference) => to.leave(time, region(reference), &attributes),
                EventKind::MeasurementOnOff(mode) => to.measurement_on_off(time, mode, &attributes),
                _ => Ok(()),
            });
            if written.is_ok() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        });
        read.context("cannot read NCCL's calls")?;
        written.context("cannot write NCCL's calls")
    })?;
    let theirs = scorep.records(thread.theirs)?;
    theirs.write_with(&own, &thread.order, &writer.event_file(thread.theirs), writer.chunks().events)?;
    locals.write(writer, thread.theirs)
}

/// The encoded records of events, written by themselves into a temporary folder in `directory`.
pub(crate) fn records(
    directory: &Path,
    location: LocationRef,
    write: impl FnOnce(&mut EventWriter<'_>) -> Result<()>,
) -> Result<EventRecords> {
    let directory = directory.join("nccl");
    let mut part = PartWriter::create(&directory, "traces")?;
    let mut to = part.event_writer(location)?;
    write(&mut to)?;
    let _events = to.close()?;
    let records = EventRecords::read(&part.event_file(location), EVENT_CHUNK_BYTES)?;
    part.close()?;
    std::fs::remove_dir_all(&directory).with_context(|| format!("cannot remove {}", directory.display()))?;
    Ok(records)
}

/// Stands for the creator of an archive that names none: by `NCCL::MERGED` readers know merged archives.
const UNNAMED: &str = "a writer that gives no name";

/// Starts the merged archive. Its anchor file has Score-P's texts and properties, then the statements of these NCCL
/// archives.
pub(crate) fn begin(inputs: &Inputs, nccls: &[Nccl], directory: &Path, chunks: ChunkBytes) -> Result<ArchiveWriter> {
    let first = &inputs.first().archive;
    let mut writer = ArchiveWriter::create_with_chunks(directory, "traces", chunks)?;
    let creator = |archive: &'_ Archive| match archive.creator().trim() {
        "" => UNNAMED.to_owned(),
        creator => creator.to_owned(),
    };
    let creators: BTreeSet<String> = inputs.scoreps.iter().map(|scorep| creator(&scorep.archive)).gather();
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
    statements.merged = Lines::from_entries(creators);
    statements.merged_map = Lines::from_entries(pairs);
    statements.merged_clock = Lines::from_entries([inputs.clock()]);
    let says_so = |nccl: &Nccl| nccl.trace.archive.property(COMMUNICATION_COMPLETE) == Some("true");
    let is_complete = nccls.iter().all(says_so);
    let mut properties: BTreeMap<String, String> = BTreeMap::new();
    for (name, value) in inputs.scoreps.iter().flat_map(|scorep| scorep.archive.properties()) {
        let value = if name == COMMUNICATION_COMPLETE && !is_complete { "false" } else { value };
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
pub(crate) fn chunks(inputs: &Inputs, merged: &MergedDefinitions, appended: &[Appended<'_>]) -> Result<ChunkBytes> {
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
        let tables = tables(archive);
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
