//! From a job's directory to a [`Job`]: the parts are read in parallel, then put together.
//!
//! Nothing is asked of the processes, and nothing is changed: they may run, hang, or be dead. Of a part that is
//! written and has no journal any more only its ranks are known.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;

use anyhow::{Context as _, Result, bail};
use journal::clock::{self, ClockPair, TickSource};
use journal::part::process::ProcessInfo;
use journal::reader::{Journal, Outcome};
use trace::clocks::ticks::{Calibration, HostClock};
use trace::links::comm::{Comms, Identity};
use trace::links::gpu_work::devices::Devices;
use trace::part_directories;
use trace::progress::Progress;
use trace::tables::Tables;
use trace::tables::builder::TableBuilder;
use trace::tables::switches::SwitchAt;
use trace::{CommIdentity, LocationKind, Manifest};
use trace::{JOURNAL, is_done, part_name, read_process};

use super::align;
use super::job::{Actor, Comm, Job, Life, Place, Process, Rank, Tail};
use super::life::Here;
use super::trace::{Reader, Story};
use crate::units::plural;

/// What identifies a communicator over processes: how it does, id, size, repetition, and the part where it is
/// not identified at all.
type CommKey = (u8, u64, u32, u32, String);

/// A rank as its process has it.
struct Seat {
    key: CommKey,
    name: String,
    highest: u32,
    rank: u32,
    story: Rank,
}

/// One part, read.
struct Part {
    process: Process,
    seats: Vec<Seat>,
}

/// The moment of looking, by all clocks.
struct Moment {
    here: Here,
    pair: ClockPair,
    tick_source: TickSource,
}

/// Reads the job in `directory`.
///
/// # Errors
///
/// When there are no parts to read, or a newer version wrote one.
pub(crate) fn job(directory: &Path, progress: &dyn Progress) -> Result<Job> {
    let directories = part_directories(directory)?;
    if directories.is_empty() {
        bail!(
            "{}: no process has recorded anything here; is the plugin loaded (NCCL_DEBUG=INFO says so), and does it record in this directory (NCCL_OTF2_DIR)?",
            directory.display()
        );
    }
    let tick_source = clock::select();
    let pair = ClockPair::read();
    let moment = Moment {
        here: Here::look(pair.realtime_ns),
        pair,
        tick_source,
    };
    progress.begin("journals", directories.len() as u64);
    let parts = read_all(&directories, &moment, progress)?;
    progress.end();
    Ok(put_together(parts, moment.pair.realtime_ns))
}

/// Reads the parts with all cores; the result is in the order of the directories.
fn read_all(
    directories: &[PathBuf],
    moment: &Moment,
    progress: &dyn Progress,
) -> Result<Vec<Part>> {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let next = AtomicUsize::new(0);
    let (sender, receiver) = mpsc::channel();
    let mut parts: BTreeMap<usize, Part> = BTreeMap::new();
    std::thread::scope(|scope| -> Result<()> {
        for number in 0..cores.min(directories.len()) {
            let sender = sender.clone();
            let next = &next;
            std::thread::Builder::new()
                .name(format!("reader {number}"))
                .spawn_scoped(scope, move || {
                    loop {
                        let at = next.fetch_add(1, Ordering::Relaxed);
                        let Some(directory) = directories.get(at) else {
                            break;
                        };
                        // Nobody listens after an error: the tool ends.
                        if sender.send((at, part(at, directory, moment))).is_err() {
                            break;
                        }
                    }
                })
                .context("cannot start a thread")?;
        }
        drop(sender);
        for (at, part) in receiver {
            parts.insert(at, part?);
            progress.step();
        }
        Ok(())
    })?;
    Ok(parts.into_values().collect())
}

fn part(number: usize, directory: &Path, moment: &Moment) -> Result<Part> {
    let (info, problem) = read_process(directory);
    let mut process = Process {
        part: part_name(directory),
        host: info.host.clone(),
        pid: info.pid,
        launcher_rank: info.environment.rank,
        launcher_size: info.environment.size,
        life: Life::Ended,
        until_ns: moment.pair.realtime_ns,
        last_record_ns: 0,
        last_event_ns: 0,
        event_mask: info.event_mask,
        nccl_version: info.nccl_version.clone(),
        has_journal: false,
        is_whole: false,
        kept_since_ns: None,
        problems: Vec::new(),
    };
    if !problem.is_empty() {
        process.problems.push(problem);
    }
    let journal = directory.join(JOURNAL);
    if journal.is_dir() {
        match Journal::open(&journal) {
            Ok(journal) => return Ok(recorded(number, process, &info, journal, moment)),
            // Written and removed while we looked: then the part is done.
            Err(_) if is_done(directory) => {}
            Err(error) => process.problems.push(error.to_string()),
        }
    }
    let seats = if is_done(directory) {
        match Manifest::read(directory) {
            Ok(manifest) => written(number, &manifest, &mut process),
            Err(error) => {
                process.problems.push(error.to_string());
                Vec::new()
            }
        }
    } else {
        process.life = moment.here.life(&info, info.session_start_realtime_ns);
        process.problems.push(
            "no journal that can be read from here (it may lie on its own host: NCCL_OTF2_JOURNAL_DIR)"
                .to_owned(),
        );
        Vec::new()
    };
    Ok(Part { process, seats })
}

/// A part with a journal.
fn recorded(
    number: usize,
    mut process: Process,
    info: &ProcessInfo,
    journal: Journal,
    moment: &Moment,
) -> Part {
    let source = journal.tick_source;
    let (process_id, process_tag) = (journal.process_id, journal.process_tag);
    let started_ns = journal.session_start_realtime_ns;
    let mut builder = TableBuilder::default();
    let outcome = journal.read(&mut builder);
    let mut tables = builder.finish(&outcome.losses, &outcome.not_kept, process_tag);
    tables.process_id = process_id;
    tables.process_tag = process_tag;
    let last_ticks = tables.span.1;
    if moment.here.has(info) && source == moment.tick_source {
        // One clock for all of a host: what it shows now is as good as what it showed then, and later.
        tables.clock_pairs.push(moment.pair);
    }
    let clock = HostClock::new(source, &tables.clock_pairs);
    if clock.quality.calibration == Calibration::Assumed {
        process
            .problems
            .push("its times are wrong: it recorded too short to know its clock".to_owned());
    }
    let offset = offset(&tables, &clock, started_ns);
    let realtime = |ns: u64| ns.saturating_add_signed(offset);
    tables.to_nanoseconds(&clock);
    process.last_record_ns = realtime(clock.nanoseconds(last_ticks));
    let kept_since_ns =
        (tables.not_kept.segments > 0).then(|| clock.nanoseconds(tables.not_kept.since_ticks));
    process.kept_since_ns = kept_since_ns.map(realtime);
    process.last_event_ns = last_event(&tables).map_or(0, realtime);
    process.has_journal = true;
    process.life = moment.here.life(info, process.last_record_ns);
    let ends = tables.comm_calls.iter().filter(|call| !call.is_init);
    let is_finalized = !tables.contexts.is_empty() && ends.count() == tables.contexts.len();
    if process.life == Life::Gone && is_finalized {
        process.life = Life::Ended;
    }
    if !matches!(process.life, Life::Running | Life::Stopped) {
        process.until_ns = process.last_record_ns;
    }
    remark(&tables, &outcome, &mut process);
    let seats = seats(
        number,
        &process,
        info,
        &tables,
        &outcome,
        kept_since_ns,
        &realtime,
    );
    Part { process, seats }
}

/// From CLOCK_MONOTONIC to CLOCK_REALTIME, by the last clock pair.
fn offset(tables: &Tables, clock: &HostClock, started_ns: u64) -> i64 {
    let (monotonic, realtime) = tables.clock_pairs.last().map_or_else(
        || (clock.nanoseconds(tables.span.0), started_ns),
        |pair| (pair.monotonic_ns, pair.realtime_ns),
    );
    i64::try_from(i128::from(realtime) - i128::from(monotonic)).unwrap_or(0)
}

/// The last time that NCCL called.
fn last_event(tables: &Tables) -> Option<u64> {
    let events = tables.events.heads();
    let events = events.map(|event| event.stop().unwrap_or(event.start));
    let states = tables.events.last_state();
    let calls = tables.comm_calls.iter().map(|call| call.end);
    events.chain(states).chain(calls).max()
}

fn remark(tables: &Tables, outcome: &Outcome, process: &mut Process) {
    for problem in outcome.problems.iter().take(4) {
        process.problems.push(format!(
            "{} at {}: {}",
            problem.path.display(),
            problem.offset,
            problem.reason
        ));
    }
    let lost = outcome.losses.total();
    let switched = tables.switches.iter().any(SwitchAt::leaves_out);
    process.is_whole = lost == 0 && !switched && outcome.problems.is_empty();
    if process.kept_since_ns.is_some() {
        process.problems.push(format!(
            "a flight recording: {} from its beginning not kept",
            plural(outcome.not_kept.starts, "event is", "events are")
        ));
    }
    if switched {
        process.problems.push(
            "its recording was switched, so its place in the order of calls is not known"
                .to_owned(),
        );
    }
    if lost > 0 {
        process.problems.push(format!(
            "{} not recorded: where it is may be wrong",
            plural(lost, "callback was", "callbacks were")
        ));
    }
    if tables.contexts.is_empty() {
        process.problems.push(
            "it recorded no communicator: NCCL is not initialised in it, or is being initialised"
                .to_owned(),
        );
    }
}

fn seats(
    number: usize,
    process: &Process,
    info: &ProcessInfo,
    tables: &Tables,
    outcome: &Outcome,
    kept_since_ns: Option<u64>,
    realtime: &dyn Fn(u64) -> u64,
) -> Vec<Seat> {
    let comms = Comms::of(tables, &Devices::of(tables));
    let mut stories = Reader::new(tables, &outcome.symbols, info.table).stories();
    let mut seats = Vec::new();
    for (context, member) in tables.contexts.iter().zip(&comms.members) {
        let Some(comm) = comms.comm(member) else {
            continue;
        };
        let class = match comm.identity {
            Identity::Given => 0,
            Identity::Hash => 1,
            Identity::Context => 2,
        };
        let name = outcome.symbols.text(comm.name);
        let at = tables.find_context(context.id);
        let finalized = at.is_some_and(|at| tables.is_finalized(at));
        let mut story = stories.remove(&context.id).unwrap_or_default();
        let began_ns = at.and_then(|at| tables.began(at)).unwrap_or(0);
        if kept_since_ns.is_some_and(|since_ns| began_ns < since_ns) {
            story.calls.place = Place::Unknown;
            story.replays.place = Place::Unknown;
        }
        let actor = Actor {
            process: number,
            gpu: member.gpu,
        };
        seats.push(Seat {
            key: key(
                class,
                comm.comm_id,
                comm.ranks,
                comm.repetition,
                &process.part,
            ),
            name: name.to_owned(),
            highest: comm.ranks_seen,
            rank: member.rank,
            story: rank(actor, story, finalized, realtime),
        });
    }
    seats
}

fn key(class: u8, id: u64, ranks: u32, repetition: u32, part: &str) -> CommKey {
    let part = if class == 2 { part } else { "" };
    (class, id, ranks, repetition, part.to_owned())
}

/// A rank with its times as everybody has them.
fn rank(actor: Actor, story: Story, finalized: bool, realtime: &dyn Fn(u64) -> u64) -> Rank {
    let mut rank = Rank {
        actor,
        calls: story.calls,
        replays: story.replays,
        messages: story.messages,
        message_counts: story.message_counts,
        inside: story.inside,
        finalized,
    };
    let calls = rank.calls.list.iter_mut().chain(&mut rank.replays.list);
    let moments = calls.map(|call| (&mut call.entered_ns, &mut call.progress));
    let messages = rank.messages.iter_mut();
    let messages = messages.map(|message| (&mut message.entered_ns, &mut message.progress));
    for (entered_ns, progress) in moments.chain(messages) {
        *entered_ns = realtime(*entered_ns);
        for wait in &mut progress.waits {
            wait.since_ns = realtime(wait.since_ns);
        }
    }
    for inside in &mut rank.inside {
        inside.since_ns = realtime(inside.since_ns);
    }
    rank
}

/// The ranks of a part whose journal is gone.
fn written(number: usize, manifest: &Manifest, process: &mut Process) -> Vec<Seat> {
    let lanes = manifest.locations.iter().filter(|lane| lane.sibling == 0);
    let members = lanes.filter_map(|lane| {
        let LocationKind::Communicator { comm, rank, gpu } = lane.kind else {
            return None;
        };
        let comm = manifest.comms.get(usize::try_from(comm).ok()?)?;
        let class = match comm.identity {
            CommIdentity::Id => 0,
            CommIdentity::Hash => 1,
            CommIdentity::Part => 2,
        };
        let actor = Actor {
            process: number,
            gpu,
        };
        Some(Seat {
            key: key(class, comm.id, comm.ranks, comm.repetition, &process.part),
            name: comm.name.clone(),
            highest: comm.ranks_seen,
            rank,
            story: Rank {
                actor,
                calls: Tail {
                    before: lane.collectives,
                    list: Vec::new(),
                    place: if manifest.counts.not_kept > 0 {
                        Place::Unknown
                    } else {
                        Place::Counted
                    },
                },
                replays: Tail::default(),
                messages: Vec::new(),
                message_counts: BTreeMap::new(),
                inside: Vec::new(),
                finalized: true,
            },
        })
    });
    let seats: Vec<Seat> = members.collect();
    process.event_mask = manifest.process.event_mask;
    seats
}

fn put_together(parts: Vec<Part>, now_ns: u64) -> Job {
    let mut job = Job {
        now_ns,
        ..Job::default()
    };
    let mut comms: BTreeMap<CommKey, Comm> = BTreeMap::new();
    for part in parts {
        for seat in part.seats {
            let (class, id, size, repetition, _) = &seat.key;
            let comm = comms.entry(seat.key.clone()).or_insert_with(|| Comm {
                name: String::new(),
                id: if *class == 2 { 0 } else { *id },
                repetition: *repetition,
                size: *size,
                knows_size: *size > 0,
                ranks: BTreeMap::new(),
            });
            if comm.name.is_empty() {
                comm.name = seat.name;
            }
            if !comm.knows_size {
                comm.size = comm.size.max(seat.highest).max(seat.rank.saturating_add(1));
            }
            // A rank twice: an id that was used again, by another job in this directory. The later part counts.
            comm.ranks.insert(seat.rank, seat.story);
        }
        job.processes.push(part.process);
    }
    job.comms = comms.into_values().collect();
    for comm in &mut job.comms {
        align::align(comm);
        if comm.name.is_empty() {
            comm.name = format!("{:#018x}", comm.id);
        }
        if comm.repetition > 0 {
            comm.name = format!("{} ({})", comm.name, comm.repetition + 1);
        }
    }
    job
}
