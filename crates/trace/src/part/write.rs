//! The write step: the journal of one process becomes a *part*, event files and a sidecar.
//!
//! ```text
//! journal ─ read ─ assemble ─ clocks ─ correlate ─ draw ─ one lane after the other ─ traces/<lane>.evt
//!                                                                                  └ definitions, done
//! ```
//!
//! Needs nothing of the process that recorded: it may be alive, over, or killed. Everything is made in a
//! directory of its own inside the part and renamed into place, `done` last, so it can be broken off and
//! done again at any point, by anybody.

mod lanes;

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use self::lanes::Lanes;
use crate::archive::matching;
use crate::clocks::alignment::rows::Traffic;
use crate::clocks::anchors;
use crate::emit::attributes::Attribute;
use crate::emit::definitions::Tables;
use crate::error::{Error, io_error};
use crate::links::pxn::{self, ForOthers};
use crate::part::claim::{Claim, still_ours};
use crate::part::describe;
use crate::part::part_files::PROVISIONAL;
use crate::part::sidecar::{LaneDefinition, SIDECAR_FORMAT, Sidecar};
use crate::part::staging::{Staging, put_in_place};
use crate::part::used_journal;
use crate::progress::Progress;
use crate::tables::assemble::Assembler;
use crate::tables::counts::Counts;
use crate::timeline::canvas::{Drawing, Scene};
use crate::timeline::draw::{Timeline, draw};
use crate::timeline::measurement;
use journal::part::options::ArchiveOptions;
use journal::part::scorep::ScorepReport;
use journal::private;
use journal::reader::{Journal, Outcome};

pub use crate::part::part_files::{
    DEFINITIONS, DONE, JOURNAL, PROCESS, TRACES, assemble, is_done, is_provisional, part_name,
    read_process, read_sidecar, write_sidecar,
};

/// What stagings of this step are called.
pub(crate) const STAGING: &str = ".write";

/// How to write a part.
#[derive(Clone, Copy, Debug, Default)]
pub struct WriteOptions {
    /// When to give up.
    pub deadline: Option<Instant>,
    /// Whether the journal stays when the part is written. One that could not be read to its end stays always.
    pub keep_journal: bool,
    /// Whether the process still records: then the part is what there is so far, the journal stays, and
    /// whoever finalizes later writes it again.
    pub provisional: bool,
    /// What of the recorded is written, and how; `None` for what the process was told.
    pub archive: Option<ArchiveOptions>,
}

/// What was written.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PartSummary {
    /// Name of the part.
    pub part: String,
    /// Lanes.
    pub lanes: u64,
    /// OTF2 events.
    pub events: u64,
    /// Records read.
    pub records: u64,
    /// What became of everything.
    pub counts: Counts,
    /// What was wrong with the journal.
    pub problems: Vec<String>,
}

/// Writes the part at `directory` from its journal.
///
/// # Errors
/// The journal cannot be read at all, a file cannot be written, or the deadline passed: then the part is
/// as it was.
pub fn write(
    directory: &Path,
    options: &WriteOptions,
    progress: &dyn Progress,
) -> Result<PartSummary, Error> {
    let patience = Instant::now() + PATIENCE;
    let give_up = options
        .deadline
        .map_or(patience, |deadline| deadline.min(patience));
    let _claim = claim(directory, give_up)?;
    write_claimed(directory, options, progress)
}

/// The file of who writes a part.
const CLAIM: &str = ".write.lock";
/// How long to wait for another who writes it.
const PATIENCE: Duration = Duration::from_secs(600);

/// The right to write a part: two who did it at once would take away each other's files.
///
/// # Errors
/// Another process has it for too long, or nothing can be written there.
fn claim(directory: &Path, give_up: Instant) -> Result<Claim, Error> {
    let staging = Staging::create(directory, STAGING)?;
    Claim::take(directory.join(CLAIM), &staging, give_up)
}

/// The same for a finalizer, who waits.
///
/// # Errors
/// As for [`claim`].
pub(crate) fn claim_patiently(directory: &Path) -> Result<Claim, Error> {
    claim(directory, Instant::now() + PATIENCE)
}

/// [`write()`] for who has the claim.
///
/// # Errors
/// As for [`write()`].
pub(crate) fn write_claimed(
    directory: &Path,
    options: &WriteOptions,
    progress: &dyn Progress,
) -> Result<PartSummary, Error> {
    let name = part_name(directory);
    let journal = Journal::open(&directory.join(JOURNAL))?;
    let tick_source = journal.tick_source;
    let process_id = journal.process_id;
    let process_tag = journal.process_tag;
    let session_start_ns = journal.session_start_realtime_ns;
    let mut assembler = Assembler::for_bytes(journal.bytes());
    let outcome = journal.read(&mut assembler);
    says_no_less(directory, &outcome)?;
    let (mut assembly, clock) =
        assembler.finish_by_clock(&outcome.losses, &outcome.not_kept, process_tag, tick_source);
    assembly.process_id = process_id;
    assembly.process_tag = process_tag;
    let (mut process, process_problem) = read_process(directory);
    let (helped_by, help) = pxn::from_neighbours(directory, &process, process_tag);
    assembly.help = help;
    check(options, directory)?;
    let timeline = Timeline::of(&assembly, &outcome.symbols);
    let archive = options.archive.unwrap_or(process.archive);
    let scene = Scene {
        options: archive,
        ..timeline.scene(&assembly, &outcome.symbols)
    };
    let (drawing, mut counts) = draw(&scene);
    counts.add(&assembly.counts);
    let tables = Tables::of(&assembly, &timeline.correlation, &drawing, &outcome.symbols);
    check(options, directory)?;
    let staging = Staging::create(directory, STAGING)?;
    let Drawing { lanes, threads, .. } = drawing;
    let lanes = Lanes {
        directory,
        options,
        scene: &scene,
        tables: &tables,
        threads: &threads,
    }
    .write(lanes, staging.path(), &mut counts, progress)?;
    if process.pid == 0 {
        process.pid = process_id;
        process.session_start_realtime_ns = session_start_ns;
    }
    let (calls, collectives) = matching::record(
        &assembly,
        &timeline.correlation,
        &timeline.comms,
        &outcome.symbols,
    );
    calls.write(&staging.path().join(matching::CALLS))?;
    let for_others = pxn::help(&assembly, &timeline.correlation);
    if let Some(for_others) = ForOthers::new(&process, for_others) {
        for_others.write(&staging.path().join(pxn::FOR_OTHERS))?;
    }
    let not_kept = &assembly.not_kept;
    let kept_since_ns = (not_kept.segments > 0).then(|| clock.nanoseconds(not_kept.since_ticks));
    let sidecar = Sidecar {
        format: SIDECAR_FORMAT,
        part: name,
        process,
        process_problem,
        options: archive,
        event_chunk_bytes: otf2::EVENT_CHUNK_BYTES,
        clock: clock.quality,
        anchors: anchors::of(&assembly.clock_pairs),
        span_ns: span(&lanes, assembly.span),
        strings: tables.strings.clone(),
        attributes: Attribute::ALL
            .iter()
            .map(|a| describe::attribute(*a))
            .collect(),
        regions: tables.regions.iter().map(describe::region).collect(),
        comms: describe::comms(&timeline.comms, &outcome.symbols),
        gpus: describe::gpus(&timeline.comms),
        lanes,
        gpu_work: timeline.correlation.gpu.definition(&outcome.symbols),
        gpu_clocks: describe::gpu_clocks(&timeline),
        collectives,
        offered: pxn::offered(&assembly, &timeline.comms),
        work_for_others: pxn::work(&assembly, &timeline.correlation),
        helped_by,
        help_counted: pxn::counted(&assembly, &timeline.correlation),
        traffic: Traffic::of(&scene),
        counts,
        kept_since_ns,
        switches: measurement::definitions(&assembly),
        scorep: ScorepReport::read(directory),
        records: outcome.records,
        // Of a process that records on, counters and records are not read at one moment.
        started: (!options.provisional).then_some(outcome.started),
        problems: problems(&outcome),
    };
    commit(directory, &staging, &sidecar, options.provisional)?;
    // What could not be used of a damaged journal is nowhere else.
    if !options.keep_journal && !options.provisional && sidecar.problems.is_empty() {
        used_journal::remove(directory, progress);
    }
    Ok(summary(&sidecar))
}

/// What is written is written again only from all it came from: somebody may have been stopped while removing the
/// journal.
fn says_no_less(directory: &Path, outcome: &Outcome) -> Result<(), Error> {
    let written = is_done(directory).then(|| read_sidecar(directory).ok());
    match written.flatten() {
        Some(before) if before.records > outcome.records => Err(Error::Shrunk {
            path: directory.join(JOURNAL),
            records: outcome.records,
            written: before.records,
        }),
        _ => Ok(()),
    }
}

fn check(options: &WriteOptions, directory: &Path) -> Result<(), Error> {
    match options.deadline {
        Some(deadline) if Instant::now() >= deadline => Err(Error::Deadline {
            path: directory.to_owned(),
        }),
        _ => Ok(()),
    }
}

fn span(lanes: &[LaneDefinition], recorded: (u64, u64)) -> (u64, u64) {
    let used = || lanes.iter().filter(|lane| lane.events > 0);
    let first = used().map(|lane| lane.first_ns).min();
    let last = used().map(|lane| lane.last_ns).max();
    match (first, last) {
        (Some(first), Some(last)) => (first, last),
        _ => (recorded.0, recorded.0),
    }
}

fn problems(outcome: &Outcome) -> Vec<String> {
    let lines = outcome.problems.iter().map(|problem| {
        let file = problem.path.file_name().unwrap_or(problem.path.as_os_str());
        format!(
            "{} at byte {}: {}; {} bytes left out",
            file.to_string_lossy(),
            problem.offset,
            problem.reason,
            problem.lost_bytes
        )
    });
    lines.collect()
}

fn commit(
    directory: &Path,
    staging: &Staging,
    sidecar: &Sidecar,
    provisional: bool,
) -> Result<(), Error> {
    write_sidecar(&staging.path().join(DEFINITIONS), sidecar)?;
    still_ours(&directory.join(CLAIM))?;
    // Without `done` what is in place may be half of an older attempt: it goes first.
    let done = directory.join(DONE);
    match fs::remove_file(&done) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            return Err(io_error("remove", &done)(error));
        }
        _ => {}
    }
    put_in_place(staging, TRACES, directory)?;
    put_in_place(staging, matching::CALLS, directory)?;
    if staging.path().join(pxn::FOR_OTHERS).exists() {
        put_in_place(staging, pxn::FOR_OTHERS, directory)?;
    }
    put_in_place(staging, DEFINITIONS, directory)?;
    let mark = staging.path().join(DONE);
    let said = if provisional { PROVISIONAL } else { "" };
    private::write(&mark, said.as_bytes()).map_err(io_error("write", &mark))?;
    put_in_place(staging, DONE, directory)
}

fn summary(sidecar: &Sidecar) -> PartSummary {
    PartSummary {
        part: sidecar.part.clone(),
        lanes: sidecar.lanes.len() as u64,
        events: sidecar.lanes.iter().map(|lane| lane.events).sum(),
        records: sidecar.records,
        counts: sidecar.counts.clone(),
        problems: sidecar.problems.clone(),
    }
}
