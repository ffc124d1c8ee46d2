//! Reads a [`Job`] from a job's directory: parts are read in parallel, then merged.
//!
//! Reading does not contact the processes and changes nothing: they may be running, hanging, or dead.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::DirEntry;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::error::Error;
use crate::job::{Actor, Call, Comm, Job, Positions, Process, Rank, Tail, ThreadActivity};
use crate::read::align::align;
use crate::read::operations::Reader;
use crate::read::threads::{Threads, not_recorded};
use analysis::units::plural;
use analysis::{Trace, in_parallel};
use archive::{WrittenPart, part_directories};
use clocks::ticks::{Calibration, HostClock};
use journal::clock;
use journal::clock::{ClockPair, TickSource};
use journal::follow::{Follower, PollResult};
use journal::host::boot_id;
use journal::part::environment::Level;
use journal::part::is_done;
use journal::part::{JOURNAL, ProcessInfo, part_name, read_process};
use journal::reader::{Error as JournalError, Removed};
use model::communicators::{CommIdentity, impossible_ranks};
use model::job::{Claim, CommDefinition, Communicator, Communicators, DuplicateClaim, Unnamed, comm_names};
use model::job::{Evidence, RecordingState, is_blank};
use model::links::transfers;
use model::links::transfers::RemoteTransfers;
use model::tables::builder::TableBuilder;
use model::tables::ranges::SwitchAt;
use model::tables::{Head, Tables};
use nccl_events::ids::{EventId, index};
use nccl_events::schema::Lack;
use nccl_events::sort::Gather;
use nccl_events::{Kind, MOST_RANKS, Progress};

/// Reads the journals of the job in `directory`.
pub(crate) fn journals(directory: &Path, progress: &dyn Progress) -> Result<Job, Error> {
    let mut directories = part_directories(directory)?;
    directories.retain(|part| !is_blank(part));
    if directories.is_empty() {
        return Err(Error::NothingRecorded(directory.to_owned()));
    }
    let moment = Moment::now();
    progress.begin("journals", directories.len() as u64);
    let mut parts = in_parallel(directories.iter().enumerate(), |(number, directory)| {
        let part = Part::read(number, directory, &moment, &[]);
        progress.step();
        part
    });
    progress.end();
    read_with_transfers_of_others(&mut parts, &directories, &moment);
    let mut job = Job { now_ns: moment.pair.realtime_ns, ..Job::default() };
    let mut comms = Communicators::new(DuplicateClaim::Newer);
    let mut parents: BTreeMap<u64, u64> = BTreeMap::new();
    // The archive has the processes in this order, which gives communicators the same names.
    let mut order: Vec<usize> = (0..parts.len()).collect();
    order.sort_by_key(|at| parts.get(*at).map(|part| part.process.launcher_rank.unwrap_or(u32::MAX)));
    for number in order {
        let Some(part) = parts.get_mut(number) else { continue };
        comms.add((number, &part.process.part), std::mem::take(&mut part.claims));
        parents.extend(part.parents.iter().copied());
    }
    job.processes = parts.into_iter().map(|part| part.process).collect();
    let own: Vec<(Option<String>, Option<String>)> = comms
        .all
        .iter()
        .map(|known| (known.given_name().map(str::to_owned), known.id().is_none().then(|| known.name())))
        .collect();
    job.comms = comms.all.into_iter().map(comm).collect();
    job.number();
    name(&mut job, &own, &parents);
    Ok(job)
}

/// Names the communicators as the archive will.
fn name(job: &mut Job, own: &[(Option<String>, Option<String>)], parents: &BTreeMap<u64, u64>) {
    let largest = job.comms.iter().map(|comm| comm.size).max();
    let launched = job.processes.iter().filter_map(|process| process.launcher_size).max().unwrap_or(0);
    let processes = job.processes.len();
    let number_of = |id: u64| {
        let mut found = (0..).zip(&job.comms).filter(|(_, comm)| comm.id == id).map(|(at, _)| at);
        found.next().filter(|_: &u32| found.next().is_none())
    };
    let unnamed = (0..).zip(&job.comms).zip(own).map(|((at, comm), (given, own))| {
        let has_all = processes + comm.missing().len() >= index(launched) && Some(comm.size) == largest;
        Unnamed {
            given: given.as_deref(),
            own: own.as_deref(),
            is_world: comm.has_all && has_all,
            parent: parents.get(&comm.id).and_then(|parent| number_of(*parent)).filter(|parent| *parent < at),
            ranks: index(comm.size),
        }
    });
    let names = comm_names(unnamed);
    for (comm, name) in job.comms.iter_mut().zip(names) {
        comm.name = name;
    }
}

/// Reads those parts again whose operations' transfers other processes of the host did (PXN).
fn read_with_transfers_of_others(parts: &mut [Part], directories: &[PathBuf], moment: &Moment) {
    let mut remote: BTreeMap<(String, u16), Vec<RemoteTransfers>> = BTreeMap::new();
    for part in parts.iter_mut() {
        // Of a host that is not known, nothing says whose transfers they are.
        let for_others = std::mem::take(&mut part.for_others);
        for transfers in for_others.into_iter().filter(|_| !part.boot_id.is_empty()) {
            let origin = (part.boot_id.clone(), EventId::from_raw(transfers.parent).tag());
            remote.entry(origin).or_default().push(transfers);
        }
    }
    let again = parts.iter().enumerate().zip(directories);
    let again: Vec<_> = again
        .filter_map(|((number, part), directory)| {
            Some((number, directory, remote.get(&(part.boot_id.clone(), part.process_tag))?))
        })
        .collect();
    let read = in_parallel(again.iter(), |(number, directory, remote)| {
        (*number, Part::read(*number, directory, moment, remote))
    });
    for (number, part) in read {
        if let Some(known) = parts.get_mut(number) {
            *known = part;
        }
    }
}

fn comm(known: Communicator<Rank>) -> Comm {
    let name = known.name();
    let CommDefinition { identity, id, ranks, ranks_seen, .. } = known.comm;
    let seen = ranks_seen.max(known.members.keys().next_back().map_or(0, |rank| rank.saturating_add(1)));
    let knows_size = (1..=MOST_RANKS).contains(&ranks);
    let mut comm = Comm {
        name,
        id: if identity == CommIdentity::Part { 0 } else { id },
        size: if knows_size { ranks } else { seen.min(MOST_RANKS) },
        knows_size,
        ranks: known.members,
        ..Comm::default()
    };
    align(&mut comm);
    comm
}

/// One process: from its journal, or only its ranks if the part is written and its journal removed.
#[derive(Default)]
struct Part {
    process: Process,
    claims: Vec<Claim<Rank>>,
    boot_id: String,
    /// The communicators that others were split from or grown of, by NCCL's ids.
    parents: Vec<(u64, u64)>,
    /// 0 without a journal.
    process_tag: u16,
    /// What it transferred for operations of other processes (PXN).
    for_others: Vec<RemoteTransfers>,
}

/// The records of a process up to now. Files removed in the meantime are held open and read.
struct Recording {
    follower: Follower,
    polled: PollResult,
    builder: TableBuilder,
}

impl Recording {
    fn read(journal: &Path) -> Result<Self, JournalError> {
        let mut follower = Follower::open(journal)?;
        let mut builder = TableBuilder::default();
        let polled = follower.poll(&mut builder, u64::MAX)?;
        Ok(Self { follower, polled, builder })
    }
}

/// The moment of judgement, by all clocks of this host.
pub(super) struct Moment {
    boot_id: String,
    pub(super) pair: ClockPair,
    tick_source: TickSource,
}

impl Moment {
    pub(super) fn now() -> Self {
        // Selected first: the selection decides which ticks a pair has.
        let tick_source = clock::select();
        Self { boot_id: boot_id(), pair: ClockPair::read(), tick_source }
    }

    /// Whether a process ran on this host since its last boot.
    fn is_here(&self, process: &ProcessInfo) -> bool {
        !self.boot_id.is_empty() && process.boot_id == self.boot_id
    }

    fn evidence(&self, process: &ProcessInfo, last_record_ns: u64, is_described: bool) -> Evidence {
        let (host, now_ns) = (process.life(), self.pair.realtime_ns);
        Evidence { host, now_ns, last_record_ns, is_described, is_finalized: false, shows_end: true }
    }
}

impl Part {
    /// Reads the part in `directory` as process `number`. `remote` is what other processes did for this one.
    fn read(number: usize, directory: &Path, moment: &Moment, remote: &[RemoteTransfers]) -> Self {
        let (info, problem) = read_process(directory);
        let mut process = unknown_process(directory, &info, moment);
        let is_described = problem.is_empty();
        if !is_described {
            process.event_mask = None;
            process.problems.push(format!("{problem}; host, rank, NCCL release and events are not known"));
        }
        let journal = directory.join(JOURNAL);
        if journal.is_dir() {
            match Recording::read(&journal) {
                // If the part was written and its journal removed in the meantime, the part is done.
                Ok(Recording { polled: PollResult { is_removed: true, .. }, .. }) | Err(_) if is_done(directory) => {}
                Ok(recording) => {
                    let mut part = Self::from_journal((number, process), &info, recording, (moment, remote));
                    // A running process may be about to give a new file its size.
                    let empty = empty_files(&journal).filter(|_| !part.process.state.is_alive());
                    part.process.is_whole &= empty.is_none();
                    part.process.problems.extend(empty);
                    return part;
                }
                Err(error) => process.problems.push(error.to_string()),
            }
        }
        let mut claims = Vec::new();
        if is_done(directory) {
            match WrittenPart::read(directory) {
                Ok(written) => {
                    process.event_mask = process.event_mask.and(Some(written.event_mask));
                    process.problems.extend(impossible(written.impossible_ranks.iter().copied()));
                    claims = written_ranks(number, written);
                }
                Err(error) => process.problems.push(error.to_string()),
            }
        } else {
            process.state = moment.evidence(&info, info.session_start_realtime_ns, is_described).life();
            process.problems.extend(match journal.symlink_metadata() {
                Err(error) if error.kind() == ErrorKind::NotFound => {
                    Some(format!("its journal is missing: {} was removed or lost", journal.display()))
                }
                // Why it cannot be read is said above.
                _ if journal.is_dir() => None,
                _ => Some(
                    "no journal is readable here (it may be on the process's host: NCCL_OTF2_JOURNAL_DIR)".to_owned(),
                ),
            });
        }
        Self { process, claims, ..Self::default() }
    }

    fn from_journal(
        (number, mut process): (usize, Process),
        info: &ProcessInfo,
        recording: Recording,
        (moment, remote): (&Moment, &[RemoteTransfers]),
    ) -> Self {
        let Recording { follower: journal, polled, builder } = recording;
        let source = journal.tick_source();
        let removed = journal.removed();
        let mut tables = builder.finish(&polled.losses, &removed, journal.process_tag());
        tables.process_id = journal.process_id();
        tables.process_tag = journal.process_tag();
        let last_ticks = tables.span.1;
        if moment.is_here(info) && source == moment.tick_source {
            // All processes of a host share one clock, so its present value also calibrates the recording.
            tables.clock_pairs.push(moment.pair);
        }
        let clock = HostClock::new(source, &tables.clock_pairs);
        process.has_clock = clock.quality.calibration != Calibration::Assumed && !tables.clock_pairs.is_empty();
        let offset = offset(&tables, &clock, journal.session_start_realtime_ns());
        let (has_clock, until_ns) = (process.has_clock, process.until_ns);
        let realtime = |ns: u64| if has_clock { ns.saturating_add_signed(offset) } else { until_ns };
        tables.to_nanoseconds(&clock);
        let kept_since_ns = (tables.removed.segments > 0).then(|| clock.nanoseconds(tables.removed.since_ticks));
        process.has_journal = true;
        process.kept_since_ns = kept_since_ns.map(realtime);
        note_problems(&tables, &polled, &removed, &mut process);
        if has_clock {
            process.last_event_ns = last_event(&tables).map_or(0, realtime);
            process.last_record_ns = realtime(clock.nanoseconds(last_ticks));
        }
        let ends = tables.comm_calls.iter().filter(|call| !call.is_init).count();
        let evidence = Evidence {
            is_finalized: !tables.contexts.is_empty() && ends == tables.contexts.len(),
            shows_end: has_clock && (!tables.contexts.is_empty() || polled.problems.is_empty()),
            ..moment.evidence(info, process.last_record_ns, has_clock && process.event_mask.is_some())
        };
        process.state = evidence.life();
        if !process.state.is_alive() && has_clock {
            process.until_ns = process.last_record_ns.min(process.until_ns);
        }
        let model = model::process::Process::new(&tables, journal.symbols(), remote, Level::default());
        let claims = ranks((number, &mut process), info, &model, realtime);
        process.problems.extend(impossible(impossible_ranks(&tables)));
        Self {
            process,
            claims,
            boot_id: info.boot_id.clone(),
            parents: parents(&model),
            process_tag: tables.process_tag,
            for_others: transfers::transfers_for_others(&tables, &model.links.transfers),
        }
    }
}

/// The ids of communicators, each with the id of the one that it was split from or grown of.
fn parents(model: &model::process::Process<'_>) -> Vec<(u64, u64)> {
    let tables = model.tables;
    let id = |context: u32| tables.contexts.get(index(context)).map(|context| context.comm.comm_id);
    let parents = model.links.ranges.parents(tables);
    parents.map(|(context, of, parent)| (context.and_then(id).unwrap_or(of), parent)).collect()
}

/// Reports empty files of a journal: every file is created with records in it.
fn empty_files(journal: &Path) -> Option<String> {
    let files: Vec<_> = journal.read_dir().ok()?.flatten().collect();
    let is_empty = |file: &&DirEntry| file.metadata().is_ok_and(|found| found.len() == 0);
    let name = |file: &DirEntry| file.file_name().to_string_lossy().into_owned();
    let empty: Vec<String> = files.iter().filter(is_empty).map(name).collect();
    let names = empty.join(", ");
    (!empty.is_empty())
        .then(|| format!("its journal is damaged, these files are empty: {names} in {}", journal.display()))
}

fn unknown_process(directory: &Path, info: &ProcessInfo, moment: &Moment) -> Process {
    Process {
        part: part_name(directory),
        host: info.host.clone(),
        pid: info.pid,
        launcher_rank: info.environment.rank,
        launcher_size: info.environment.size,
        state: RecordingState::Ended,
        until_ns: moment.pair.realtime_ns,
        event_mask: Some(info.event_mask),
        has_clock: true,
        release: info.nccl_version.clone(),
        ..Process::default()
    }
}

/// Offset from CLOCK_MONOTONIC to CLOCK_REALTIME, from the last clock pair; 0 if out of range.
fn offset(tables: &Tables, clock: &HostClock, started_ns: u64) -> i64 {
    let pair = tables.clock_pairs.last().map(|pair| (pair.monotonic_ns, pair.realtime_ns));
    let (monotonic, realtime) = pair.unwrap_or_else(|| (clock.nanoseconds(tables.span.0), started_ns));
    i64::try_from(i128::from(realtime) - i128::from(monotonic)).unwrap_or(0)
}

fn last_event(tables: &Tables) -> Option<u64> {
    let events = tables.events.heads().map(|event| event.stop().unwrap_or(event.start));
    let calls = tables.comm_calls.iter().map(|call| call.end);
    events.chain(tables.events.last_state()).chain(calls).chain(tables.last_not_selected).max()
}

fn note_problems(tables: &Tables, polled: &PollResult, removed: &Removed, process: &mut Process) {
    let problems = &mut process.problems;
    problems.extend(polled.problems.iter().take(4).map(ToString::to_string));
    let lost = polled.losses.total();
    let switched = tables.switches.iter().any(SwitchAt::leaves_out);
    process.is_whole = lost == 0 && !switched && polled.problems.is_empty();
    if !process.has_clock {
        problems.push("its times are not compared: it has too few clock readings".to_owned());
    }
    if process.kept_since_ns.is_some() {
        let events = plural(removed.starts, "event is", "events are");
        problems.push(format!("a flight recording: {events} from its beginning not kept"));
    }
    if switched {
        problems.push(
            "its recording was switched off and on, so its place in the order of calls is not \
            known"
                .to_owned(),
        );
    }
    if lost > 0 {
        let callbacks = plural(lost, "callback was", "callbacks were");
        problems.push(format!("{callbacks} not recorded: its state may be wrong"));
    }
    let ranges = not_recorded(tables);
    if ranges > 0 {
        let ranges = plural(ranges, "NVTX range was", "NVTX ranges were");
        problems.push(format!("{ranges} not recorded: which call and which ranges it is in is not known"));
    }
    if tables.contexts.is_empty() {
        problems.push("it recorded no communicator: NCCL is not initialised, or is being initialised".to_owned());
    }
}

/// A problem for each communicator for which NCCL stated these impossible ranks and sizes.
fn impossible(ranks: impl IntoIterator<Item = (i32, i32)>) -> impl Iterator<Item = String> {
    ranks.into_iter().map(|(rank, ranks)| {
        format!(
            "states that it is rank {rank} of {ranks} of a communicator, which is impossible: the other ranks are not \
            known"
        )
    })
}

/// The ranks of a process with a journal. `realtime` converts the process's times.
fn ranks(
    (number, process): (usize, &mut Process),
    info: &ProcessInfo,
    model: &model::process::Process<'_>,
    realtime: impl Fn(u64) -> u64,
) -> Vec<Claim<Rank>> {
    let model::process::Process { tables, symbols, comms, .. } = model;
    let mut recorded = Reader::new(model, info.table).ranks();
    let threads = Threads::of(tables, symbols, comms, process.state == RecordingState::Ended);
    if process.has_clock {
        (process.aborts_ns, process.unmade_since_ns) = (threads.aborts(), threads.unmade_since());
        process.aborts_ns.iter_mut().chain(&mut process.unmade_since_ns).for_each(|ns| *ns = realtime(*ns));
        process.shows_calls = threads.show_calls;
        process.activities = threads.activity_of_gpus();
        process.activities.values_mut().for_each(|activity| activity.convert_times(&realtime));
    }
    Claim::all(comms, symbols, |context, member| {
        let id = tables.contexts.get(context).map_or(0, |context| context.id);
        let mut rank = recorded.remove(&id).unwrap_or_default();
        rank.actor = Actor { process: number, gpu: member.gpu };
        let context = tables.find_context(id);
        rank.finalized = context.is_some_and(|context| tables.is_finalized(context));
        rank.ended = context.and_then(|context| threads.end_of_context(context));
        let began_ns = realtime(context.and_then(|context| tables.began(context)).unwrap_or(0));
        if process.kept_since_ns.is_some_and(|since_ns| began_ns < since_ns) {
            rank.calls.positions = Positions::Unknown;
            rank.replays.positions = Positions::Unknown;
        }
        if process.has_clock {
            rank.activity = context.map_or_else(ThreadActivity::default, |context| threads.activity_of_context(context))
        } else {
            rank.open_calls.clear()
        }
        convert_times(&mut rank, &realtime);
        rank
    })
}

fn convert_times(rank: &mut Rank, realtime: impl Fn(u64) -> u64) {
    let calls = rank.calls.list.iter_mut().chain(&mut rank.replays.list);
    let calls = calls.map(|call| (&mut call.entered_ns, &mut call.place, &mut call.progress));
    let messages = rank.messages.iter_mut().chain(&mut rank.without_peer);
    let messages = messages.map(|message| (&mut message.entered_ns, &mut message.place, &mut message.progress));
    for (entered_ns, place, progress) in calls.chain(messages) {
        *entered_ns = realtime(*entered_ns);
        place.launched_ns = place.launched_ns.map(&realtime);
        progress.ended_ns = progress.ended_ns.map(&realtime);
        progress.waits.iter_mut().for_each(|wait| wait.since_ns = realtime(wait.since_ns));
    }
    rank.open_calls.iter_mut().for_each(|call| call.since_ns = realtime(call.since_ns));
    rank.ended = rank.ended.map(|(ns, is_abort)| (realtime(ns), is_abort));
    rank.activity.convert_times(&realtime);
}

/// The ranks of a part whose journal is removed: only the number of their collectives is known.
fn written_ranks(process: usize, written: WrittenPart) -> Vec<Claim<Rank>> {
    let positions = if written.removed == 0 { Positions::Counted } else { Positions::Unknown };
    let rank = |(rank, (gpu, collectives))| {
        let calls = Tail { before: collectives, positions, ..Tail::default() };
        (rank, Rank { actor: Actor { process, gpu }, calls, finalized: true, ..Rank::default() })
    };
    let claims = written.claims.into_iter();
    claims.map(|Claim { comm, members }| Claim { comm, members: members.into_iter().map(rank).collect() }).collect()
}

/// What NCCL does for operations in its proxy and network plugin, whose ends it may report late or never.
const BELOW: [Kind; 4] = [Kind::ProxyOp, Kind::ProxyStep, Kind::ProxyCtrl, Kind::NetPlugin];

/// The archive's statements about missing data.
pub(super) struct Limitations {
    /// The recorded kinds of events, as NCCL's mask.
    pub(super) event_mask: u32,
    pub(super) is_whole: bool,
    /// Whether only the end of a recording was kept.
    pub(super) is_flight: bool,
    pub(super) missing: Vec<String>,
    /// Operations that do not end or differ, one per line.
    pub(super) signs: Vec<String>,
    /// Network events that do not end, if nothing else does not.
    pub(super) open_below: Option<String>,
}

impl Limitations {
    pub(super) fn of(trace: &Trace) -> Self {
        let statements = &trace.statements;
        let is_missing = |lack| match lack {
            Lack::Callbacks(lost) => Some(format!("{} not recorded", plural(lost, "callback was", "callbacks were"))),
            Lack::Places(number) => {
                let first = statements.problems.lines.all.first().map(String::as_str).unwrap_or_default();
                let places = plural(number, "place", "places");
                Some(format!("{places} of the recordings could not be read; the first: {first}"))
            }
            Lack::Processes(number) => Some(format!("the archive lacks {}", plural(number, "process", "processes"))),
            Lack::WhileOff => Some("recording was switched off and on, so the order of calls is not known".to_owned()),
            _ => None,
        };
        let mut missing: Vec<String> = statements.missing_data().filter_map(is_missing).collect();
        missing.extend(statements.matching_unknown.lines.shown());
        let mut signs = statements.ranks_behind.lines.shown();
        let unfinished = statements.unfinished();
        let below = BELOW.map(|kind| statements.counts.kinds.get(kind).unfinished).iter().sum::<u64>();
        let open = || format!("{} had not ended when recording ended", plural(unfinished, "event", "events"));
        let open_below = (unfinished > 0 && unfinished == below).then(open);
        if unfinished > below {
            signs.push(open());
        }
        Self {
            event_mask: event_mask(&statements.events.all),
            is_whole: !statements.has_gaps() && statements.measurement_list.is_empty(),
            is_flight: statements.flight_processes.get() > 0,
            missing,
            signs,
            open_below,
        }
    }
}

/// The mask of the kinds that the archive lists.
fn event_mask(lines: &[String]) -> u32 {
    let has = |kind: &Kind| lines.iter().any(|line| line.split([',', ' ']).any(|name| name == kind.name()));
    Kind::ALL.into_iter().filter(has).map(Kind::mask).fold(0, |mask, kind| mask | kind)
}

// If only the end of a recording is kept, each thread loses its first records at another time, a mebibyte at once: an
// operation may be kept without its call.

/// Largest distance between a call and its operation, in events of their thread: about a large group.
const NEAR_EVENTS: u64 = 1 << 14;

/// An operation's call whose record is not kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RemovedCall {
    /// Removed recently, with its number on its thread: the operation belongs to this call.
    Near(u64),
    /// Removed long ago: the call was captured into a CUDA graph, and the operation is from a launch of the graph.
    Captured,
}

/// The removed call of an operation; `None` if the call is kept, or was not recorded.
pub(super) fn removed_call(tables: &Tables, operation: &Head) -> Option<RemovedCall> {
    let later = tables.removed.starts_after(operation.parent, tables.process_tag)?;
    let call = EventId::from_raw(operation.parent);
    matches!(call.kind(), Kind::CollApi | Kind::P2pApi)
        .then(|| if later < NEAR_EVENTS { RemovedCall::Near(call.sequence()) } else { RemovedCall::Captured })
}

/// Removes calls before a gap in NCCL's numbers: calls may come from several threads, some of which keep more than
/// others. `others` are operations of the same rank that share the numbering.
pub(crate) fn leave_out_before_holes(calls: &mut Vec<Call>, others: &[Call]) {
    let of = |call: &Call| Some((Arc::clone(&call.what.func), call.sequence.filter(|_| !call.by_copy_engine)?));
    let all: BTreeSet<(Arc<str>, u64)> = calls.iter().chain(others).filter_map(of).gather();
    let mut highest: BTreeMap<Arc<str>, u64> = BTreeMap::new();
    let mut from = 0;
    for (at, call) in calls.iter().enumerate() {
        let Some((func, number)) = of(call) else {
            continue;
        };
        let before = *highest.entry(Arc::clone(&func)).or_insert(number);
        if number <= before {
            continue;
        }
        let between = (Arc::clone(&func), before + 1)..(Arc::clone(&func), number);
        if (all.range(between).count() as u64) < number - before - 1 {
            from = at;
        }
        highest.insert(func, number);
    }
    calls.drain(..from);
}
