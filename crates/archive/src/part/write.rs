//! Writes a part: the journal of one process becomes event files and a manifest.
//!
//! ```text
//! journal ─ tables ─ links ─ clocks ─ timeline ─ one location after the other ─ traces/<n>.evt ─ manifest, done
//! ```
//!
//! Writing needs nothing from the process that recorded: it may be alive, finished, or killed. All files are made in a
//! directory inside the part and renamed into place, `done` last, so that writing can be interrupted at any point and
//! repeated by any process.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::error::{Error, io_error, otf2_error, unreadable};
use crate::part::calls::{CALLS, RankDigest, calls_of_ranks};
use crate::part::files;
use crate::part::files::{
    LockFile, MANIFEST, Staging, TRACES, is_final, put_in_place, remove_if_there, still_ours, why_unusable, write_json,
};
use crate::part::manifest::{
    AttributeDefinition, ChannelEnd, Format, GpuClockDefinition, LocationDefinition, LocationKind, Manifest,
    RegionDefinition, StepRangeDefinition, SwitchDefinition, TransferOwner, read_late,
};
use crate::part::traffic::Traffic;
use clocks::gpu::GpuCalibration;
use clocks::ticks;
use clocks::ticks::HostClock;
use journal::part::environment::Level;
use journal::part::{
    ChainReport, DONE, JOURNAL, PROCESS, ProcessInfo, ScorepReport, is_done, part_name, read_json, try_read_process,
};
use journal::reader::{Journal, Outcome, Problem};
use model::communicators::impossible_ranks;
use model::job::CommDefinition;
use model::links::transfers;
use model::links::transfers::RemoteTransfers;
use model::process::{Owner, Process, read_since};
use model::tables::ranges::SwitchAt;
use model::tables::{CollApi, P2pApi, Tables};
use nccl_events::event::ProxyOp;
use nccl_events::ids::{EventId, index, index_u32};
use nccl_events::schema::Counts;
use nccl_events::schema::attribute::AttributeId;
use nccl_events::schema::carriers::Type;
use nccl_events::sort::Gather;
use nccl_events::{Cause, Kind, Progress};
use otf2::{AttributeType, LocationRef, PartWriter};
use regular_files::MOST_MANIFEST_BYTES;
use serde::{Deserialize, Serialize};
use timeline::attributes::UsedAttributes;
use timeline::builder::{Location, LocationKey, Timeline};
use timeline::definitions::{Definitions, RegionText};
use timeline::events::Emitter;

/// Builds the manifest from a process's data in memory.
pub(super) struct Builder<'a> {
    pub(super) part: &'a Path,
    pub(super) recording: &'a Recording,
    pub(super) model: &'a Process<'a>,
    pub(super) definitions: &'a Definitions,
    pub(super) is_provisional: bool,
    pub(super) has_puts: bool,
    pub(super) attributes: UsedAttributes,
}

impl Builder<'_> {
    pub(super) fn manifest(
        &self,
        locations: Vec<LocationDefinition>,
        collectives: Vec<RankDigest>,
        counts: Counts,
    ) -> Manifest {
        let Recording { tables, outcome, clock, .. } = self.recording;
        let Process { comms, links, .. } = self.model;
        let removed = &tables.removed;
        let complete_since_ns = (removed.segments > 0).then(|| clock.nanoseconds(removed.since_ticks));
        Manifest {
            format: Format::default(),
            has_lost_events: false,
            late_problem: read_late(self.part).1,
            part: part_name(self.part),
            process: self.recording.process.clone(),
            process_problem: self.recording.process_problem.clone(),
            level: self.model.level,
            clock: clock.quality.clone(),
            anchors: ticks::choose_anchors(&tables.clock_pairs),
            span_ns: span(&locations, tables.span),
            strings: self.definitions.strings.clone().into(),
            attributes: AttributeId::ALL.iter().map(|id| attribute(*id, self.attributes.has(*id))).collect(),
            regions: self.definitions.regions.iter().map(region).collect(),
            parameters: self.definitions.parameters.iter().map(|region| region.get()).collect(),
            comms: comms.comms.iter().map(|comm| CommDefinition::new(comm, &outcome.symbols)).collect(),
            impossible_ranks: impossible_ranks(tables).collect(),
            parents: parents(self.model),
            gpus: comms.gpus.clone(),
            locations,
            channel_ends: channel_ends(self.model),
            has_puts: self.has_puts,
            gpu_work: timeline::definitions::gpu_work(&links.gpu, &outcome.symbols),
            gpu_clocks: gpu_clocks(self.model),
            collectives,
            traffic: Traffic::from_process(self.model),
            exported_ranks: transfers::exported_ranks(tables, comms),
            remote_work: transfers::work_for_others(tables, &links.transfers),
            remote_workers: self.recording.remote_workers.clone(),
            remote_operations: links.remote_operations,
            has_all_communication: has_all_communication(self.model, self.recording.process.event_mask),
            counts,
            complete_since_ns,
            switches: tables.switches.iter().map(|at| switch(at, tables)).collect(),
            scorep: self.recording.scorep.clone(),
            chain: self.recording.chain.clone(),
            records: outcome.records,
            // While a process records, its counters and records cannot be read at the same moment.
            started: (!self.is_provisional).then_some(outcome.started),
            problems: problems(outcome),
        }
    }
}

/// Whether each call was recorded and has its operation.
fn has_all_communication(model: &Process<'_>, event_mask: u32) -> bool {
    let Process { tables, links, .. } = model;
    let is_asked = |kind: Kind| event_mask & kind.mask() != 0;
    if ![Kind::Coll, Kind::CollApi, Kind::P2p, Kind::P2pApi].into_iter().all(is_asked) {
        return false;
    }
    let mut served: BTreeSet<u64> = BTreeSet::new();
    for linked in &links.operations.all {
        let operation = tables.operation(linked.operation);
        if linked.is_at_capture || operation.context_at().is_none() {
            return false;
        }
        served.insert(operation.parent);
    }
    // What a rank sends to itself in place is not reported.
    let whole = links.derived.all.iter().filter(|collective| collective.missing == 0);
    let calls = whole.filter_map(|collective| links.derived.call(collective)).flat_map(|call| &call.calls);
    served.extend(calls.map(|&call| tables[call].id));
    // Replays of a graph may not be reported.
    let is_whole = |id: u64, is_captured: bool| !is_captured && served.contains(&id);
    tables.rows::<CollApi>().all(|(_, call)| is_whole(call.id, call.fields.graph_captured))
        && tables.rows::<P2pApi>().all(|(_, call)| is_whole(call.id, call.fields.graph_captured))
}

fn span(locations: &[LocationDefinition], recorded: (u64, u64)) -> (u64, u64) {
    let used = || locations.iter().filter(|location| location.events > 0);
    let first = used().map(|location| location.first_ns).min();
    let last = used().map(|location| location.last_ns).max();
    match (first, last) {
        (Some(first), Some(last)) => (first, last),
        _ => (recorded.0, recorded.0),
    }
}

fn problems(outcome: &Outcome) -> Vec<String> {
    let lines = outcome.problems.iter().map(|problem| {
        let path = problem.path.file_name().unwrap_or(problem.path.as_os_str()).into();
        Problem { path, ..problem.clone() }.to_string()
    });
    lines.collect()
}

fn attribute(attribute: AttributeId, is_used: bool) -> AttributeDefinition {
    let value_type = match attribute.value_type() {
        Type::U8 => AttributeType::U8,
        Type::U32 => AttributeType::U32,
        Type::U64 => AttributeType::U64,
        Type::I32 => AttributeType::I32,
        Type::I64 => AttributeType::I64,
        Type::F64 => AttributeType::F64,
        Type::String => AttributeType::String,
        Type::Location => AttributeType::Location,
        Type::Comm => AttributeType::Comm,
    };
    AttributeDefinition {
        name: attribute.name().to_owned(),
        value_type: value_type.raw(),
        description: attribute.description().to_owned(),
        is_used,
    }
}

fn region(text: &RegionText) -> RegionDefinition {
    let facts = text.facts();
    RegionDefinition {
        name: text.name.clone(),
        description: facts.description.to_owned(),
        role: facts.role.raw(),
        paradigm: facts.paradigm.raw(),
        group: facts.group,
        canonical_name: text.canonical.clone(),
    }
}

/// Communicators and the ones that they were split from or grown of, as far as the process has both.
fn parents(model: &Process<'_>) -> Vec<(u32, u32)> {
    let comms = &model.comms;
    let with_id = |id: u64| {
        let mut such = (0..).zip(&comms.comms).filter(|(_, comm)| comm.comm_id == id && id != 0);
        let first = such.next().map(|(number, _)| number);
        // Communicators of different sizes can have one id.
        first.filter(|_| such.next().is_none())
    };
    let parents = model.links.ranges.parents(model.tables).filter_map(|(context, id, parent)| {
        let member = context.and_then(|context| comms.member(context));
        Some((member.map_or_else(|| with_id(id), |member| Some(member.comm))?, with_id(parent)?))
    });
    let parents: BTreeSet<(u32, u32)> = parents.gather();
    parents.into_iter().collect()
}

fn gpu_clocks(model: &Process<'_>) -> Vec<GpuClockDefinition> {
    let clocks = model.comms.members.iter().zip(&model.gpu_clocks).map(|(member, clock)| GpuClockDefinition {
        comm: member.comm,
        rank: member.rank,
        clock: clock.quality.clone(),
    });
    clocks.filter(|definition| definition.clock.calibration != GpuCalibration::None).collect()
}

fn switch(at: &SwitchAt, tables: &Tables) -> SwitchDefinition {
    let step_switch = match at.switch.cause {
        Cause::Steps(switch) if at.context != 0 => Some(switch),
        _ => None,
    };
    let context = tables.find_context(at.context).and_then(|at| tables.contexts.get(index(at)));
    SwitchDefinition {
        ns: at.time,
        is_on: at.switch.after.is_on,
        events: at.switch.after.events,
        by_signal: at.switch.cause == Cause::Signal,
        steps: step_switch.and_then(|switch| Some((switch.range?, switch.is_named))).map(|(span, is_named)| {
            StepRangeDefinition {
                is_named,
                first: span.first,
                last: span.last,
                rank: context.map_or(-1, |context| context.comm.rank),
            }
        }),
        breaks_order: at.breaks_order(),
    }
}

pub(super) fn location_kind(model: &Process<'_>, threads: LocationThreads<'_>, key: LocationKey) -> LocationKind {
    let thread = |thread: u32| model.tables.threads.get(index(thread));
    match key {
        LocationKey::Thread(number) => {
            let thread = threads.calling.get(index(number)).and_then(|at| thread(*at));
            LocationKind::Thread {
                thread_id: thread.map_or(0, |thread| thread.thread_id),
                name: thread.map(|thread| thread.name.clone()).unwrap_or_default(),
                is_callback: thread.is_some_and(|thread| model.callback_threads.contains(&thread.key())),
            }
        }
        LocationKey::Proxy(number) => {
            let threads = threads.proxy.get(index(number)).map_or(&[][..], Vec::as_slice);
            let thread_ids = threads.iter().map(|at| thread(*at).map_or(0, |thread| thread.thread_id));
            LocationKind::Proxy { thread_ids: thread_ids.collect() }
        }
        LocationKey::Communicator(context) => {
            let member = model.comms.member(context);
            LocationKind::Communicator {
                comm: member.map_or(0, |member| member.comm),
                rank: member.map_or(0, |member| member.rank),
                gpu: member.map_or(0, |member| member.gpu),
            }
        }
        LocationKey::Stream(row) => LocationKind::Stream {
            gpu: model.comms.gpu(row.ordinal),
            context: row.context,
            stream: row.stream,
            is_ambiguous: model.links.gpu.is_ambiguous(row),
        },
        LocationKey::Ranges(number) => {
            let domain = model.links.ranges.domains.get(index(number)).map(|&domain| model.symbols.text(domain));
            LocationKind::Ranges { domain: domain.unwrap_or_default().to_owned() }
        }
    }
}

fn channel_ends(model: &Process<'_>) -> Vec<ChannelEnd> {
    let shown = model.level.shows(Kind::ProxyOp).then(|| model.tables.rows::<ProxyOp>()).into_iter().flatten();
    let ends = shown.filter_map(|(_, op)| {
        let owner = match model.owner_of_transfer(op) {
            Owner::Context(context) => {
                let member = model.comms.member(context)?;
                TransferOwner::Rank { comm: member.comm, rank: member.rank }
            }
            Owner::Foreign(context) if transfers::is_for_another(model.tables, op) => {
                TransferOwner::Foreign { context }
            }
            // The beginning of its communicator was lost.
            Owner::Foreign(_) => return None,
        };
        Some(ChannelEnd { owner, channel: op.fields.channel, send: op.fields.is_send })
    });
    let ends: BTreeSet<ChannelEnd> = ends.gather();
    ends.into_iter().collect()
}

#[derive(Clone, Copy, Debug, Default)]
pub struct WriteOptions {
    pub deadline: Option<Instant>,
    /// Whether the journal stays after the part is written. A journal that could not be read to its end always stays.
    pub keep_journal: bool,
    /// Whether a journal that is not read to its end is an error: other threads of a job may close the descriptors that
    /// read it, which looks like damage; a later `finalize` judges that.
    pub whole: bool,
    /// Whether the process is still recording: the part has the records so far, and a later `finalize` writes it again.
    pub provisional: bool,
    /// Events that began before this are left out; of that time, only the clock, communicators and threads are kept.
    pub since_ticks: u64,
    /// Which records are written; `None` for the level of the process.
    pub level: Option<Level>,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct PartSummary {
    pub part: String,
    pub locations: u64,
    pub events: u64,
    pub records: u64,
    pub counts: Counts,
    pub problems: Vec<String>,
}

/// Prefix of the directories in which a part is made.
pub(crate) const STAGING: &str = ".write";
const LOCK: &str = ".write.lock";
/// How long to wait for another process that is writing the part.
const PATIENCE: Duration = Duration::from_secs(600);

pub fn write_part(part: &Path, options: &WriteOptions, progress: &dyn Progress) -> Result<PartSummary, Error> {
    let _lock = lock(part, options.deadline, progress)?;
    write_locked(part, options, progress)
}

/// Locks a part: two writers at once would remove each other's files. Names the holder on `progress` while waiting.
pub(crate) fn lock(part: &Path, deadline: Option<Instant>, progress: &dyn Progress) -> Result<LockFile, Error> {
    let patience = Instant::now() + PATIENCE;
    let give_up = deadline.map_or(patience, |deadline| deadline.min(patience));
    let staging = Staging::create(part, STAGING)?;
    LockFile::take(part.join(LOCK), &staging, give_up, progress)
}

/// [`write_part`] for a caller that holds the lock.
pub(crate) fn write_locked(part: &Path, options: &WriteOptions, progress: &dyn Progress) -> Result<PartSummary, Error> {
    let deadline = Deadline { at: options.deadline, part };
    let recording = Recording::read(part, options.since_ticks)?;
    deadline.check()?;
    if let Some(problem) = recording.outcome.problems.first().filter(|_| options.whole) {
        return Err(Error::Unread { problem: problem.to_string() });
    }
    let (tables, symbols) = (&recording.tables, &recording.outcome.symbols);
    let level = options.level.unwrap_or(recording.process.level);
    let model = Process::new(tables, symbols, &recording.remote, level);
    let (timeline, mut counts) = timeline::build(&model);
    counts.add(&tables.counts);
    let definitions = Definitions::new(tables, &model.links, &timeline.regions, symbols);
    deadline.check()?;

    let staging = Staging::create(part, STAGING)?;
    let Timeline { locations, threads, proxy_threads, .. } = timeline;
    let has_puts = locations.iter().any(Location::has_puts);
    let threads = LocationThreads { calling: &threads, proxy: &proxy_threads };
    let files = EventFiles { deadline: &deadline, model: &model, definitions: &definitions, threads };
    let (locations, attributes) = files.write(locations, staging.path(), &mut counts, progress)?;
    let (calls, collectives) = calls_of_ranks(tables, &model.links, &model.comms, symbols);
    calls.write(&staging.path().join(CALLS))?;
    let transfers = transfers::transfers_for_others(tables, &model.links.transfers);
    if let Some(transfers) = TransfersFile::new(&recording.process, transfers) {
        transfers.write(&staging.path().join(REMOTE_TRANSFERS))?;
    }
    let builder = Builder {
        part,
        recording: &recording,
        model: &model,
        definitions: &definitions,
        is_provisional: options.provisional,
        has_puts,
        attributes,
    };
    let manifest = builder.manifest(locations, collectives, counts);
    commit(part, &staging, &manifest, options.provisional)?;
    // The journal is the only copy of records that could not be read.
    if !options.keep_journal && !options.provisional && manifest.problems.is_empty() {
        files::remove(part, progress);
    }
    Ok(summary(manifest))
}

fn commit(part: &Path, staging: &Staging, manifest: &Manifest, provisional: bool) -> Result<(), Error> {
    manifest.write(&staging.path().join(MANIFEST))?;
    still_ours(&part.join(LOCK))?;
    // Removes `done` first: without it, the files may be a mix of two attempts.
    remove_if_there(&part.join(DONE))?;
    put_in_place(staging, TRACES, part)?;
    put_in_place(staging, CALLS, part)?;
    if staging.path().join(REMOTE_TRANSFERS).exists() {
        put_in_place(staging, REMOTE_TRANSFERS, part)?;
    }
    put_in_place(staging, MANIFEST, part)?;
    let state = if provisional { files::PartProgress::Provisional } else { files::PartProgress::Written };
    mark(part, staging, state)
}

pub(crate) fn mark(part: &Path, staging: &Staging, state: files::PartProgress) -> Result<(), Error> {
    let mark = staging.path().join(DONE);
    state.write(&mark).map_err(io_error("write", &mark))?;
    put_in_place(staging, DONE, part)
}

fn summary(manifest: Manifest) -> PartSummary {
    PartSummary {
        locations: manifest.locations.len() as u64,
        events: manifest.events(),
        problems: manifest.all_problems(),
        part: manifest.part,
        records: manifest.records,
        counts: manifest.counts,
    }
}

pub(super) struct Deadline<'a> {
    pub(super) at: Option<Instant>,
    pub(super) part: &'a Path,
}

impl Deadline<'_> {
    pub(super) fn check(&self) -> Result<(), Error> {
        if self.is_over() { Err(self.error()) } else { Ok(()) }
    }

    fn is_over(&self) -> bool {
        self.at.is_some_and(|deadline| Instant::now() >= deadline)
    }

    fn error(&self) -> Error {
        Error::Deadline { path: self.part.to_owned() }
    }
}

/// Writes the event files of a part, one location at a time: memory use is one chunk beside the timeline.
pub(super) struct EventFiles<'a> {
    pub(super) deadline: &'a Deadline<'a>,
    pub(super) model: &'a Process<'a>,
    pub(super) definitions: &'a Definitions,
    pub(super) threads: LocationThreads<'a>,
}

/// The threads that locations count: indices in [`Tables::threads`].
#[derive(Clone, Copy)]
pub(super) struct LocationThreads<'a> {
    pub(super) calling: &'a [u32],
    pub(super) proxy: &'a [Vec<u32>],
}

impl EventFiles<'_> {
    pub(super) fn write(
        &self,
        locations: Vec<Location>,
        into: &Path,
        counts: &mut Counts,
        progress: &dyn Progress,
    ) -> Result<(Vec<LocationDefinition>, UsedAttributes), Error> {
        let failed = || otf2_error(self.deadline.part);
        let is_late = || self.deadline.is_over();
        let mut part = PartWriter::create(into, TRACES).map_err(failed())?;
        let mut emitter = Emitter::new(self.model, self.definitions);
        let mut definitions = Vec::with_capacity(locations.len());
        progress.begin("locations", locations.len() as u64);
        for (number, location) in locations.into_iter().enumerate() {
            let reference = LocationRef::new(u64::from(index_u32(number)));
            let mut definition = LocationDefinition {
                kind: location_kind(self.model, self.threads, location.key),
                events: 0,
                first_ns: 0,
                last_ns: 0,
                collectives: 0,
            };
            // Also if recording was switched: the switch would be the only event.
            if location.is_empty() {
                otf2::write_stub_events(&part.event_file(reference)).map_err(failed())?;
            } else {
                let mut writer = part.event_writer(reference).map_err(failed())?;
                let written = emitter.write_location(&mut writer, location, &mut counts.clamped, &is_late);
                let written = written.map_err(failed())?.ok_or_else(|| self.deadline.error())?;
                definition.events = writer.close().map_err(failed())?;
                (definition.first_ns, definition.last_ns) = written.span_ns.unwrap_or_default();
                definition.collectives = written.collectives;
            }
            definitions.push(definition);
            progress.step();
        }
        progress.end();
        // Readers refuse an archive without locations: a process that recorded nothing gets one for its main thread.
        if definitions.is_empty() {
            otf2::write_stub_events(&part.event_file(LocationRef::new(0))).map_err(failed())?;
            let kind = LocationKind::Thread {
                thread_id: self.model.tables.process_id,
                name: String::new(),
                is_callback: false,
            };
            let (events, first_ns, last_ns, collectives) = (0, 0, 0, 0);
            definitions.push(LocationDefinition { kind, events, first_ns, last_ns, collectives });
        }
        part.close().map_err(failed())?;
        Ok((definitions, emitter.into_used()))
    }
}

/// Name of the file in a part. Exists only if there were transfers.
pub(crate) const REMOTE_TRANSFERS: &str = "remote-transfers";

const FORMAT: u32 = 1;

/// The file `remote-transfers` of a part: what its process transferred for others (PXN), see
/// [`model::links::transfers`].
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct TransfersFile {
    format: u32,
    /// The worker's host: event ids are only meaningful between processes of one host.
    host: String,
    boot_id: String,
    transfers: Vec<RemoteTransfers>,
}

impl TransfersFile {
    /// The transfers of a process for others; `None` if there are none.
    pub(crate) fn new(process: &ProcessInfo, transfers: Vec<RemoteTransfers>) -> Option<Self> {
        (!transfers.is_empty()).then(|| Self {
            format: FORMAT,
            host: process.host.clone(),
            boot_id: process.boot_id.clone(),
            transfers,
        })
    }

    pub(crate) fn write(&self, path: &Path) -> Result<(), Error> {
        write_json(path, self)
    }

    fn read(part: &Path) -> Result<Option<Self>, Error> {
        let path = part.join(REMOTE_TRANSFERS);
        let read = read_json(&path, MOST_MANIFEST_BYTES).map_err(unreadable(&path))?;
        Ok(read.filter(|read: &Self| read.format == FORMAT))
    }
}

/// Whether two parts belong to one host, by their names, which begin with the host's.
fn are_neighbours(part: &Path, other: &Path) -> bool {
    let (own, other) = (part_name(part), part_name(other));
    let host = own.rsplitn(3, '-').nth(2).unwrap_or_default();
    other != own && other.starts_with(host)
}

/// Whether some part of the same host is not completely written yet.
pub(crate) fn has_unwritten_neighbours(part: &Path, all: &[PathBuf]) -> bool {
    let mut neighbours = all.iter().filter(|other| are_neighbours(part, other));
    neighbours.any(|other| !is_final(other))
}

/// What the neighbours of a part's process did for it, as far as written: their names, and their transfers.
pub(crate) fn from_neighbours(
    part: &Path,
    process: &ProcessInfo,
    process_tag: u16,
) -> Result<(Vec<String>, Vec<RemoteTransfers>), Error> {
    let paths = part.parent().and_then(|parts| fs::read_dir(parts).ok()).into_iter().flatten().flatten();
    let paths = paths.map(|entry| entry.path());
    let mut neighbours: Vec<PathBuf> = paths.filter(|path| are_neighbours(part, path)).collect();
    nccl_events::sort::sort(&mut neighbours);
    let (mut names, mut transfers) = (Vec::new(), Vec::new());
    for neighbour in neighbours {
        let there = match TransfersFile::read(&neighbour) {
            Ok(Some(there)) => there,
            Ok(None) => continue,
            // `finalize` names a part that cannot be read at all: the others do not wait for it.
            Err(_) if why_unusable(&neighbour).is_some() => continue,
            Err(error) => return Err(error),
        };
        if (&there.host, &there.boot_id) != (&process.host, &process.boot_id) {
            continue;
        }
        let before = transfers.len();
        let is_ours = |one: &RemoteTransfers| EventId::from_raw(one.parent).tag() == process_tag;
        transfers.extend(there.transfers.into_iter().filter(is_ours));
        if transfers.len() > before {
            names.push(part_name(&neighbour));
        }
    }
    Ok((names, transfers))
}

/// The input of a part: the journal of a process, and the transfers that its neighbours did for it.
pub(super) struct Recording {
    pub(super) tables: Tables,
    pub(super) outcome: Outcome,
    pub(super) clock: HostClock,
    pub(super) process: ProcessInfo,
    pub(super) process_problem: String,
    /// What neighbours transferred for the process (PXN), and their parts.
    pub(super) remote: Vec<RemoteTransfers>,
    pub(super) remote_workers: Vec<String>,
    pub(super) scorep: Option<ScorepReport>,
    pub(super) chain: Option<ChainReport>,
}

impl Recording {
    /// Reads the journal of a part without the events before `since_ticks`, and the neighbours' transfers.
    pub(super) fn read(part: &Path, since_ticks: u64) -> Result<Self, Error> {
        let journal = Journal::open(&part.join(JOURNAL))?;
        let tick_source = journal.tick_source;
        let process_id = journal.process_id;
        let process_tag = journal.process_tag;
        let session_start_ns = journal.session_start_realtime_ns;
        let (builder, outcome) = read_since(journal, since_ticks)?;
        refuse_less(part, &outcome)?;
        let (mut tables, clock) = builder.finish_by_clock(&outcome.losses, &outcome.removed, process_tag, tick_source);
        if since_ticks > 0 {
            tables.ranges.keep_since(clock.nanoseconds(since_ticks));
        }
        tables.process_id = process_id;
        tables.process_tag = process_tag;
        let read = try_read_process(part).map_err(unreadable(&part.join(PROCESS)));
        let (mut process, process_problem) = read?;
        let (remote_workers, remote) = from_neighbours(part, &process, process_tag)?;
        if process.pid == 0 {
            process.pid = process_id;
            process.session_start_realtime_ns = session_start_ns;
        }
        let scorep = ScorepReport::read(part).map_err(unreadable(&ScorepReport::path(part)))?;
        let chain = ChainReport::read(part).map_err(unreadable(&ChainReport::path(part)))?;
        Ok(Self { tables, outcome, clock, process, process_problem, remote, remote_workers, scorep, chain })
    }
}

/// Refuses to rewrite a part from fewer records than before: removing the journal may have been interrupted.
fn refuse_less(part: &Path, outcome: &Outcome) -> Result<(), Error> {
    match is_done(part).then(|| Manifest::read(part).ok()).flatten() {
        Some(before) if before.records > outcome.records => {
            Err(Error::Shrunk { path: part.join(JOURNAL), records: outcome.records, written: before.records })
        }
        _ => Ok(()),
    }
}
