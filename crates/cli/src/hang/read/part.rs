//! What one process recorded: from its journal, or, of a part whose journal is removed, its ranks only.

use std::fs::DirEntry;
use std::io::ErrorKind;
use std::path::Path;

use clocks::ticks::{Calibration, HostClock};
use journal::clock::{self, ClockPair, TickSource};
use journal::follow::{Follower, Polled};
use journal::part::process::ProcessInfo;
use journal::part::{JOURNAL, part_name, read_process};
use journal::reader::{Error, Removed, Symbols};
use tables::Tables;
use tables::builder::TableBuilder;
use tables::communicators::devices::Devices;
use tables::communicators::{CommIdentity, Comms};
use tables::switches::SwitchAt;
use trace::{WrittenPart, WrittenRank, is_done};

use super::life::Here;
use super::operations::Reader;
use crate::hang::job::{Actor, Process, ProcessState, Rank};
use crate::hang::tail::{Positions, Tail};
use crate::units::plural;

/// What identifies a communicator over processes.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct CommKey {
    by: CommIdentity,
    id: u64,
    pub(super) size: u32,
    repetition: u32,
    /// Empty where processes share it.
    part: String,
}

impl CommKey {
    fn new(by: CommIdentity, id: u64, size: u32, repetition: u32, part: &str) -> Self {
        let is_shared = by != CommIdentity::Part;
        Self { by, id, size, repetition, part: if is_shared { "" } else { part }.to_owned() }
    }

    /// As `stats` calls it.
    pub(super) fn name<'a>(&self, given: impl IntoIterator<Item = &'a str>) -> String {
        self.by.name(self.id, self.repetition, given, &self.part)
    }

    /// The id that all processes know; 0 where there is none.
    pub(super) fn shared_id(&self) -> u64 {
        if self.by == CommIdentity::Part { 0 } else { self.id }
    }
}

/// A communicator as a process has it, and its rank there.
pub(super) struct RecordedMember {
    pub(super) key: CommKey,
    pub(super) comm_name: String,
    pub(super) ranks_seen: u32,
    pub(super) rank: u32,
    pub(super) recorded: Rank,
}

pub(super) struct Part {
    pub(super) process: Process,
    pub(super) members: Vec<RecordedMember>,
}

/// What a process recorded up to now. What is removed meanwhile is held open and read.
struct Recording {
    follower: Follower,
    polled: Polled,
    builder: TableBuilder,
}

impl Recording {
    fn read(journal: &Path) -> Result<Self, Error> {
        let mut follower = Follower::open(journal)?;
        let mut builder = TableBuilder::default();
        let polled = follower.poll(&mut builder, u64::MAX)?;
        Ok(Self { follower, polled, builder })
    }
}

/// The moment of looking, by all clocks.
pub(super) struct Moment {
    here: Here,
    pub(super) pair: ClockPair,
    tick_source: TickSource,
}

impl Moment {
    pub(super) fn now() -> Self {
        let tick_source = clock::select();
        let pair = ClockPair::read();
        Self { here: Here::look(pair.realtime_ns), pair, tick_source }
    }
}

impl Part {
    /// Reads the part in `directory`, which is the process with this number.
    pub(super) fn read(number: usize, directory: &Path, moment: &Moment) -> Self {
        let (info, problem) = read_process(directory);
        let mut process = unknown_process(directory, &info, moment);
        let is_described = problem.is_empty();
        process.event_mask = is_described.then_some(info.event_mask);
        process.problems.extend(
            (!is_described).then(|| format!("{problem}; what it says of host, rank, NCCL and events is not known")),
        );
        let journal = directory.join(JOURNAL);
        if journal.is_dir() {
            match Recording::read(&journal) {
                // Written and removed while we looked: then the part is done.
                Ok(Recording { polled: Polled { is_removed: true, .. }, .. }) | Err(_) if is_done(directory) => {}
                Ok(recording) => {
                    let mut part = Self::of_journal(number, process, &info, recording, moment);
                    let empty = empty_files(&journal);
                    part.process.is_whole &= empty.is_none();
                    part.process.problems.extend(empty);
                    return part;
                }
                Err(error) => process.problems.push(error.to_string()),
            }
        }
        let mut members = Vec::new();
        if is_done(directory) {
            match WrittenPart::read(directory) {
                Ok(written) => {
                    process.event_mask = process.event_mask.and(Some(written.event_mask));
                    members = written_members(number, written, &process.part);
                }
                Err(error) => process.problems.push(error.to_string()),
            }
        } else {
            process.state = moment.here.state(&info, info.session_start_realtime_ns, is_described);
            process.problems.push(match journal.symlink_metadata() {
                Err(error) if error.kind() == ErrorKind::NotFound => {
                    format!("its journal is missing: {} was removed, or lost", journal.display())
                }
                _ => "no journal that can be read from here (it may lie on its own host: NCCL_OTF2_JOURNAL_DIR)"
                    .to_owned(),
            });
        }
        Self { process, members }
    }

    fn of_journal(
        number: usize,
        mut process: Process,
        info: &ProcessInfo,
        recording: Recording,
        moment: &Moment,
    ) -> Self {
        let Recording { follower: journal, polled, builder } = recording;
        let source = journal.tick_source();
        let started_ns = journal.session_start_realtime_ns();
        let removed = journal.removed();
        let mut tables = builder.finish(&polled.losses, &removed, journal.process_tag());
        tables.process_id = journal.process_id();
        tables.process_tag = journal.process_tag();
        let last_ticks = tables.span.1;
        if moment.here.has(info) && source == moment.tick_source {
            // All processes of a host have one clock: what it shows now calibrates the recording, too.
            tables.clock_pairs.push(moment.pair);
        }
        let clock = HostClock::new(source, &tables.clock_pairs);
        process.has_clock = clock.quality.calibration != Calibration::Assumed && !tables.clock_pairs.is_empty();
        let offset = offset(&tables, &clock, started_ns);
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
        let is_sure = has_clock && process.event_mask.is_some();
        process.state = moment.here.state(info, process.last_record_ns, is_sure);
        let ends = tables.comm_calls.iter().filter(|call| !call.is_init);
        let is_finalized = !tables.contexts.is_empty() && ends.count() == tables.contexts.len();
        match process.state {
            ProcessState::Gone | ProcessState::NotKnown if is_finalized => process.state = ProcessState::Ended,
            // Whether it ended its communicators is not there.
            ProcessState::Gone if !has_clock || tables.contexts.is_empty() && !polled.problems.is_empty() => {
                process.state = ProcessState::NotKnown;
            }
            _ => {}
        }
        if !process.state.is_alive() && has_clock {
            process.until_ns = process.last_record_ns.min(process.until_ns);
        }
        let members = members(number, &process, info, &tables, journal.symbols(), realtime);
        Self { process, members }
    }
}

/// Says which files of a journal are empty, or that it has none: each was made with records in it.
fn empty_files(journal: &Path) -> Option<String> {
    let files: Vec<_> = journal.read_dir().ok()?.flatten().collect();
    let is_empty = |file: &&DirEntry| file.metadata().is_ok_and(|found| found.len() == 0);
    let empty: Vec<String> =
        files.iter().filter(is_empty).map(|file| file.file_name().to_string_lossy().into_owned()).collect();
    match empty.as_slice() {
        [] if files.is_empty() => Some(format!("its journal is empty: {} has no files", journal.display())),
        [] => None,
        _ => Some(format!(
            "its journal is damaged, these files are empty: {} in {}",
            empty.join(", "),
            journal.display()
        )),
    }
}

/// A process before its records are read.
fn unknown_process(directory: &Path, info: &ProcessInfo, moment: &Moment) -> Process {
    Process {
        part: part_name(directory),
        host: info.host.clone(),
        pid: info.pid,
        launcher_rank: info.environment.rank,
        launcher_size: info.environment.size,
        state: ProcessState::Ended,
        until_ns: moment.pair.realtime_ns,
        last_record_ns: 0,
        last_event_ns: 0,
        event_mask: Some(info.event_mask),
        has_journal: false,
        is_whole: false,
        has_clock: true,
        kept_since_ns: None,
        problems: Vec::new(),
    }
}

/// From CLOCK_MONOTONIC to CLOCK_REALTIME, by the last clock pair.
fn offset(tables: &Tables, clock: &HostClock, started_ns: u64) -> i64 {
    let (monotonic, realtime) = tables
        .clock_pairs
        .last()
        .map_or_else(|| (clock.nanoseconds(tables.span.0), started_ns), |pair| (pair.monotonic_ns, pair.realtime_ns));
    i64::try_from(i128::from(realtime) - i128::from(monotonic)).unwrap_or(0)
}

/// The last time that NCCL called.
fn last_event(tables: &Tables) -> Option<u64> {
    let events = tables.events.heads();
    let events = events.map(|event| event.stop().unwrap_or(event.start));
    let states = tables.events.last_state();
    let calls = tables.comm_calls.iter().map(|call| call.end);
    events.chain(states).chain(calls).chain(tables.last_not_selected).max()
}

/// Notes what is missing in a journal.
fn note_problems(tables: &Tables, polled: &Polled, removed: &Removed, process: &mut Process) {
    let problems = &mut process.problems;
    for problem in polled.problems.iter().take(4) {
        let (path, offset) = (problem.path.display(), problem.offset);
        problems.push(format!("{path} at {offset}: {}", problem.reason));
    }
    let lost = polled.losses.total();
    let switched = tables.switches.iter().any(SwitchAt::leaves_out);
    process.is_whole = lost == 0 && !switched && polled.problems.is_empty();
    if !process.has_clock {
        problems.push("its times are not compared: too few of its clock readings are there".to_owned());
    }
    if process.kept_since_ns.is_some() {
        problems.push(format!(
            "a flight recording: {} from its beginning not kept",
            plural(removed.starts, "event is", "events are")
        ));
    }
    if switched {
        problems.push("its recording was switched, so its place in the order of calls is not known".to_owned());
    }
    if lost > 0 {
        problems
            .push(format!("{} not recorded: where it is may be wrong", plural(lost, "callback was", "callbacks were")));
    }
    if tables.contexts.is_empty() {
        problems.push("it recorded no communicator: NCCL is not initialised in it, or is being initialised".to_owned());
    }
}

/// The ranks of a part with a journal. `realtime` is the process's clock.
fn members(
    number: usize,
    process: &Process,
    info: &ProcessInfo,
    tables: &Tables,
    symbols: &Symbols,
    realtime: impl Fn(u64) -> u64,
) -> Vec<RecordedMember> {
    let comms = Comms::of(tables, &Devices::of(tables));
    let mut ranks = Reader::new(tables, symbols, info.table).ranks();
    let members = tables.contexts.iter().zip(&comms.members);
    let members = members.filter_map(|(context, member)| {
        let comm = comms.comm(member)?;
        let mut rank = ranks.remove(&context.id).unwrap_or_default();
        rank.actor.process = number;
        rank.actor.gpu = member.gpu;
        let context = tables.find_context(context.id);
        rank.finalized = context.is_some_and(|context| tables.is_finalized(context));
        let began = context.and_then(|context| tables.began(context));
        let began_ns = realtime(began.unwrap_or(0));
        if process.kept_since_ns.is_some_and(|since_ns| began_ns < since_ns) {
            rank.calls.positions = Positions::Unknown;
            rank.replays.positions = Positions::Unknown;
        }
        if !process.has_clock {
            rank.open_calls.clear();
        }
        convert_times(&mut rank, &realtime);
        Some(RecordedMember {
            key: CommKey::new(comm.identity, comm.comm_id, comm.ranks, comm.repetition, &process.part),
            comm_name: symbols.text(comm.name).to_owned(),
            ranks_seen: comm.ranks_seen,
            rank: member.rank,
            recorded: rank,
        })
    });
    members.collect()
}

fn convert_times(rank: &mut Rank, realtime: impl Fn(u64) -> u64) {
    let calls = rank.calls.list.iter_mut().chain(&mut rank.replays.list);
    let calls = calls.map(|call| (&mut call.entered_ns, &mut call.progress));
    let messages = rank.messages.iter_mut();
    let messages = messages.map(|message| (&mut message.entered_ns, &mut message.progress));
    for (entered_ns, progress) in calls.chain(messages) {
        *entered_ns = realtime(*entered_ns);
        for wait in &mut progress.waits {
            wait.since_ns = realtime(wait.since_ns);
        }
    }
    for call in &mut rank.open_calls {
        call.since_ns = realtime(call.since_ns);
    }
}

/// The ranks of a part whose journal is removed: only the number of their collectives is known.
fn written_members(process: usize, written: WrittenPart, part: &str) -> Vec<RecordedMember> {
    let positions = match written.removed {
        0 => Positions::Counted,
        _ => Positions::Unknown,
    };
    let members = written.ranks.into_iter().map(|WrittenRank { comm, rank, gpu, collectives }| RecordedMember {
        key: CommKey::new(comm.identity, comm.id, comm.ranks, comm.repetition, part),
        comm_name: comm.name,
        ranks_seen: comm.ranks_seen,
        rank,
        recorded: Rank {
            actor: Actor { process, gpu },
            calls: Tail { before: collectives, positions, ..Tail::default() },
            finalized: true,
            ..Rank::default()
        },
    });
    members.collect()
}
