//! One process: from its journal, or only its ranks if the part is written and its journal removed.

use std::fs::DirEntry;
use std::io::ErrorKind;
use std::path::Path;

use analysis::units::plural;
use clocks::ticks::{Calibration, HostClock};
use job::communicators::Claim;
use job::life::{Evidence, Life};
use journal::clock::{self, ClockPair, TickSource};
use journal::follow::{Follower, Polled};
use journal::host::boot_id;
use journal::part::ProcessInfo;
use journal::part::{JOURNAL, part_name, read_process};
use journal::reader::{Error, Removed, Symbols};
use tables::Tables;
use tables::builder::TableBuilder;
use tables::communicators::devices::Devices;
use tables::communicators::{Comms, impossible_ranks};
use tables::switches::SwitchAt;
use trace::{WrittenPart, is_done};

use super::doing::{Threads, not_recorded};
use super::operations::Reader;
use crate::doing::Doing;
use crate::job::{Actor, Process, Rank};
use crate::operation::{Positions, Tail};

pub(super) struct Part {
    pub(super) process: Process,
    pub(super) claims: Vec<Claim<Rank>>,
}

/// The records of a process up to now. Files removed in the meantime are held open and read.
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
    /// Reads the part in `directory` as process `number`.
    pub(super) fn read(number: usize, directory: &Path, moment: &Moment) -> Self {
        let (info, problem) = read_process(directory);
        let mut process = unknown_process(directory, &info, moment);
        let is_described = problem.is_empty();
        if !is_described {
            process.event_mask = None;
            process.problems.push(format!("{problem}; what it says of host, rank, NCCL and events is not known"));
        }
        let journal = directory.join(JOURNAL);
        if journal.is_dir() {
            match Recording::read(&journal) {
                // If the part was written and its journal removed in the meantime, the part is done.
                Ok(Recording { polled: Polled { is_removed: true, .. }, .. }) | Err(_) if is_done(directory) => {}
                Ok(recording) => {
                    let mut part = Self::of_journal(number, process, &info, recording, moment);
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
                    Some(format!("its journal is missing: {} was removed, or lost", journal.display()))
                }
                // Why it cannot be read is said above.
                _ if journal.is_dir() => None,
                _ => Some(
                    "no journal that can be read from here (it may lie on its own host: NCCL_OTF2_JOURNAL_DIR)"
                        .to_owned(),
                ),
            });
        }
        Self { process, claims }
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
        let claims = ranks(number, &mut process, info, &tables, journal.symbols(), realtime);
        process.problems.extend(impossible(impossible_ranks(&tables)));
        Self { process, claims }
    }
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
        state: Life::Ended,
        until_ns: moment.pair.realtime_ns,
        event_mask: Some(info.event_mask),
        has_clock: true,
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

fn note_problems(tables: &Tables, polled: &Polled, removed: &Removed, process: &mut Process) {
    let problems = &mut process.problems;
    problems.extend(polled.problems.iter().take(4).map(ToString::to_string));
    let lost = polled.losses.total();
    let switched = tables.switches.iter().any(SwitchAt::leaves_out);
    process.is_whole = lost == 0 && !switched && polled.problems.is_empty();
    if !process.has_clock {
        problems.push("its times are not compared: too few of its clock readings are there".to_owned());
    }
    if process.kept_since_ns.is_some() {
        let events = plural(removed.starts, "event is", "events are");
        problems.push(format!("a flight recording: {events} from its beginning not kept"));
    }
    if switched {
        problems.push("its recording was switched, so its place in the order of calls is not known".to_owned());
    }
    if lost > 0 {
        let callbacks = plural(lost, "callback was", "callbacks were");
        problems.push(format!("{callbacks} not recorded: where it is may be wrong"));
    }
    let ranges = not_recorded(tables);
    if ranges > 0 {
        let ranges = plural(ranges, "NVTX range was", "NVTX ranges were");
        problems.push(format!("{ranges} not recorded: which call and which ranges it is in is not known"));
    }
    if tables.contexts.is_empty() {
        problems.push("it recorded no communicator: NCCL is not initialised in it, or is being initialised".to_owned());
    }
}

/// A problem for each communicator for which NCCL stated these impossible ranks and sizes.
fn impossible(ranks: impl IntoIterator<Item = (i32, i32)>) -> impl Iterator<Item = String> {
    ranks.into_iter().map(|(rank, ranks)| {
        format!(
            "says that it is rank {rank} of {ranks} of a communicator, which cannot be: who else is in it is not known"
        )
    })
}

/// The ranks of a process with a journal. `realtime` converts the process's times.
fn ranks(
    number: usize,
    process: &mut Process,
    info: &ProcessInfo,
    tables: &Tables,
    symbols: &Symbols,
    realtime: impl Fn(u64) -> u64,
) -> Vec<Claim<Rank>> {
    let comms = Comms::of(tables, &Devices::of(tables));
    let mut recorded = Reader::new(tables, symbols, info.table).ranks();
    let threads = Threads::of(tables, symbols, &comms, process.state == Life::Ended);
    if process.has_clock {
        process.shows_calls = threads.show_calls;
        process.doing = threads.of_gpus();
        process.doing.values_mut().for_each(|doing| doing.convert_times(&realtime));
    }
    Claim::all(&comms, symbols, |context, member| {
        let id = tables.contexts.get(context).map_or(0, |context| context.id);
        let mut rank = recorded.remove(&id).unwrap_or_default();
        rank.actor = Actor { process: number, gpu: member.gpu };
        let context = tables.find_context(id);
        rank.finalized = context.is_some_and(|context| tables.is_finalized(context));
        let began_ns = realtime(context.and_then(|context| tables.began(context)).unwrap_or(0));
        if process.kept_since_ns.is_some_and(|since_ns| began_ns < since_ns) {
            rank.calls.positions = Positions::Unknown;
            rank.replays.positions = Positions::Unknown;
        }
        match process.has_clock {
            true => rank.doing = context.map_or_else(Doing::default, |context| threads.of_context(context)),
            false => rank.open_calls.clear(),
        }
        convert_times(&mut rank, &realtime);
        rank
    })
}

fn convert_times(rank: &mut Rank, realtime: impl Fn(u64) -> u64) {
    let calls = rank.calls.list.iter_mut().chain(&mut rank.replays.list);
    let calls = calls.map(|call| (&mut call.entered_ns, &mut call.progress));
    let messages = rank.messages.iter_mut().map(|message| (&mut message.entered_ns, &mut message.progress));
    for (entered_ns, progress) in calls.chain(messages) {
        *entered_ns = realtime(*entered_ns);
        progress.waits.iter_mut().for_each(|wait| wait.since_ns = realtime(wait.since_ns));
    }
    rank.open_calls.iter_mut().for_each(|call| call.since_ns = realtime(call.since_ns));
    rank.doing.convert_times(&realtime);
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
